#include "client/cpp/trace_request.h"

#include <utility>

namespace phitap::client {
namespace {

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

}  // namespace

v1::Capture ToCapture(const Read& read) {
  v1::Capture capture;
  capture.set_label(read.label);
  capture.set_hook_points(read.hook_points);
  for (const std::string& run : read.runs) capture.add_runs(run);
  if (auto selection = ToMessage(read.selection)) {
    *capture.mutable_selection() = *std::move(selection);
  }
  capture.set_read_time(read.read_time);
  if (read.reduce) std::visit(ReductionWriter{&capture}, *read.reduce);
  capture.set_dtype(read.dtype);
  capture.set_tensor_name(read.keep_as);
  capture.set_node(read.node);
  return capture;
}

v1::TraceRequest ToRequest(const TraceCall& call) {
  v1::TraceRequest request;
  request.set_model(call.model);
  for (const v1::Run& run : call.runs) *request.add_runs() = run;
  for (const Read& read : call.captures) {
    *request.add_captures() = ToCapture(read);
  }
  for (const auto& [name, tensor] : call.constants) {
    (*request.mutable_constants())[name] = ToMessage(tensor);
  }
  for (const Node& node : call.program) {
    *request.mutable_program()->add_nodes() = ToMessage(node);
  }
  for (const Gradient& gradient : call.gradients) {
    *request.add_gradients() = ToMessage(gradient);
  }
  for (const Sweep& sweep : call.sweeps) {
    *request.add_sweeps() = ToMessage(sweep);
  }
  *request.mutable_options() = call.options;
  return request;
}

}  // namespace phitap::client
