#include "server/trace/wave_pass.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "server/base/status_macros.h"
#include "server/model/torch_guard.h"
#include "server/trace/gradient_tape.h"

namespace phitap {
namespace {

RequestMemory& MemoryOf(const WaveRun& row) {
  return static_cast<RequestMemory&>(*row.memory);
}

ForwardOptions OptionsOf(const TracePlan& plan) {
  return {
      .numerics = plan.numerics == Numerics::kCausal
                      ? ForwardNumerics::kCausal
                      : ForwardNumerics::kTransformers,
      .attention = plan.attention == Attention::kSdpa
                       ? ForwardAttention::kSdpa
                       : ForwardAttention::kEager,
  };
}

EvaluationRules RulesOf(const Phi3& model, const TracePlan& plan,
                        const ForwardOptions& options) {
  return {.model = model,
          .numerics = options.numerics,
          .graph = options.graph,
          .nodes = plan.nodes};
}

void PutOutput(const PlannedOutput& output, NodeValues& values,
               ResultSink& sink) {
  RequestMemory& memory = values.memory();
  std::optional<HostTensor> tensor =
      memory.outputs().Put(output, values.Value(output.node));
  if (tensor) memory.Deliver(sink, output.tensor, *std::move(tensor));
}

// Puts every output that has become computable into its tensor, and hands over
// those that are complete. The first error is returned once all were tried.
absl::Status DeliverOutputs(NodeValues& values, ResultSink& sink) {
  absl::Status status;
  for (const int index : values.memory().nodes().TakeReadyOutputs()) {
    const PlannedOutput& output = values.plan().outputs[index];
    status.Update(RunGuarded([&] {
      PutOutput(output, values, sink);
      return absl::OkStatus();
    }));
    values.memory().nodes().Release({output.node});
  }
  return status;
}

}  // namespace

WavePass::WavePass(const Phi3& model, absl::Span<const WaveRun> rows)
    : model_(model) {
  passes_.reserve(rows.size());
  for (const WaveRun& row : rows) {
    passes_.push_back(NextPass(row, ValuesOf(row)));
  }
  tracer_ = std::make_unique<Tracer>(model, passes_);
}

NodeValues& WavePass::ValuesOf(const WaveRun& row) {
  RequestMemory& memory = MemoryOf(row);
  for (const std::unique_ptr<NodeValues>& values : values_) {
    if (&values->memory() == &memory) return *values;
  }
  values_.push_back(std::make_unique<NodeValues>(
      memory, RulesOf(model_, memory.plan(), OptionsOf(memory.plan()))));
  return *values_.back();
}

absl::Status WavePass::Forward() {
  const at::NoGradGuard no_grad;
  return RunGuarded([&] {
    std::vector<ForwardRow> rows;
    rows.reserve(passes_.size());
    for (const RowPass& pass : passes_) rows.push_back(pass.forward);
    model_.Forward(rows, OptionsOf(*passes_.front().row.plan), *tracer_);
    return absl::OkStatus();
  });
}

absl::Status WavePass::StatusOf(size_t row) const {
  const int index = static_cast<int>(row);
  RETURN_IF_ERROR(tracer_->status(index));
  if (!tracer_->Complete(index)) {
    return absl::InternalError(
        "the forward ended before every capture was made");
  }
  const bool chooses = passes_[row].generation != nullptr;
  if (chooses && !tracer_->logits(index).defined()) {
    return absl::InternalError("the forward ended before it made logits");
  }
  return absl::OkStatus();
}

std::vector<RowOutcome> WavePass::Finish() {
  const at::NoGradGuard no_grad;
  std::vector<RowOutcome> outcomes;
  for (size_t row = 0; row < passes_.size(); ++row) {
    outcomes.push_back(Finish(row));
  }
  for (const std::unique_ptr<NodeValues>& values : values_) {
    bool all_ok = true;
    for (size_t row = 0; row < passes_.size(); ++row) {
      all_ok = all_ok && (passes_[row].values != values.get() ||
                          outcomes[row].status.ok());
    }
    if (all_ok) values->CommitComputed();
  }
  return outcomes;
}

RowOutcome WavePass::Finish(size_t row) {
  const RowPass& pass = passes_[row];
  RowOutcome outcome{.status = StatusOf(row)};
  if (outcome.status.ok()) {
    outcome.status = RunGuarded([&]() -> absl::Status {
      RETURN_IF_ERROR(Keep(pass));
      if (pass.generation == nullptr) return absl::OkStatus();
      return Advance(pass, tracer_->logits(static_cast<int>(row)), outcome);
    });
  }
  outcome.goes_on = outcome.goes_on && outcome.status.ok();
  if (!outcome.goes_on) pass.values->memory().EndRun(pass.row.run);
  return outcome;
}

absl::Status WavePass::Keep(const RowPass& pass) {
  RequestMemory& memory = pass.values->memory();
  for (const int latch : memory.index().parts(pass.row.run).latches) {
    if (!memory.nodes().Alive(latch)) continue;
    if (pass.values->Value(latch).item<float>() != 0) memory.Latch(latch);
  }
  pass.values->CommitReads(pass.reads);
  return DeliverOutputs(*pass.values, *pass.row.sink);
}

absl::Status WavePass::Advance(const RowPass& pass, const at::Tensor& logits,
                               RowOutcome& outcome) const {
  ASSIGN_OR_RETURN(const Generation::Step step,
                   pass.generation->Advance(logits, pass.row.run));
  pass.row.sink->DeliverToken(step.token);
  outcome.finish_reason = step.finish_reason;
  outcome.goes_on = step.finish_reason == FinishReason::kNone;
  return absl::OkStatus();
}

RowOutcome RunGradientPass(const Phi3& model, const WaveRun& row) {
  RequestMemory& memory = MemoryOf(row);
  const TracePlan& plan = memory.plan();
  ForwardOptions options = OptionsOf(plan);
  options.numerics = ForwardNumerics::kTransformers;
  options.graph = ForwardGraph::kRecorded;
  RowOutcome outcome;
  outcome.status = RunGuarded([&]() -> absl::Status {
    const at::AutoGradMode record(true);
    NodeValues values(memory, RulesOf(model, plan, options),
                      &memory.index().gradient(row.gradient_pass));
    const RowPass pass = RecordedPass(row, values);
    Tracer tracer(model, absl::MakeConstSpan(&pass, 1));
    GradientTape tape(tracer, pass);
    model.Forward({pass.forward}, options, tape);
    RETURN_IF_ERROR(tracer.status(0));
    const GradientPass& planned = plan.gradient_passes[row.gradient_pass];
    std::vector<at::Tensor> gradients =
        tape.Gradients(values.Value(planned.metric));
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < gradients.size(); ++i) {
      memory.nodes().Put(planned.gradients[i], std::move(gradients[i]));
    }
    NodeValues kept(memory, RulesOf(model, plan, OptionsOf(plan)));
    const absl::Status delivered = DeliverOutputs(kept, *row.sink);
    kept.CommitComputed();
    return delivered;
  });
  memory.EndGradientPass(row.gradient_pass);
  return outcome;
}

}  // namespace phitap
