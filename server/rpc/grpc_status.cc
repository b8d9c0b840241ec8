#include "server/rpc/grpc_status.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/retry_hint.h"

namespace phitap {
namespace {

// Percent-encoding may treble it on the wire.
constexpr size_t kMaxMessageBytes = 2000;
constexpr size_t kMaxFieldBytes = 500;

// At most `max_bytes`, cut between characters.
std::string Cut(std::string text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return text.substr(0, end) + "…";
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Cut(std::string(status.message()), kMaxMessageBytes));
}

grpc::Status ToGrpc(const absl::Status& status,
                    grpc::CallbackServerContext& context) {
  const std::string field = FieldOf(status);
  // Metadata takes printable ASCII only.
  if (!field.empty() && field.size() <= kMaxFieldBytes &&
      std::all_of(field.begin(), field.end(), absl::ascii_isprint)) {
    context.AddTrailingMetadata(kFieldMetadata, field);
  }
  const std::optional<absl::Duration> retry_hint = RetryHintOf(status);
  if (retry_hint.has_value()) {
    context.AddTrailingMetadata(
        kRetryMetadata, absl::StrCat(absl::ToInt64Milliseconds(*retry_hint)));
  }
  return ToGrpc(status);
}

}  // namespace phitap
