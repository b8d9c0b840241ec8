// Puts the tensors of a trace together from its stream, and believes nothing
// that does not add up.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_TRACE_ASSEMBLER_H_
#define PHITAP_CLIENT_CPP_TRACE_ASSEMBLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/host_buffer.h"
#include "client/cpp/response_wire.h"
#include "client/cpp/trace.h"
#include "phitap/v1/trace.pb.h"
#include "server/base/tensor_hash.h"

namespace phitap::client {

// Every error is DATA_LOSS and says which tensor or message is at fault: a
// message out of order, a descriptor whose shape and bytes disagree, a chunk
// out of place, a wrong or missing checksum, a count that does not fit. A
// stream without its summary has failed. Only a failed run or cell may owe
// tensors, its own and those that are not of one run; where a run generates,
// the header says how many there are at most. Thread-compatible.
class TraceAssembler {
 public:
  // Told of each tensor once it is complete; a run that fails later takes its
  // tensors back.
  using TensorCallback = std::function<void(const TracedTensor&)>;

  explicit TraceAssembler(TensorCallback on_tensor = nullptr)
      : on_tensor_(std::move(on_tensor)) {}

  // Takes the next message; copies the chunk's data to where it belongs.
  absl::Status Add(const ReceivedResponse& response);

  // The whole trace, after the end of the stream.
  absl::StatusOr<Trace> Finish() &&;

  // Tensor bytes so far, of `header().size_bytes()`.
  int64_t received_bytes() const { return received_bytes_; }
  const v1::TraceHeader& header() const { return trace_.header; }

 private:
  // A tensor on its way.
  struct Incoming {
    TracedTensor tensor;
    HostBuffer buffer;
    // None once it is complete.
    std::unique_ptr<TensorHash> hash;
    int64_t received_bytes = 0;
    bool complete = false;
  };

  absl::Status AddHeader(const v1::TraceHeader& header);
  absl::Status AddRun(const v1::RunTokens& run);
  absl::Status AddTensor(const v1::TensorDescriptor& descriptor);
  absl::Status AddChunk(const ReceivedResponse& response);
  absl::Status AddToken(const v1::GeneratedToken& token);
  absl::Status AddSummary(const v1::TraceSummary& summary);
  absl::Status CheckDescriptor(const v1::TensorDescriptor& descriptor) const;
  absl::Status CloseTensor(const v1::TensorChunk& chunk, Incoming* incoming);

  const TensorCallback on_tensor_;
  Trace trace_;
  bool has_header_ = false;
  bool has_summary_ = false;
  // By number within the answer.
  std::map<int32_t, Incoming> incoming_;
  int64_t announced_bytes_ = 0;
  int64_t received_bytes_ = 0;
};

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_TRACE_ASSEMBLER_H_
