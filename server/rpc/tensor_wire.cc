#include "server/rpc/tensor_wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <array>

namespace phitap {
namespace {

using google::protobuf::io::CodedOutputStream;

// https://protobuf.dev/programming-guides/encoding: the types used here.
enum WireType { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2 };

constexpr uint32_t Tag(int field, WireType type) {
  return static_cast<uint32_t>(field) << 3 | type;
}

constexpr uint32_t kChunkTag =
    Tag(v1::TraceResponse::kChunkFieldNumber, kLengthDelimited);
constexpr uint32_t kTensorTag =
    Tag(v1::TensorChunk::kTensorFieldNumber, kVarint);
constexpr uint32_t kOffsetTag =
    Tag(v1::TensorChunk::kOffsetBytesFieldNumber, kVarint);
constexpr uint32_t kHashTag = Tag(v1::TensorChunk::kXxh3FieldNumber, kFixed64);
constexpr uint32_t kBytesTag =
    Tag(v1::TensorChunk::kDataFieldNumber, kLengthDelimited);

// The chunk's fields up to its data's length: the data itself comes last, in a
// slice of its own. Two tags with lengths and three fields take less.
using FieldBuffer = std::array<uint8_t, 64>;

uint8_t* WriteFields(const OutgoingChunk& chunk, uint8_t* out) {
  out = CodedOutputStream::WriteTagToArray(kTensorTag, out);
  out = CodedOutputStream::WriteVarint32SignExtendedToArray(chunk.tensor, out);
  out = CodedOutputStream::WriteTagToArray(kOffsetTag, out);
  out = CodedOutputStream::WriteVarint64ToArray(
      static_cast<uint64_t>(chunk.offset_bytes), out);
  if (chunk.xxh3.has_value()) {
    out = CodedOutputStream::WriteTagToArray(kHashTag, out);
    out = CodedOutputStream::WriteLittleEndian64ToArray(*chunk.xxh3, out);
  }
  out = CodedOutputStream::WriteTagToArray(kBytesTag, out);
  return CodedOutputStream::WriteVarint32ToArray(
      static_cast<uint32_t>(chunk.bytes.size()), out);
}

// A slice that holds `owner`.
grpc::Slice SharedSlice(absl::Span<const std::byte> bytes,
                        const std::shared_ptr<const void>& owner) {
  return grpc::Slice(
      const_cast<std::byte*>(bytes.data()), bytes.size(),
      [](void* held) {
        delete static_cast<std::shared_ptr<const void>*>(held);
      },
      new std::shared_ptr<const void>(owner));
}

}  // namespace

grpc::ByteBuffer EncodeChunk(const OutgoingChunk& chunk) {
  FieldBuffer fields;
  const auto field_bytes =
      static_cast<uint32_t>(WriteFields(chunk, fields.data()) - fields.data());
  FieldBuffer front;
  uint8_t* out = CodedOutputStream::WriteTagToArray(kChunkTag, front.data());
  out = CodedOutputStream::WriteVarint32ToArray(
      field_bytes + static_cast<uint32_t>(chunk.bytes.size()), out);
  out = std::copy_n(fields.data(), field_bytes, out);

  const grpc::Slice slices[] = {grpc::Slice(front.data(), out - front.data()),
                                SharedSlice(chunk.bytes, chunk.owner)};
  return grpc::ByteBuffer(slices, chunk.bytes.empty() ? 1 : 2);
}

grpc::ByteBuffer EncodeResponse(const v1::TraceResponse& response) {
  grpc::Slice slice(response.ByteSizeLong());
  response.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<v1::TraceRequest> DecodeRequest(const grpc::ByteBuffer& bytes) {
  grpc::ByteBuffer shared = bytes;  // Reading consumes a reference.
  grpc::ProtoBufferReader reader(&shared);
  v1::TraceRequest request;
  if (!reader.status().ok() || !request.ParseFromZeroCopyStream(&reader)) {
    return absl::InvalidArgumentError("the bytes are no TraceRequest");
  }
  return request;
}

}  // namespace phitap
