#include "server/rpc/trace_messages.h"

#include <algorithm>
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

grpc::ByteBuffer Encode(const ProgressMade& made) {
  v1::TraceResponse response;
  v1::Progress& progress = *response.mutable_progress();
  progress.set_queue_position(std::max(made.queue_position, 0));
  progress.set_layers_done(made.layers_done);
  progress.set_layers_total(made.layers_total);
  return EncodeResponse(response);
}

}  // namespace

TraceMessages::TraceMessages(TraceMessagesOptions options)
    : options_(std::move(options)), hash_(XXH3_createState()) {}

std::optional<grpc::ByteBuffer> TraceMessages::Next() {
  if (end_.has_value()) return std::nullopt;
  if (!std::exchange(header_made_, true)) return Header();
  if (runs_told_ < static_cast<int>(options_.plan->runs.size())) {
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
  header.set_tensor_count(static_cast<int32_t>(plan.tensors.size()));
  header.set_size_bytes(plan.size_bytes);
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
  XXH3_64bits_reset(hash_.get());
  sending_ = Sending{.tensor = ready.tensor, .value = std::move(ready.value)};
  return EncodeResponse(response);
}

grpc::ByteBuffer TraceMessages::NextChunk() {
  const absl::Span<const std::byte> bytes =
      sending_->value.bytes.subspan(sending_->offset_bytes, kMaxChunkBytes);
  XXH3_64bits_update(hash_.get(), bytes.data(), bytes.size());
  OutgoingChunk chunk = {.tensor = sending_->tensor,
                         .offset_bytes = sending_->offset_bytes,
                         .bytes = bytes,
                         .owner = sending_->value.owner};
  const auto chunk_bytes = static_cast<int64_t>(bytes.size());
  sending_->offset_bytes += chunk_bytes;
  totals_.size_bytes += chunk_bytes;
  if (sending_->offset_bytes ==
      static_cast<int64_t>(sending_->value.bytes.size())) {
    chunk.xxh3 = XXH3_64bits_digest(hash_.get());
    // Not before: until now all of it was in memory.
    options_.stream->ReleaseBytes(sending_->offset_bytes);
    sending_.reset();
    ++totals_.tensor_count;
  }
  return EncodeChunk(chunk);
}

grpc::ByteBuffer TraceMessages::Summarize(const TraceFinished& finished) {
  totals_.queue_time = finished.queue_time;
  totals_.compute_time = finished.compute_time;
  const TracePlan& plan = *options_.plan;
  v1::TraceResponse response;
  v1::TraceSummary& summary = *response.mutable_summary();
  for (size_t run = 0; run < finished.run_statuses.size(); ++run) {
    const absl::Status& status = finished.run_statuses[run];
    v1::RunStatus& told = *summary.add_runs();
    told.set_run(plan.runs[run].label);
    told.set_code(static_cast<int32_t>(status.code()));
    told.set_message(std::string(status.message()));
    told.set_field(FieldOf(status));
  }
  summary.set_tensor_count(totals_.tensor_count);
  summary.set_size_bytes(totals_.size_bytes);
  *summary.mutable_queue_time() = ToProto(finished.queue_time);
  *summary.mutable_compute_time() = ToProto(finished.compute_time);
  summary.set_token_layers_computed(finished.token_layers_computed);
  // Rows of a wave that failed are computed again, alone: that saves nothing.
  summary.set_token_layers_saved(
      std::max(int64_t{0},
               plan.token_layers_full_depth - finished.token_layers_computed));
  return EncodeResponse(response);
}

}  // namespace phitap
