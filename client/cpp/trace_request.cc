#include "client/cpp/trace_request.h"

namespace phitap::client {
namespace {

std::string Text(absl::string_view text) { return std::string(text); }

v1::Run Labelled(absl::string_view label) {
  v1::Run run;
  run.set_label(Text(label));
  return run;
}

// Writes each kind of reduction into its message.
struct ReductionWriter {
  v1::Capture* capture;

  void operator()(const WholeValue&) const {}
  void operator()(const PositionMean&) const {
    capture->mutable_reduction()->mutable_mean_over_positions();
  }
  void operator()(const LastDimensionNorm&) const {
    capture->mutable_reduction()->mutable_norm();
  }
  void operator()(const Largest& largest) const {
    capture->mutable_reduction()->mutable_top_k()->set_k(largest.k);
  }
  void operator()(const Lens& lens) const {
    v1::LogitLens* message = capture->mutable_reduction()->mutable_logit_lens();
    message->set_k(lens.k);
    message->mutable_token_ids()->Add(lens.token_ids.begin(),
                                      lens.token_ids.end());
    if (lens.value_is_normed) message->set_apply_final_norm(false);
  }
};

// Unlike a set without indices, an unset one means all.
v1::Selection SelectionOf(const Read& read) {
  v1::Selection selection;
  if (read.positions) *selection.mutable_positions() = *read.positions;
  selection.mutable_token_ids()->Add(read.token_ids.begin(),
                                     read.token_ids.end());
  if (read.heads) *selection.mutable_heads() = *read.heads;
  if (read.features) *selection.mutable_features() = *read.features;
  if (read.queries) *selection.mutable_queries() = *read.queries;
  if (read.keys) *selection.mutable_keys() = *read.keys;
  return selection;
}

}  // namespace

v1::IndexSet Indices(absl::Span<const int32_t> indices) {
  v1::IndexSet set;
  set.mutable_indices()->Add(indices.begin(), indices.end());
  return set;
}

v1::IndexSet IndicesFrom(int32_t start, int32_t stop) {
  v1::IndexSet set;
  v1::IndexRange* range = set.add_ranges();
  range->set_start(start);
  range->set_stop(stop);
  return set;
}

v1::Run TextRun(absl::string_view text, absl::string_view label) {
  v1::Run run = Labelled(label);
  run.mutable_prompt()->set_text(Text(text));
  return run;
}

v1::Run TokensRun(absl::Span<const int32_t> ids, absl::string_view label) {
  v1::Run run = Labelled(label);
  run.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(ids.begin(),
                                                             ids.end());
  return run;
}

v1::Run ChatRun(const v1::Chat& chat, absl::string_view label) {
  v1::Run run = Labelled(label);
  *run.mutable_prompt()->mutable_chat() = chat;
  return run;
}

v1::Capture ToCapture(const Read& read) {
  v1::Capture capture;
  capture.set_label(read.label);
  capture.set_hook_points(read.hook_points);
  for (const std::string& run : read.runs) capture.add_runs(run);
  v1::Selection selection = SelectionOf(read);
  if (selection.ByteSizeLong() > 0) *capture.mutable_selection() = selection;
  if (read.reduce) std::visit(ReductionWriter{&capture}, *read.reduce);
  capture.set_dtype(read.dtype);
  return capture;
}

v1::TraceRequest ToRequest(const TraceCall& call) {
  v1::TraceRequest request;
  request.set_model(call.model);
  for (const v1::Run& run : call.runs) *request.add_runs() = run;
  for (const Read& read : call.captures) {
    *request.add_captures() = ToCapture(read);
  }
  *request.mutable_options() = call.options;
  return request;
}

}  // namespace phitap::client
