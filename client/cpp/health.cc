#include "client/cpp/health.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace phitap::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The one field of a HealthCheckRequest and of a HealthCheckResponse. Debian's
// gRPC has the service, but not its messages.
constexpr uint32_t kServiceTag = 1 << 3 | 2;
constexpr uint32_t kStatusTag = 1 << 3 | 0;

grpc::ByteBuffer Encode(absl::string_view service) {
  std::string message;
  if (!service.empty()) {
    google::protobuf::io::StringOutputStream text(&message);
    google::protobuf::io::CodedOutputStream out(&text);
    out.WriteTag(kServiceTag);
    out.WriteVarint32(static_cast<uint32_t>(service.size()));
    out.WriteRaw(service.data(), static_cast<int>(service.size()));
  }
  const grpc::Slice slice(message);
  return grpc::ByteBuffer(&slice, 1);
}

// Fields that are not known are passed over, and a status that is missing is
// kUnknown, as in every message.
absl::StatusOr<ServingStatus> Decode(grpc::ByteBuffer message) {
  grpc::ProtoBufferReader reader(&message);
  CodedInputStream in(&reader);
  uint32_t status = 0;
  while (const uint32_t tag = in.ReadTag()) {
    if (!(tag == kStatusTag ? in.ReadVarint32(&status)
                            : WireFormatLite::SkipField(&in, tag))) {
      return absl::DataLossError("the health check's answer is damaged");
    }
  }
  return status <= static_cast<uint32_t>(ServingStatus::kServiceUnknown)
             ? static_cast<ServingStatus>(status)
             : ServingStatus::kUnknown;
}

}  // namespace

absl::string_view NameOf(ServingStatus status) {
  switch (status) {
    case ServingStatus::kServing:
      return "SERVING";
    case ServingStatus::kNotServing:
      return "NOT_SERVING";
    case ServingStatus::kServiceUnknown:
      return "SERVICE_UNKNOWN";
    case ServingStatus::kUnknown:
      break;
  }
  return "UNKNOWN";
}

absl::StatusOr<ServingStatus> CheckHealth(
    const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext* context,
    absl::string_view service) {
  grpc::GenericStub stub(channel);
  const grpc::ByteBuffer request = Encode(service);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(context, "/grpc.health.v1.Health/Check", grpc::StubOptions(),
                 &request, &response, [&](grpc::Status ended) {
                   status = std::move(ended);
                   done.Notify();
                 });
  done.WaitForNotification();
  if (status.ok()) return Decode(std::move(response));
  return absl::Status(
      static_cast<absl::StatusCode>(status.error_code()),
      status.error_code() == grpc::StatusCode::NOT_FOUND
          ? absl::StrCat("the server has no service `", service, "`")
          : status.error_message());
}

}  // namespace phitap::client
