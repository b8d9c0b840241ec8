#include "server/schedule/wave_builder.h"

#include <algorithm>
#include <utility>

namespace phitap {
namespace {

// Whether a pass has to be the only one of its wave.
bool GoesAlone(const AcceptedTrace& trace, PassPhase phase) {
  return trace.plan->numerics == Numerics::kTransformers ||
         phase == PassPhase::kGradient;
}

// Whether passes of both may be in one wave.
bool MayShareWaves(const AcceptedTrace& one, const AcceptedTrace& other) {
  if (&one == &other) return true;
  const TracePlan& a = *one.plan;
  const TracePlan& b = *other.plan;
  return !a.isolate && !b.isolate && a.numerics == b.numerics &&
         a.attention == b.attention && a.model == b.model;
}

}  // namespace

void InsertByPriority(std::shared_ptr<AcceptedTrace> trace,
                      CallersTraces& traces) {
  const auto behind =
      std::find_if(traces.begin(), traces.end(), [&](const auto& waiting) {
        return waiting->plan->priority < trace->plan->priority;
      });
  traces.insert(behind, std::move(trace));
}

void WaveBuilder::Offer(const std::string& caller, CallersTraces traces) {
  offered_[caller] = std::move(traces);
}

std::optional<int64_t> WaveBuilder::CostOf(const std::string& caller) {
  CallersTraces& traces = offered_[caller];
  // What does not fit now will not later: there is less room then.
  while (!traces.empty()) {
    const AcceptedTrace& trace = *traces.front();
    const std::optional<PassPhase> phase = PhaseThatFits(trace);
    if (phase.has_value()) return SizeOf(trace, *phase).token_layers;
    traces.pop_front();
  }
  return std::nullopt;
}

void WaveBuilder::Take(const std::string& caller) {
  CallersTraces& traces = offered_[caller];
  std::shared_ptr<AcceptedTrace> trace = std::move(traces.front());
  traces.pop_front();
  const PassPhase phase = *PhaseThatFits(*trace);
  const PassSize size = SizeOf(*trace, phase);
  wave_.size.tokens += size.tokens;
  wave_.size.token_layers += size.token_layers;
  wave_.size.workspace_bytes += size.workspace_bytes;
  trace->begun = true;
  wave_.entries.push_back({.trace = trace, .pass = trace->groups.Take(phase)});
  run_counts_[trace.get()] +=
      static_cast<int>(wave_.entries.back().pass.runs.size());
  InsertByPriority(std::move(trace), traces);
}

std::optional<PassPhase> WaveBuilder::PhaseThatFits(
    const AcceptedTrace& trace) const {
  const std::optional<PassPhase> first = trace.groups.first_phase();
  if (!first.has_value()) return std::nullopt;
  if (MayJoin(trace, *first) && Fits(SizeOf(trace, *first))) return first;
  for (PassPhase phase :
       {PassPhase::kToken, PassPhase::kPrompt, PassPhase::kGradient}) {
    if (trace.groups.has_ready(phase) && MayJoin(trace, phase) &&
        Fits(SizeOf(trace, phase))) {
      return phase;
    }
  }
  return std::nullopt;
}

bool WaveBuilder::MayJoin(const AcceptedTrace& trace, PassPhase phase) const {
  if (wave_.empty()) return true;
  const WaveEntry& leader = wave_.entries.front();
  return phase == leader.pass.phase && !GoesAlone(trace, phase) &&
         !GoesAlone(*leader.trace, phase) &&
         MayShareWaves(*leader.trace, trace);
}

bool WaveBuilder::Fits(const PassSize& size) const {
  const bool joins = wave_.size.tokens + size.tokens <= limits_.max_tokens &&
                     size.workspace_bytes <=
                         limits_.max_joined_bytes - wave_.size.workspace_bytes;
  return (wave_.empty() || joins) &&
         size.token_layers <=
             limits_.max_token_layers - wave_.size.token_layers &&
         size.workspace_bytes <=
             limits_.max_workspace_bytes - wave_.size.workspace_bytes;
}

int WaveBuilder::CountOf(const AcceptedTrace& trace) const {
  const auto found = run_counts_.find(&trace);
  return found == run_counts_.end() ? 0 : found->second;
}

PassSize WaveBuilder::SizeOf(const AcceptedTrace& trace,
                             PassPhase phase) const {
  return trace.groups.NextSize(phase, CountOf(trace));
}

}  // namespace phitap
