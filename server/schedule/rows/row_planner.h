// Decides what of a wave is computed once for several runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_ROW_PLANNER_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_ROW_PLANNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "server/plan/executor.h"
#include "server/schedule/rows/root_table.h"

namespace phitap {

enum class CallerSharing {
  // Only runs of one caller have rows in common: what is computed, and how
  // long it takes, tells nobody about another's prompts.
  kWithinCaller,
  kAcrossCallers,
};

struct RowPlannerOptions {
  // Of all kept rows, those of waves under way included; 0 keeps none.
  int64_t max_root_bytes = 0;
  CallerSharing sharing = CallerSharing::kWithinCaller;
  // What a kept row holds: see Executor::RootBytes.
  RootBytesOf root_bytes;
};

enum class PassKind { kPrompt, kGenerated };

struct CallerRun {
  // Its `row` is filled in by the planner.
  WaveRun run;
  std::string caller;
  // kGenerated past the prompt's pass: such a run shares nothing.
  PassKind pass = PassKind::kPrompt;
};

// Plans the rows of waves, and which of them are kept for later ones. What it
// plans is a function of the runs and of the roots kept before, and never costs
// more token-layers than each run alone. Not thread-safe.
class RowPlanner {
 public:
  explicit RowPlanner(RowPlannerOptions options);
  ~RowPlanner();

  // Rows for the runs of a wave, which are of one executor. The wave is started
  // before ForgetRoot is called for anything that TakeForgotten returns from
  // here on, and Ended is called once for the plan, also where the wave was
  // given up.
  WavePlan Plan(std::vector<CallerRun> runs);
  // `kept`: what the executor has kept of the plan's rows; the other roots that
  // were planned do not exist.
  void Ended(absl::Span<const WaveRow> rows, absl::Span<const RootId> kept);

  // Now and then: what nobody has used for long is used no more. See
  // RootTable::GrowOlder.
  void GrowOlder();

  // An executor goes, with all that it keeps; no wave of it is under way.
  void ForgetAll(const std::string& executor);

  // Roots that are used no more, for Executor::ForgetRoot.
  std::vector<ForgottenRoot> TakeForgotten();

  // What kept rows hold, and those of waves under way will.
  int64_t root_bytes() const;

 private:
  const RowPlannerOptions options_;
  std::unique_ptr<RootTable> roots_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_ROW_PLANNER_H_
