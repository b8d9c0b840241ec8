#include "tests/fuzz/plan_waves.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/plan/order/reach.h"
#include "server/plan/runs/plan_generation.h"
#include "server/schedule/byte_budget.h"
#include "server/schedule/group_order.h"
#include "server/schedule/rows/row_planner.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/refusal.h"
#include "tests/fuzz/run_promises.h"

namespace phitap {
namespace {

// Passes over generated tokens that are gone through: more are the same again.
constexpr int kMostTokens = 2;
constexpr int64_t kRootBytes = 1 << 20;
constexpr int64_t kBudgetBytes = int64_t{1} << 32;

int64_t TokenLayersOf(const WaveRow& row) {
  const int64_t layers = row.reach.layer_count - row.first_layer;
  if (layers <= 0) return 0;
  return (layers - 1) * (row.token_count - row.first_position) +
         static_cast<int64_t>(row.reach.tail_positions.size());
}

void ExpectRow(const WavePlan& wave, size_t index) {
  const WaveRow& row = wave.rows[index];
  Expect(row.leader >= 0 && row.leader < static_cast<int>(wave.runs.size()),
         "a row has the tokens of a run");
  const WaveRun& leader = wave.runs[row.leader];
  const PlannedRun& run = leader.plan->runs[leader.run];
  Expect(row.token_count >= 1 && row.token_count <= TokenCount(run),
         "a row has as many as the run");
  Expect(row.parent < static_cast<int>(index), "a parent comes before");
  const bool has_parent = row.parent >= 0 || row.parent_root != kNoRoot;
  Expect(!has_parent || row.keep_as == kNoRoot, "a row below is not kept");
  Expect(has_parent || (row.first_layer == 0 && row.first_position == 0),
         "a row without a parent is whole");
  Expect(row.first_layer >= 0 && row.first_layer <= row.reach.layer_count,
         "a row begins in its layers");
  Expect(row.first_position >= 0 && row.first_position <= row.token_count,
         "a row begins in its tokens");
  const std::vector<int64_t>& tail = row.reach.tail_positions;
  Expect(tail.empty() || (tail.front() >= row.first_position &&
                          tail.back() < row.token_count),
         "a row computes positions of its own");
  for (const int write : row.writes) {
    Expect(write >= 0 && write < static_cast<int>(leader.plan->writes.size()) &&
               leader.plan->writes[write].run == leader.run,
           "a row's writes are its leader's");
  }
}

void ExpectRows(const WavePlan& wave) {
  int64_t alone = 0, together = 0;
  for (const WaveRun& run : wave.runs) {
    if (run.row < 0) continue;
    Expect(run.row < static_cast<int>(wave.rows.size()), "a row is there");
    const PlannedRun& planned = run.plan->runs[run.run];
    Expect(wave.rows[run.row].token_count == TokenCount(planned),
           "a run's row has its tokens");
    alone += TokenLayers(planned.reach, TokenCount(planned));
  }
  for (size_t i = 0; i < wave.rows.size(); ++i) {
    ExpectRow(wave, i);
    together += TokenLayersOf(wave.rows[i]);
  }
  Expect(together <= alone, "rows cost no more than runs alone");
}

class WaveWalk {
 public:
  explicit WaveWalk(std::shared_ptr<const TracePlan> plan)
      : plan_(std::move(plan)),
        order_(plan_),
        tokens_(plan_->groups.size(), 0),
        rows_({.max_root_bytes = kRootBytes,
               .root_bytes = [](const std::string&, int layers,
                                int64_t tokens) { return layers * tokens; }}) {}

  void Finish() {
    Expect(order_.has_ready(), "a plan has a group to begin with");
    while (order_.has_ready()) MakeWave(*order_.first_phase());
    Expect(order_.all_ended(), "every group is ready some time");
  }

 private:
  // One with all groups that are ready for it.
  void MakeWave(PassPhase phase) {
    std::vector<GroupPass> passes;
    std::vector<CallerRun> runs;
    while (order_.has_ready(phase)) {
      const PassSize size =
          order_.NextSize(phase, static_cast<int>(runs.size()));
      Expect(
          size.tokens > 0 && size.token_layers > 0 && size.workspace_bytes >= 0,
          "a pass takes something of a wave");
      passes.push_back(order_.Take(phase));
      AddRuns(passes.back(), runs);
    }
    const WavePlan wave = rows_.Plan(std::move(runs));
    ExpectRows(wave);
    std::vector<RootId> kept;
    for (const WaveRow& row : wave.rows) {
      if (row.keep_as != kNoRoot) kept.push_back(row.keep_as);
    }
    rows_.Ended(wave.rows, kept);
    Expect(rows_.root_bytes() <= kRootBytes, "kept rows are within the limit");
    for (const GroupPass& pass : passes) End(pass);
  }

  void AddRuns(const GroupPass& pass, std::vector<CallerRun>& runs) const {
    for (const int run : pass.runs) {
      runs.push_back(
          {.run = {.plan = plan_,
                   .run = run,
                   .gradient_pass = plan_->groups[pass.group].gradient_pass},
           .caller = "somebody",
           .pass = pass.phase == PassPhase::kToken ? PassKind::kGenerated
                                                   : PassKind::kPrompt});
    }
  }

  void End(const GroupPass& pass) {
    std::vector<int> going_on;
    for (const int run : pass.runs) {
      const int most = std::min(PassCount(plan_->runs[run]) - 1, kMostTokens);
      if (pass.phase != PassPhase::kGradient && tokens_[pass.group] < most) {
        going_on.push_back(run);
      }
    }
    ++tokens_[pass.group];
    if (going_on.empty()) return order_.EndWell(pass.group);
    order_.GoOn(pass.group, std::move(going_on));
  }

  const std::shared_ptr<const TracePlan> plan_;
  GroupOrder order_;
  // Of each group: its passes that have ended.
  std::vector<int> tokens_;
  RowPlanner rows_;
};

}  // namespace

void ExpectWaves(const std::shared_ptr<const TracePlan>& plan) {
  ByteBudget budget({.limit_bytes = kBudgetBytes, .purpose = "answers"});
  {
    auto reservation =
        budget.Reserve(plan->storage_bytes + plan->working_bytes, "somebody");
    ExpectRefusal(reservation.status());
    if (!reservation.ok()) return;
    const auto working = reservation->Split(plan->working_bytes);
    Expect(reservation->bytes() == plan->storage_bytes &&
               working.bytes() == plan->working_bytes,
           "what was asked for is reserved");
    WaveWalk(plan).Finish();
  }
  Expect(budget.reserved_bytes() == 0, "every byte is given back");
}

}  // namespace phitap
