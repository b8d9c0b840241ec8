#include "server/schedule/rows/row_planner.h"

#include <algorithm>
#include <utility>

#include "server/schedule/rows/lay_out_rows.h"
#include "server/schedule/rows/prompt_chains.h"
#include "server/schedule/rows/row_forest.h"
#include "server/schedule/rows/settle_rows.h"
#include "server/schedule/rows/write_bases.h"

namespace phitap {
namespace {

// Runs of a wave that may have values in common; indices in the wave.
struct SharingGroup {
  SharingKey key;
  std::vector<int> runs;
};

bool HasRow(const CallerRun& caller_run) {
  const WaveRun& run = caller_run.run;
  return caller_run.pass == PassKind::kPrompt && run.gradient_pass < 0 &&
         run.plan->numerics == Numerics::kCausal &&
         run.plan->runs[run.run].sharing.allowed;
}

SharingKey KeyOf(const CallerRun& caller_run, CallerSharing sharing) {
  const TracePlan& plan = *caller_run.run.plan;
  return {.caller = sharing == CallerSharing::kWithinCaller ? caller_run.caller
                                                            : std::string(),
          .executor = plan.model,
          .attention = plan.attention,
          .long_factors = plan.runs[caller_run.run.run].sharing.long_factors};
}

std::vector<SharingGroup> GroupsOf(const std::vector<CallerRun>& runs,
                                   CallerSharing sharing) {
  std::vector<SharingGroup> groups;
  size_t last = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!HasRow(runs[i])) continue;
    SharingKey key = KeyOf(runs[i], sharing);
    // Runs of one caller come one after another.
    if (last >= groups.size() || groups[last].key != key) {
      last = std::find_if(
                 groups.begin(), groups.end(),
                 [&](const SharingGroup& group) { return group.key == key; }) -
             groups.begin();
    }
    if (last == groups.size()) groups.push_back({.key = std::move(key)});
    groups[last].runs.push_back(static_cast<int>(i));
  }
  return groups;
}

}  // namespace

RowPlanner::RowPlanner(RowPlannerOptions options)
    : options_(std::move(options)),
      roots_(std::make_unique<RootTable>(options_.max_root_bytes,
                                         options_.root_bytes)) {}

RowPlanner::~RowPlanner() = default;

WavePlan RowPlanner::Plan(std::vector<CallerRun> runs) {
  const std::vector<SharingGroup> groups = GroupsOf(runs, options_.sharing);
  WavePlan wave;
  wave.runs.reserve(runs.size());
  for (CallerRun& caller_run : runs) {
    wave.runs.push_back(std::move(caller_run.run));
    wave.runs.back().row = -1;
  }
  for (const SharingGroup& group : groups) {
    RowForest forest = {.runs = wave.runs, .roots = roots_->Find(group.key)};
    AddRuns(group.runs, forest);
    ChainPrompts(forest);
    GrowByWrites(forest);
    SettleRows(forest);
    LayOutRows(forest, group.key, *roots_, wave);
  }
  return wave;
}

void RowPlanner::Ended(absl::Span<const WaveRow> rows,
                       absl::Span<const RootId> kept) {
  for (const WaveRow& row : rows) {
    if (row.parent_root != kNoRoot) roots_->Release(row.parent_root);
    if (row.keep_as == kNoRoot) continue;
    const bool is_kept =
        std::find(kept.begin(), kept.end(), row.keep_as) != kept.end();
    roots_->Settle(row.keep_as,
                   is_kept ? RootTable::Fate::kKept : RootTable::Fate::kLost);
  }
}

void RowPlanner::GrowOlder() { roots_->GrowOlder(); }

void RowPlanner::ForgetAll(const std::string& executor) {
  roots_->ForgetAll(executor);
}

std::vector<ForgottenRoot> RowPlanner::TakeForgotten() {
  return roots_->TakeForgotten();
}

int64_t RowPlanner::root_bytes() const { return roots_->size_bytes(); }

}  // namespace phitap
