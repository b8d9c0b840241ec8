// SPDX-License-Identifier: Apache-2.0
#include "server/trace/gradient_wave.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "server/base/status_macros.h"
#include "server/model/torch_guard.h"
#include "server/trace/deliver_outputs.h"
#include "server/trace/gradient_tape.h"
#include "server/trace/plan_rules.h"
#include "server/trace/row_pass.h"

namespace phitap {

GradientWave::GradientWave(const Phi3& model, WaveRun run)
    : model_(model),
      run_(std::move(run)),
      status_(absl::InternalError("the wave was not stepped to its end")) {}

RequestMemory& GradientWave::memory() const {
  return static_cast<RequestMemory&>(*run_.memory);
}

const GradientPass& GradientWave::planned() const {
  return memory().plan().gradient_passes[run_.gradient_pass];
}

bool GradientWave::Step() {
  status_ = RunGuarded([&] { return Compute(); });
  return false;
}

absl::Status GradientWave::Compute() {
  const at::AutoGradMode record(true);
  const TracePlan& plan = memory().plan();
  ForwardOptions options = OptionsOf(plan);
  options.numerics = ForwardNumerics::kTransformers;
  options.graph = ForwardGraph::kRecorded;
  NodeValues values(memory(), RulesOf(model_, plan, options),
                    &memory().index().gradient(run_.gradient_pass));
  const std::vector<RunPass> runs = {RecordedPass(run_, values)};
  const PassRows rows(runs);
  Tracer tracer(model_, runs, rows);
  GradientTape tape(tracer, runs.front());
  model_.Forward({rows[0].forward}, options, tape);
  RETURN_IF_ERROR(tracer.progress().status(0));
  gradients_ = tape.Gradients(values.Value(planned().metric));
  return absl::OkStatus();
}

absl::Status GradientWave::Keep() {
  const at::NoGradGuard no_grad;
  const TracePlan& plan = memory().plan();
  for (size_t i = 0; i < gradients_.size(); ++i) {
    memory().nodes().Put(planned().gradients[i], std::move(gradients_[i]));
  }
  NodeValues kept(memory(), RulesOf(model_, plan, OptionsOf(plan)));
  const absl::Status delivered = DeliverOutputs(kept, *run_.sink);
  kept.CommitComputed();
  return delivered;
}

std::vector<RowOutcome> GradientWave::Finish() {
  RowOutcome outcome{.status = status_};
  if (outcome.status.ok()) {
    outcome.status = RunGuarded([&] { return Keep(); });
  }
  memory().EndGradientPass(run_.gradient_pass);
  return {std::move(outcome)};
}

}  // namespace phitap
