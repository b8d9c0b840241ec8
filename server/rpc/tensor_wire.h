// Messages of a trace's stream as bytes. The only file that knows how they are
// encoded by hand, so that tensors travel without being copied.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_TENSOR_WIRE_H_
#define PHITAP_SERVER_RPC_TENSOR_WIRE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "phitap/v1/trace.pb.h"

namespace phitap {

// The protocol's bound for the bytes of a chunk, and what is sent.
inline constexpr int64_t kMaxChunkBytes = int64_t{1} << 20;

// See TensorChunk in tensor.proto.
struct OutgoingChunk {
  int32_t tensor = 0;
  int64_t offset_bytes = 0;
  // At most kMaxChunkBytes.
  absl::Span<const std::byte> bytes;
  // Keeps `bytes` alive.
  std::shared_ptr<const void> owner;
  // On the last chunk of a tensor.
  std::optional<uint64_t> xxh3;
};

// A TraceResponse whose message is the chunk. Shares `bytes` and holds `owner`
// until gRPC lets go of them.
grpc::ByteBuffer EncodeChunk(const OutgoingChunk& chunk);

// Any other message of the stream.
grpc::ByteBuffer EncodeResponse(const v1::TraceResponse& response);

// INVALID_ARGUMENT if the bytes are no TraceRequest.
absl::StatusOr<v1::TraceRequest> DecodeRequest(const grpc::ByteBuffer& bytes);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_TENSOR_WIRE_H_
