#include "client/cli/received_trace.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/progress_line.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

absl::Status Failure(absl::string_view what, const v1::RunStatus& status) {
  return absl::Status(
      static_cast<absl::StatusCode>(status.code()),
      absl::StrCat(what, " ", status.run(), ": ", status.message()));
}

}  // namespace

absl::StatusOr<ReceivedTrace> ReceiveTrace(const client::Client& client,
                                           v1::TraceRequest request,
                                           const Invocation& invocation) {
  request.mutable_options()->set_report_progress(
      invocation.errors().interactive);
  const absl::Time start = absl::Now();
  ProgressLine progress(invocation.errors());
  ASSIGN_OR_RETURN(client::Trace trace,
                   client.Trace(request, invocation.call_options(),
                                {.on_progress = [&progress](const auto& now) {
                                  progress.Update(now);
                                }}));
  return ReceivedTrace{.trace = std::move(trace),
                       .elapsed = absl::Now() - start};
}

absl::Status StatusOfRuns(const client::Trace& trace) {
  for (const client::TracedRun& run : trace.runs) {
    if (run.status.code() != 0) return Failure("run", run.status);
  }
  if (trace.failed_cells.empty()) return absl::OkStatus();
  return Failure("cell", trace.failed_cells.front());
}

}  // namespace phitap::cli
