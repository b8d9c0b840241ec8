#include "server/schedule/settle_pass.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

struct RunFailure {
  int run = 0;
  absl::Status status;
};

// Why what reads a run that failed cannot be computed.
absl::Status LostWith(const RunFailure& failure, const TracePlan& plan) {
  const std::string message = absl::StrCat(
      "run ", plan.runs[failure.run].label, ", which this run reads, ",
      absl::IsCancelled(failure.status) ? "was cancelled" : "failed", ": ",
      failure.status.message());
  if (absl::IsCancelled(failure.status)) return absl::CancelledError(message);
  return absl::FailedPreconditionError(message);
}

// A gradient's pass ends its run only where it fails: the run itself is of
// another group.
void EndRow(const RunGroup& group, int run, const RowOutcome& outcome,
            ResultStream& stream) {
  if (group.gradient_pass >= 0 && outcome.status.ok()) return;
  stream.EndRun(run, outcome.status, outcome.finish_reason);
}

void EndGroup(int group, AcceptedTrace& trace) {
  for (int run : trace.plan->groups[group].runs) {
    // Of this pass or of an earlier one.
    const absl::Status status = trace.stream->StatusOf(run);
    if (status.ok()) continue;
    const RunFailure failure = {.run = run, .status = status};
    for (int lost : trace.groups.EndFailed(group)) {
      for (int reader : trace.plan->groups[lost].runs) {
        trace.stream->EndRun(reader, LostWith(failure, *trace.plan));
      }
    }
    return;
  }
  trace.groups.EndWell(group);
}

}  // namespace

void SettlePass(const GroupPass& pass, absl::Span<const RowOutcome> outcomes,
                AcceptedTrace& trace) {
  const RunGroup& group = trace.plan->groups[pass.group];
  std::vector<int> going_on;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const int run = pass.runs[i];
    if (outcomes[i].goes_on) {
      going_on.push_back(run);
    } else {
      EndRow(group, run, outcomes[i], *trace.stream);
    }
  }
  if (going_on.empty()) {
    EndGroup(pass.group, trace);
  } else {
    trace.groups.GoOn(pass.group, std::move(going_on));
  }
}

}  // namespace phitap
