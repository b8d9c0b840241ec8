#include "client/cpp/closing_summary.h"

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"

namespace phitap::client {
namespace {

// A cell of a sweep has no tokens, and a status only where it failed.
absl::Status TakeStatus(const v1::RunStatus& status, Trace* trace) {
  if (TracedRun* run = trace->FindRun(status.run()); run != nullptr) {
    run->status = status;
    return absl::OkStatus();
  }
  if (status.code() != 0) {
    trace->failed_cells.push_back(status);
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("the summary is of a run `",
                                          status.run(), "` that was not sent"));
}

bool AnyGenerated(const Trace& trace) {
  for (const TracedRun& run : trace.runs) {
    if (run.status.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::Status TakeSummary(const v1::TraceSummary& summary, Trace* trace) {
  trace->summary = summary;
  for (const v1::RunStatus& status : summary.runs()) {
    RETURN_IF_ERROR(TakeStatus(status, trace));
  }
  const size_t of_runs =
      static_cast<size_t>(summary.runs_size()) - trace->failed_cells.size();
  if (of_runs == trace->runs.size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the summary has the status of ",
                                          of_runs, " of ", trace->runs.size(),
                                          " runs"));
}

absl::Status CheckAgainstSummary(const CompleteTensors& complete,
                                 const Trace& trace) {
  const v1::TraceSummary& summary = trace.summary;
  const int32_t announced = trace.header.tensor_count();
  const bool may_be_fewer = trace.AnyFailed() || AnyGenerated(trace);
  if (complete.count != summary.tensor_count() ||
      (!may_be_fewer && complete.count != announced)) {
    return absl::DataLossError(absl::StrCat(
        complete.count, " tensors came; announced: ", announced,
        ", sent according to the summary: ", summary.tensor_count()));
  }
  if (complete.size_bytes == summary.size_bytes()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(complete.size_bytes, " bytes of tensors came, ",
                   summary.size_bytes(), " according to the summary"));
}

}  // namespace phitap::client
