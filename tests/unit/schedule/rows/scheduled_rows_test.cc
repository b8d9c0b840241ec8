// Rows from a scheduler whose waves are set aside for others, of many requests
// at once.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/schedule/rows/random_runs.h"
#include "tests/unit/schedule/rows/symbolic_engine.h"
#include "tests/unit/schedule/scheduler_fixture.h"

namespace phitap {
namespace {

// What the executor has seen. Thread-safe.
class SymbolicRecord {
 public:
  void Add(const TracePlan* plan, const MadeRun& run) {
    std::lock_guard lock(mutex_);
    made_[plan] = run;
  }
  MadeRun MadeOf(const TracePlan* plan) {
    std::lock_guard lock(mutex_);
    return made_.at(plan);
  }
  void AddProblem(std::string problem) {
    std::lock_guard lock(mutex_);
    problems_.push_back(std::move(problem));
  }
  std::vector<std::string> problems() {
    std::lock_guard lock(mutex_);
    return problems_;
  }

  // Of the compute thread; read once it is done.
  int64_t compared = 0;
  int64_t rows_with_parent = 0;
  int64_t rows_from_roots = 0;
  int64_t roots_forgotten = 0;

 private:
  std::mutex mutex_;
  std::map<const TracePlan*, MadeRun> made_;
  std::vector<std::string> problems_;
};

// What the waves of an executor have in common.
struct SymbolicBoard {
  SymbolicRecord* record = nullptr;
  std::map<RootId, SymbolicRow> roots;
};

class SymbolicWave final : public RunningWave {
 public:
  SymbolicWave(SymbolicBoard* board, WavePlan plan)
      : board_(board),
        plan_(std::move(plan)),
        engine_(kRandomLayers, board->roots) {
    for (const WaveRow& row : plan_.rows) {
      board_->record->rows_with_parent += row.parent >= 0;
      board_->record->rows_from_roots += row.parent_root != kNoRoot;
      if (row.parent_root != kNoRoot &&
          !board_->roots.contains(row.parent_root)) {
        board_->record->AddProblem("a root that is not there");
      }
    }
  }

  bool Step() override { return ++step_ < kRandomLayers; }

  std::vector<RowOutcome> Finish() override {
    std::vector<MadeRun> made;
    for (const WaveRun& run : plan_.runs) {
      made.push_back(board_->record->MadeOf(run.plan.get()));
    }
    engine_.Execute(plan_, made);
    for (size_t i = 0; i < made.size(); ++i) {
      if (plan_.runs[i].row >= 0) Compare(made[i], static_cast<int>(i));
      DeliverAll(plan_.runs[i]);
    }
    for (const std::string& problem : engine_.problems()) {
      board_->record->AddProblem(problem);
    }
    for (size_t i = 0; i < plan_.rows.size(); ++i) {
      if (plan_.rows[i].keep_as == kNoRoot) continue;
      engine_.Keep(i);
      kept_.push_back(plan_.rows[i].keep_as);
      board_->roots[kept_.back()] = engine_.roots().at(kept_.back());
    }
    return std::vector<RowOutcome>(made.size());
  }
  std::vector<RootId> kept_roots() const override { return kept_; }

 private:
  void Compare(const MadeRun& run, int index) {
    const SymbolicRow alone = engine_.Alone(run, index);
    for (const MadeAsk& ask : run.asks) {
      const SymbolicLine& line =
          alone.values.at({ask.point.hook, ask.point.layer});
      for (const int64_t position : ask.positions) {
        ++board_->record->compared;
        if (engine_.Show(index, ask.point, position) == line[position]) {
          continue;
        }
        board_->record->AddProblem(absl::StrCat(
            "another value at ", FullName(ask.point), ", ", position));
      }
    }
  }

  SymbolicBoard* const board_;
  const WavePlan plan_;
  SymbolicEngine engine_;
  int step_ = 0;
  std::vector<RootId> kept_;
};

class SymbolicExecutor final : public Executor {
 public:
  explicit SymbolicExecutor(SymbolicRecord* record)
      : board_{.record = record} {}
  std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> /*plan*/) override {
    return std::make_shared<TraceMemory>();
  }
  std::unique_ptr<RunningWave> Start(WavePlan plan) override {
    return std::make_unique<SymbolicWave>(&board_, std::move(plan));
  }
  int64_t RootBytes(int layer_count, int64_t token_count) const override {
    return layer_count * token_count;
  }
  void ForgetRoot(RootId root) override {
    ++board_.record->roots_forgotten;
    if (board_.roots.erase(root) == 0) {
      board_.record->AddProblem("forgets a root that is not there");
    }
  }

 private:
  SymbolicBoard board_;
};

// A request of one run that returns one number.
std::shared_ptr<const TracePlan> RequestOf(const MadeRun& made) {
  auto plan = std::make_shared<TracePlan>(*Make(made, kRandomLayers).run.plan);
  plan->groups = {{.runs = {0}}};
  plan->tensors = {{.label = "value",
                    .point = {.hook = Hook::kLayerOutput, .layer = 1},
                    .shape = {1},
                    .dimension_names = {"seq"},
                    .size_bytes = 4}};
  plan->size_bytes = 4;
  return plan;
}

// Submits so many requests at once, and reads them to their ends. Returns how
// many ended well.
int RunBurst(int count, RandomRuns& random, SymbolicRecord& record,
             Scheduler& scheduler) {
  random.DrawPools();
  std::vector<std::shared_ptr<ResultStream>> streams;
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < count; ++i) {
    MadeRun run = random.Draw();
    run.generates = false;
    const std::shared_ptr<const TracePlan> plan = RequestOf(run);
    record.Add(plan.get(), run);
    readers.push_back(std::make_unique<Reader>());
    auto stream = scheduler.Submit(
        {.plan = plan, .caller = run.caller, .wake = readers.back()->wake()});
    if (!stream.ok()) continue;
    streams.push_back(*stream);
  }
  int ended_well = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    const auto finished = std::get<TraceFinished>(readers[i]->End(*streams[i]));
    if (finished.run_statuses[0].ok()) ++ended_well;
  }
  return ended_well;
}

TEST(ScheduledRowsTest, ShowEveryRunWhatItShowsAlone) {
  SymbolicRecord record;
  const ManualClock clock;
  auto scheduler = Scheduler::Start(
      {.max_wave_tokens = 120,
       .memory = {.max_root_bytes = 600},
       .clock = &clock},
      [&]() -> absl::StatusOr<ExecutorMap> {
        ExecutorMap executors;
        executors["tiny"] = std::make_unique<SymbolicExecutor>(&record);
        return executors;
      });
  ASSERT_TRUE(scheduler.ok());
  RandomRuns random(1);
  for (int burst = 0; burst < 60; ++burst) {
    ASSERT_EQ(RunBurst(20, random, record, **scheduler), 20);
  }
  scheduler->reset();
  EXPECT_THAT(record.problems(), ::testing::IsEmpty());
  EXPECT_GT(record.compared, 1000);
  EXPECT_GT(record.rows_with_parent, 100);
  EXPECT_GT(record.rows_from_roots, 10);
  EXPECT_GT(record.roots_forgotten, 10);
}

}  // namespace
}  // namespace phitap
