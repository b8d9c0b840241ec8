#include "client/cpp/response_wire.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace phitap::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr uint32_t TagOf(int field, WireFormatLite::WireType type) {
  return static_cast<uint32_t>(field) << 3 | type;
}

constexpr uint32_t kChunkTag = TagOf(v1::TraceResponse::kChunkFieldNumber,
                                     WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kTensorTag =
    TagOf(v1::TensorChunk::kTensorFieldNumber, WireFormatLite::WIRETYPE_VARINT);
constexpr uint32_t kOffsetTag = TagOf(v1::TensorChunk::kOffsetBytesFieldNumber,
                                      WireFormatLite::WIRETYPE_VARINT);
constexpr uint32_t kDataTag = TagOf(v1::TensorChunk::kDataFieldNumber,
                                    WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kXxh3Tag =
    TagOf(v1::TensorChunk::kXxh3FieldNumber, WireFormatLite::WIRETYPE_FIXED64);

// Notes where the next length-delimited field lies instead of reading it.
bool ReadPieces(CodedInputStream* input,
                std::vector<absl::Span<const std::byte>>* pieces) {
  uint32_t left = 0;
  if (!input->ReadVarint32(&left)) return false;
  while (left > 0) {
    const void* piece = nullptr;
    int available = 0;
    if (!input->GetDirectBufferPointer(&piece, &available)) return false;
    const uint32_t size = std::min(left, static_cast<uint32_t>(available));
    pieces->emplace_back(static_cast<const std::byte*>(piece), size);
    if (!input->Skip(static_cast<int>(size))) return false;
    left -= size;
  }
  return true;
}

bool ReadChunkField(uint32_t tag, CodedInputStream* input,
                    ReceivedResponse* response) {
  v1::TensorChunk* chunk = response->message.mutable_chunk();
  uint64_t number = 0;
  switch (tag) {
    case kTensorTag:
      if (!input->ReadVarint64(&number)) return false;
      chunk->set_tensor(static_cast<int32_t>(number));
      return true;
    case kOffsetTag:
      if (!input->ReadVarint64(&number)) return false;
      chunk->set_offset_bytes(static_cast<int64_t>(number));
      return true;
    case kDataTag:
      // A repeated occurrence replaces the earlier one, as protobuf has it.
      response->chunk_data.clear();
      return ReadPieces(input, &response->chunk_data);
    case kXxh3Tag:
      if (!input->ReadLittleEndian64(&number)) return false;
      chunk->set_xxh3(number);
      return true;
    default:
      return WireFormatLite::SkipField(input, tag);
  }
}

// Reads a message that is one chunk and nothing else.
bool ReadChunk(CodedInputStream* input, ReceivedResponse* response) {
  uint32_t size = 0;
  if (!input->ReadVarint32(&size)) return false;
  const CodedInputStream::Limit outer =
      input->PushLimit(static_cast<int>(size));
  response->message.mutable_chunk();
  while (const uint32_t tag = input->ReadTag()) {
    if (!ReadChunkField(tag, input, response)) return false;
  }
  // A tag of 0 ends it as well, but is none.
  if (input->BytesUntilLimit() != 0 || !input->ConsumedEntireMessage()) {
    return false;
  }
  input->PopLimit(outer);
  return input->ReadTag() == 0 && input->ConsumedEntireMessage();
}

}  // namespace

absl::StatusOr<ReceivedResponse> DecodeResponse(grpc::ByteBuffer* buffer) {
  ReceivedResponse response;
  {
    grpc::ProtoBufferReader reader(buffer);
    CodedInputStream input(&reader);
    if (input.ReadTag() == kChunkTag) {
      if (ReadChunk(&input, &response)) return response;
      return absl::DataLossError("a chunk of the stream cannot be read");
    }
  }
  grpc::ProtoBufferReader reader(buffer);
  if (!response.message.ParseFromZeroCopyStream(&reader)) {
    return absl::DataLossError("a message of the stream cannot be read");
  }
  if (response.message.has_chunk()) {
    return absl::DataLossError("a chunk of the stream does not come alone");
  }
  return response;
}

}  // namespace phitap::client
