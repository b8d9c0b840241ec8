// A request's results as the messages of its stream, made one at a time.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_TRACE_MESSAGES_H_
#define PHITAP_SERVER_RPC_TRACE_MESSAGES_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "phitap/v1/trace.pb.h"
#include "server/base/tensor_hash.h"
#include "server/models/served_models.h"
#include "server/plan/trace_plan.h"
#include "server/rpc/generated_text.h"
#include "server/schedule/result_stream.h"

namespace phitap {

struct TraceMessagesOptions {
  std::string request_id;
  std::shared_ptr<const ServedModel> model;
  std::shared_ptr<const TracePlan> plan;
  std::shared_ptr<ResultStream> stream;
};

// What was computed and has been sent, for the log and the metrics. All but
// the tensors and generated tokens is known with the summary.
struct TraceTotals {
  int tensor_count = 0;
  int64_t size_bytes = 0;
  // A sweep's cells are runs, too.
  int run_count = 0;
  int failed_run_count = 0;
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t token_layers_computed = 0;
  int64_t token_layers_saved = 0;
  absl::Duration queue_time;
  absl::Duration compute_time;
  // When the last value was there.
  absl::Time computed_at = absl::InfiniteFuture();
};

// Header, prompt of each of the caller's runs, then what the stream yields:
// descriptor and chunks of each tensor, generated tokens, progress, summary.
// Hashes each chunk as it is made, so a tensor starts to travel before all of
// it is hashed. Thread-compatible.
class TraceMessages {
 public:
  explicit TraceMessages(TraceMessagesOptions options);

  // The next message. None where the stream has no event yet (its wake says
  // when) or after the end.
  std::optional<grpc::ByteBuffer> Next();

  // How the call ends, once that is known: OK together with the summary, the
  // request's error in its place.
  const std::optional<absl::Status>& end() const { return end_; }
  const TraceTotals& totals() const { return totals_; }

 private:
  // A tensor on its way.
  struct Sending {
    int tensor = 0;
    HostTensor value;
    int64_t offset_bytes = 0;
  };

  grpc::ByteBuffer Header() const;
  grpc::ByteBuffer TokensOf(int run) const;
  grpc::ByteBuffer NextChunk();
  // The message of an event; none for TraceFailed.
  std::optional<grpc::ByteBuffer> MessageOf(StreamEvent event);
  grpc::ByteBuffer Describe(TensorReady ready);
  grpc::ByteBuffer TellToken(const GeneratedToken& token);
  // The text that the token completes.
  std::string TextOf(const GeneratedToken& token);
  grpc::ByteBuffer Summarize(const TraceFinished& finished);
  void CountFinished(const TraceFinished& finished);
  // Against every run alone at full depth.
  int64_t TokenLayersSaved(const TraceFinished& finished) const;

  const TraceMessagesOptions options_;
  bool header_made_ = false;
  int runs_told_ = 0;
  // Of the caller's runs, which come first.
  const int run_count_;
  // By run: of those that generate.
  std::map<int, GeneratedText> texts_;
  // Generated tokens that have gone through the model.
  int64_t tokens_fed_ = 0;
  std::optional<Sending> sending_;
  // Of the tensor on its way.
  TensorHash hash_;
  std::optional<absl::Status> end_;
  TraceTotals totals_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_TRACE_MESSAGES_H_
