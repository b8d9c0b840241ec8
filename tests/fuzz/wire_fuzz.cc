// Messages of a stream: what the server writes by hand, and what the C++ client
// reads by hand, against the generated classes.
// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/response_wire.h"
#include "server/rpc/tensor_wire.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/message_input.h"

namespace phitap {

const MessageInput& Inputs() {
  static const auto& inputs =
      *new MessageInput(v1::TraceResponse::default_instance(), {"run", "ä"});
  return inputs;
}

namespace {

// Cut into slices, as sockets deliver.
grpc::ByteBuffer InSlices(const std::string& bytes, size_t size) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += size) {
    slices.emplace_back(bytes.substr(at, size));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  Expect(buffer.Dump(&slices).ok(), "a message can be sent");
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// Maps in order.
std::string Encoded(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

// Without what this version does not know.
std::string Known(v1::TraceResponse message) {
  message.DiscardUnknownFields();
  return message.SerializeAsString();
}

// The client's reading, put together again; none where it refuses.
std::optional<v1::TraceResponse> Read(grpc::ByteBuffer buffer) {
  auto read = client::DecodeResponse(&buffer);
  if (!read.ok()) {
    Expect(absl::IsDataLoss(read.status()), read.status().ToString());
    return std::nullopt;
  }
  if (!read->message.has_chunk()) {
    Expect(read->chunk_data.empty(), "only a chunk has data");
    return read->message;
  }
  Expect(read->message.chunk().data().empty(), "data is not copied");
  std::string& data = *read->message.mutable_chunk()->mutable_data();
  for (const auto piece : read->chunk_data) {
    data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return read->message;
}

// A chunk comes alone.
bool IsChunkAmongOthers(const std::string& bytes) {
  google::protobuf::UnknownFieldSet fields;
  fields.ParseFromString(bytes);
  if (fields.field_count() < 2) return false;
  const auto& first = fields.field(0);
  return first.number() == v1::TraceResponse::kChunkFieldNumber &&
         first.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED;
}

// The client takes what the generated classes take, and sees the same in it.
void ExpectRead(const std::string& bytes, size_t slice_bytes) {
  v1::TraceResponse generated;
  const bool is_message = generated.ParseFromString(bytes);
  const auto read = Read(InSlices(bytes, slice_bytes));
  if (!read.has_value()) {
    Expect(!is_message || IsChunkAmongOthers(bytes) ||
               (generated.has_chunk() && Known(generated) != bytes),
           "the client takes every message that a server sends");
    return;
  }
  Expect(is_message, "the client takes no bytes that are no message");
  Expect(Known(*read) == Known(generated), "the client reads what was sent");
}

// What the server writes is what the generated classes would.
void ExpectWritten(const v1::TraceResponse& message) {
  if (!message.has_chunk()) {
    Expect(BytesOf(EncodeResponse(message)) == message.SerializeAsString(),
           "the server writes what the generated classes do");
    return;
  }
  const v1::TensorChunk& chunk = message.chunk();
  const auto data = std::make_shared<const std::string>(chunk.data());
  OutgoingChunk outgoing = {
      .tensor = chunk.tensor(),
      .offset_bytes = chunk.offset_bytes(),
      .bytes = absl::MakeConstSpan(
          reinterpret_cast<const std::byte*>(data->data()), data->size()),
      .owner = data};
  if (chunk.has_xxh3()) outgoing.xxh3 = chunk.xxh3();
  const std::string bytes = BytesOf(EncodeChunk(outgoing));
  v1::TraceResponse generated;
  Expect(generated.ParseFromString(bytes), "a chunk is a message");
  Expect(generated.SerializeAsString() == message.SerializeAsString(),
         "a chunk says what it was made from");
  const auto read = Read(InSlices(bytes, bytes.size()));
  Expect(read.has_value() &&
             read->SerializeAsString() == message.SerializeAsString(),
         "the client reads what the server has written");
}

void ExpectSameRequest(const std::string& bytes, size_t slice_bytes) {
  v1::TraceRequest generated;
  const bool is_request = generated.ParseFromString(bytes);
  const auto request = DecodeRequest(InSlices(bytes, slice_bytes));
  Expect(request.ok() == is_request, "the server takes what is a request");
  if (!is_request) return;
  Expect(Encoded(*request) == Encoded(generated), "and reads what was sent");
}

}  // namespace
}  // namespace phitap

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  constexpr size_t kRepeats = 300;  // past where a length takes a third byte
  static const google::protobuf::LogSilencer silencer;  // tells of bad UTF-8
  const std::string bytes =
      phitap::Inputs().BytesOf(phitap::Input(input, size));
  for (const size_t slice_bytes : {size_t{1}, size_t{7}, bytes.size() + 1}) {
    phitap::ExpectRead(bytes, slice_bytes);
    phitap::ExpectSameRequest(bytes, slice_bytes);
  }
  phitap::v1::TraceResponse message;
  if (!message.ParseFromString(bytes)) return 0;
  message.DiscardUnknownFields();
  phitap::ExpectWritten(message);
  if (!message.has_chunk()) return 0;
  std::string& data = *message.mutable_chunk()->mutable_data();
  const std::string once = data;
  for (size_t i = 1; i < kRepeats; ++i) data += once;
  phitap::ExpectWritten(message);
  return 0;
}
