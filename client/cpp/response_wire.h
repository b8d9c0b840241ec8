// Takes received messages apart without copying the tensors in them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_RESPONSE_WIRE_H_
#define PHITAP_CLIENT_CPP_RESPONSE_WIRE_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "grpcpp/support/byte_buffer.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::client {

// One message of a trace's stream.
struct ReceivedResponse {
  // All of it, except that `chunk.data` stays empty.
  v1::TraceResponse message;
  // The chunk's data, piece after piece, in the memory of the buffer.
  std::vector<absl::Span<const std::byte>> chunk_data;
};

// Protobuf's own parser would allocate and fill a string for every chunk; here
// the pieces point into `buffer`, which must outlive the result and stay
// unchanged. DATA_LOSS where the bytes are no TraceResponse, or a chunk is not
// the only field in it.
absl::StatusOr<ReceivedResponse> DecodeResponse(grpc::ByteBuffer* buffer);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_RESPONSE_WIRE_H_
