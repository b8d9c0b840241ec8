#include "server/rpc/trace_messages.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "server/base/field_error.h"
#include "server/plan/describe.h"
#include "server/plan/wire_type.h"
#include "server/rpc/tensor_wire.h"
#include "server/rpc/token_texts.h"

namespace phitap {
namespace {

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return proto;
}

int32_t Saturated(int64_t count) {
  return static_cast<int32_t>(
      std::min<int64_t>(count, std::numeric_limits<int32_t>::max()));
}

grpc::ByteBuffer Encode(const ProgressMade& made) {
  v1::TraceResponse response;
  v1::Progress& progress = *response.mutable_progress();
  progress.set_queue_position(std::max(made.queue_position, 0));
  progress.set_layers_done(Saturated(made.layers_done));
  progress.set_layers_total(Saturated(made.layers_total));
  return EncodeResponse(response);
}

v1::FinishReason WireReason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return v1::FINISH_REASON_UNSPECIFIED;
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

int CountCallersRuns(const TracePlan& plan) {
  return static_cast<int>(
      std::count_if(plan.runs.begin(), plan.runs.end(),
                    [](const PlannedRun& run) { return run.sweep < 0; }));
}

// Whether `token` is the last that its run generates.
bool EndsGeneration(const GeneratedToken& token, const PlannedRun& run,
                    const ModelSpec& spec) {
  const PlannedGeneration& generation = *run.generation;
  const auto sequence = static_cast<int64_t>(run.ids.size()) + token.step - 1;
  const bool forced =
      token.step <= static_cast<int>(generation.forced_ids.size());
  return token.step >= generation.max_tokens ||
         sequence >= spec.max_positions ||
         (!forced && std::binary_search(generation.stop_ids.begin(),
                                        generation.stop_ids.end(), token.id));
}

// Tokens of all prompts; those of gradients' runs go through the model again.
int64_t CountPromptTokens(const TracePlan& plan) {
  int64_t token_count = 0;
  for (const PlannedRun& run : plan.runs) {
    token_count += static_cast<int64_t>(run.ids.size());
  }
  for (const GradientPass& pass : plan.gradient_passes) {
    token_count += static_cast<int64_t>(plan.runs[pass.run].ids.size());
  }
  return token_count;
}

// Fields of the summary that one run makes.
void TellRun(const PlannedRun& run, const absl::Status& status,
             FinishReason reason, v1::TraceSummary& summary) {
  v1::RunStatus& told = *summary.add_runs();
  told.set_run(run.label);
  told.set_code(static_cast<int32_t>(status.code()));
  told.set_message(std::string(status.message()));
  told.set_field(FieldOf(status));
  told.set_finish_reason(WireReason(reason));
}

}  // namespace

TraceMessages::TraceMessages(TraceMessagesOptions options)
    : options_(std::move(options)),
      run_count_(CountCallersRuns(*options_.plan)) {}

std::optional<grpc::ByteBuffer> TraceMessages::Next() {
  if (end_.has_value()) return std::nullopt;
  if (!std::exchange(header_made_, true)) return Header();
  if (runs_told_ < run_count_) {
    return TokensOf(runs_told_++);
  }
  if (sending_.has_value() && !options_.stream->failed()) return NextChunk();
  std::optional<StreamEvent> event = options_.stream->Pull();
  if (!event.has_value()) return std::nullopt;
  return MessageOf(*std::move(event));
}

std::optional<grpc::ByteBuffer> TraceMessages::MessageOf(StreamEvent event) {
  if (auto* ready = std::get_if<TensorReady>(&event)) {
    return Describe(std::move(*ready));
  }
  if (const auto* made = std::get_if<TokenMade>(&event)) {
    return TellToken(made->token);
  }
  if (const auto* progress = std::get_if<ProgressMade>(&event)) {
    return Encode(*progress);
  }
  if (const auto* finished = std::get_if<TraceFinished>(&event)) {
    end_ = absl::OkStatus();
    return Summarize(*finished);
  }
  end_ = std::get<TraceFailed>(event).status;
  return std::nullopt;
}

grpc::ByteBuffer TraceMessages::Header() const {
  const TracePlan& plan = *options_.plan;
  v1::TraceResponse response;
  v1::TraceHeader& header = *response.mutable_header();
  header.set_request_id(options_.request_id);
  header.set_model(options_.model->name);
  header.set_numerics(WireNumerics(plan.numerics));
  header.set_attention(WireAttention(plan.attention));
  header.set_batch_invariant(options_.model->batch_invariant);
  header.set_weights_digest(options_.model->weights_digest);
  header.set_numerics_fingerprint(options_.model->numerics_fingerprint);
  for (const PlannedTensor& tensor : plan.tensors) {
    if (!tensor.kept_as.empty()) continue;
    header.set_tensor_count(header.tensor_count() + 1);
    header.set_size_bytes(header.size_bytes() + tensor.size_bytes);
  }
  return EncodeResponse(response);
}

