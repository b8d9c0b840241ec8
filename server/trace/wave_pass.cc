// SPDX-License-Identifier: Apache-2.0
#include "server/trace/wave_pass.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "server/base/status_macros.h"
#include "server/model/torch_guard.h"
#include "server/trace/deliver_outputs.h"
#include "server/trace/plan_rules.h"

namespace phitap {
namespace {

RequestMemory& MemoryOf(const WaveRun& run) {
  return static_cast<RequestMemory&>(*run.memory);
}

}  // namespace

WavePass::WavePass(const Phi3& model, const WavePlan& plan, KeptRoots& roots)
    : roots_(roots),
      values_(ValuesOf(model, plan)),
      runs_(PassesOf(plan)),
      rows_(plan, runs_, model.spec(), roots),
      tracer_(model, runs_, rows_),
      forward_rows_(ForwardRows()),
      withdrawn_(runs_.size()) {
  if (forward_rows_.empty()) return;
  const at::NoGradGuard no_grad;
  forward_ =
      model.Begin(forward_rows_, OptionsOf(runs_.front().plan()), tracer_);
}

WavePass::AllValues WavePass::ValuesOf(const Phi3& model,
                                       const WavePlan& plan) {
  AllValues all;
  for (const WaveRun& run : plan.runs) {
    RequestMemory& memory = MemoryOf(run);
    const bool there = std::any_of(
        all.begin(), all.end(),
        [&](const auto& values) { return &values->memory() == &memory; });
    if (there) continue;
    all.push_back(std::make_unique<NodeValues>(
        memory, RulesOf(model, memory.plan(), OptionsOf(memory.plan()))));
  }
  return all;
}

std::vector<RunPass> WavePass::PassesOf(const WavePlan& plan) const {
  std::vector<RunPass> passes;
  passes.reserve(plan.runs.size());
  for (const WaveRun& run : plan.runs) {
    const auto values = std::find_if(
        values_.begin(), values_.end(),
        [&](const auto& v) { return &v->memory() == &MemoryOf(run); });
    passes.push_back(NextPass(run, **values));
  }
  return passes;
}

std::vector<ForwardRow> WavePass::ForwardRows() const {
  std::vector<ForwardRow> rows;
  rows.reserve(rows_.size());
  for (const RowPass& row : rows_.rows()) rows.push_back(row.forward);
  return rows;
}

bool WavePass::Step() {
  const at::NoGradGuard no_grad;
  if (forward_ != nullptr && forward_->Step()) return true;
  forward_.reset();
  tracer_.AfterForward();
  return false;
}

absl::Status WavePass::StatusOf(size_t run) const {
  const int index = static_cast<int>(run);
  RETURN_IF_ERROR(tracer_.progress().status(index));
  if (!tracer_.Complete(index)) {
    return absl::InternalError(
        "the forward ended before every capture was made");
  }
  const bool chooses = runs_[run].generation != nullptr;
  if (chooses && !tracer_.logits(index).defined()) {
    return absl::InternalError("the forward ended before it made logits");
  }
  return absl::OkStatus();
}

std::vector<RowOutcome> WavePass::Finish() {
  const at::NoGradGuard no_grad;
  std::vector<RowOutcome> outcomes(runs_.size());
  for (size_t run = 0; run < runs_.size(); ++run) {
    if (!withdrawn_[run]) outcomes[run] = Finish(run);
  }
  for (const std::unique_ptr<NodeValues>& values : values_) {
    bool all_ok = true;
    for (size_t run = 0; run < runs_.size(); ++run) {
      all_ok = all_ok && (runs_[run].values != values.get() ||
                          (outcomes[run].status.ok() && !withdrawn_[run]));
    }
    if (all_ok) values->CommitComputed();
  }
  return outcomes;
}

std::vector<RootId> WavePass::KeepRoots() {
  std::vector<RootId> kept;
  for (int row = 0; row < rows_.size(); ++row) {
    if (rows_[row].keep_as == kNoRoot || !tracer_.progress().EndedWell(row)) {
      continue;
    }
    roots_.Keep(rows_[row].keep_as, rows_[row].states);
    kept.push_back(rows_[row].keep_as);
  }
  return kept;
}

RowOutcome WavePass::Finish(size_t run) {
  const RunPass& pass = runs_[run];
  RowOutcome outcome{.status = StatusOf(run)};
  if (outcome.status.ok()) {
    outcome.status = RunGuarded([&]() -> absl::Status {
      RETURN_IF_ERROR(Keep(pass));
      if (pass.generation == nullptr) return absl::OkStatus();
      return Advance(pass, tracer_.logits(static_cast<int>(run)), outcome);
    });
  }
  outcome.goes_on = outcome.goes_on && outcome.status.ok();
  if (!outcome.goes_on) pass.values->memory().EndRun(pass.wave_run.run);
  return outcome;
}

absl::Status WavePass::Keep(const RunPass& pass) {
  RequestMemory& memory = pass.values->memory();
  for (const int latch : memory.index().parts(pass.wave_run.run).latches) {
    if (!memory.nodes().Alive(latch)) continue;
    if (pass.values->Value(latch).item<float>() != 0) memory.Latch(latch);
  }
  pass.values->CommitReads(pass.reads);
  return DeliverOutputs(*pass.values, *pass.wave_run.sink);
}

absl::Status WavePass::Advance(const RunPass& pass, const at::Tensor& logits,
                               RowOutcome& outcome) const {
  ASSIGN_OR_RETURN(const Generation::Step step,
                   pass.generation->Advance(logits, pass.wave_run.run));
  pass.wave_run.sink->DeliverToken(step.token);
  outcome.finish_reason = step.finish_reason;
  outcome.goes_on = step.finish_reason == FinishReason::kNone;
  return absl::OkStatus();
}

}  // namespace phitap