grpc::ByteBuffer TraceMessages::TokensOf(int run) const {
  v1::TraceResponse response;
  v1::RunTokens& tokens = *response.mutable_run_tokens();
  tokens = DescribeTokens(*options_.plan, run);
  AddTexts(*options_.model, tokens);
  return EncodeResponse(response);
}

grpc::ByteBuffer TraceMessages::Describe(TensorReady ready) {
  v1::TraceResponse response;
  *response.mutable_tensor() = DescribeTensor(*options_.plan, ready.tensor);
  hash_.Reset();
  sending_ = Sending{.tensor = ready.tensor, .value = std::move(ready.value)};
  return EncodeResponse(response);
}

grpc::ByteBuffer TraceMessages::TellToken(const GeneratedToken& token) {
  v1::TraceResponse response;
  v1::GeneratedToken& told = *response.mutable_token();
  told.set_run(options_.plan->runs[token.run].label);
  told.set_step(token.step);
  told.set_id(token.id);
  told.set_log_probability(token.log_probability);
  told.set_text(TextOf(token));
  ++totals_.generated_tokens;
  // The first follows from the prompt, each of the others from the one before.
  if (token.step > 1) ++tokens_fed_;
  return EncodeResponse(response);
}

std::string TraceMessages::TextOf(const GeneratedToken& token) {
  const Tokenizer* tokenizer = options_.model->tokenizer.get();
  if (tokenizer == nullptr) return "";
  const PlannedRun& run = options_.plan->runs[token.run];
  GeneratedText& text =
      texts_.try_emplace(token.run, *tokenizer, run.ids).first->second;
  std::string piece = text.Next(token.id);
  if (EndsGeneration(token, run, options_.model->spec)) piece += text.Rest();
  return piece;
}

grpc::ByteBuffer TraceMessages::NextChunk() {
  const absl::Span<const std::byte> bytes =
      sending_->value.bytes.subspan(sending_->offset_bytes, kMaxChunkBytes);
  hash_.Add(bytes);
  OutgoingChunk chunk = {.tensor = sending_->tensor,
                         .offset_bytes = sending_->offset_bytes,
                         .bytes = bytes,
                         .owner = sending_->value.owner};
  const auto chunk_bytes = static_cast<int64_t>(bytes.size());
  sending_->offset_bytes += chunk_bytes;
  totals_.size_bytes += chunk_bytes;
  if (sending_->offset_bytes ==
      static_cast<int64_t>(sending_->value.bytes.size())) {
    chunk.xxh3 = hash_.Value();
    // Not before: until now all of it was in memory.
    options_.stream->ReleaseBytes(sending_->offset_bytes);
    sending_.reset();
    ++totals_.tensor_count;
  }
  return EncodeChunk(chunk);
}

grpc::ByteBuffer TraceMessages::Summarize(const TraceFinished& finished) {
  CountFinished(finished);
  const TracePlan& plan = *options_.plan;
  v1::TraceResponse response;
  v1::TraceSummary& summary = *response.mutable_summary();
  for (size_t run = 0; run < finished.run_statuses.size(); ++run) {
    const absl::Status& status = finished.run_statuses[run];
    if (plan.runs[run].sweep >= 0 && status.ok()) continue;
    TellRun(plan.runs[run], status, finished.finish_reasons[run], summary);
  }
  summary.set_tensor_count(totals_.tensor_count);
  summary.set_size_bytes(totals_.size_bytes);
  *summary.mutable_queue_time() = ToProto(finished.queue_time);
  *summary.mutable_compute_time() = ToProto(finished.compute_time);
  summary.set_token_layers_computed(finished.token_layers_computed);
  summary.set_token_layers_saved(totals_.token_layers_saved);
  return EncodeResponse(response);
}

void TraceMessages::CountFinished(const TraceFinished& finished) {
  totals_.run_count = static_cast<int>(finished.run_statuses.size());
  totals_.failed_run_count = static_cast<int>(
      std::count_if(finished.run_statuses.begin(), finished.run_statuses.end(),
                    [](const absl::Status& status) { return !status.ok(); }));
  for (const PlannedRun& run : options_.plan->runs) {
    totals_.prompt_tokens += static_cast<int64_t>(run.ids.size());
  }
  totals_.token_layers_computed = finished.token_layers_computed;
  totals_.token_layers_saved = TokenLayersSaved(finished);
  totals_.queue_time = finished.queue_time;
  totals_.compute_time = finished.compute_time;
  totals_.computed_at = finished.computed_at;
}

int64_t TraceMessages::TokenLayersSaved(const TraceFinished& finished) const {
  const TracePlan& plan = *options_.plan;
  const int64_t token_count = CountPromptTokens(plan) + tokens_fed_;
  // Rows of a wave that failed are computed again, alone: that saves nothing.
  return std::max(int64_t{0}, options_.model->spec.num_layers * token_count -
                                  finished.token_layers_computed);
}

}  // namespace phitap
