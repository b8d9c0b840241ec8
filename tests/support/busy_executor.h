// An executor that computes nothing and waits for nobody, for tests of many
// threads: its waves do all that a model's would tell.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_BUSY_EXECUTOR_H_
#define PHITAP_TESTS_SUPPORT_BUSY_EXECUTOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/plan/executor.h"
#include "tests/support/puppet_executor.h"

namespace phitap {

// Runs whose prompt has so many tokens fail, with INVALID_ARGUMENT.
inline constexpr size_t kUnluckyTokenCount = 13;

// What executors hold and have seen. The compute thread's, as executors are:
// there is no lock, so that a thread sanitizer sees whoever else touches it.
struct BusyCounts {
  // There now.
  int64_t memories = 0;
  int64_t waves = 0;
  // In all.
  int64_t layers = 0;
  int64_t rows_from_roots = 0;
  // Rows and calls that name a root which is not there.
  int64_t lost_roots = 0;
};

// Of one request.
class BusyMemory final : public TraceMemory {
 public:
  explicit BusyMemory(BusyCounts* counts) : counts_(counts) {
    ++counts_->memories;
  }
  ~BusyMemory() override { --counts_->memories; }

  // By run: tokens that it has generated.
  std::map<int, int> made;

 private:
  BusyCounts* const counts_;
};

class BusyWave final : public RunningWave {
 public:
  // `roots` is the executor's. Both outlive the wave.
  BusyWave(WavePlan plan, std::set<RootId>* roots, BusyCounts* counts)
      : plan_(std::move(plan)), roots_(roots), counts_(counts) {
    ++counts_->waves;
    for (const WaveRun& run : plan_.runs) {
      layers_ = std::max(layers_, LayersOf(run));
    }
    for (const WaveRow& row : plan_.rows) {
      if (row.parent_root == kNoRoot) continue;
      ++counts_->rows_from_roots;
      counts_->lost_roots += !roots_->contains(row.parent_root);
    }
  }
  ~BusyWave() override { --counts_->waves; }

  bool Step() override {
    ++counts_->layers;
    for (WaveRun& run : plan_.runs) {
      if (run.sink->Cancelled(run.run)) run.memory.reset();
      if (run.memory == nullptr || step_ >= LayersOf(run)) continue;
      run.sink->LayerDone(run.run, 1);
    }
    return ++step_ < layers_;
  }

  std::vector<RowOutcome> Finish() override {
    std::vector<RowOutcome> outcomes;
    for (const WaveRun& run : plan_.runs) outcomes.push_back(End(run));
    for (const WaveRow& row : plan_.rows) {
      if (row.keep_as == kNoRoot) continue;
      roots_->insert(row.keep_as);
      kept_.push_back(row.keep_as);
    }
    return outcomes;
  }
  std::vector<RootId> kept_roots() const override { return kept_; }

 private:
  static int LayersOf(const WaveRun& run) {
    return run.plan->runs[run.run].reach.layer_count;
  }

  static RowOutcome End(const WaveRun& run) {
    if (run.memory == nullptr) {
      return {.status = absl::CancelledError("nobody waits for it")};
    }
    const PlannedRun& planned = run.plan->runs[run.run];
    if (planned.ids.size() == kUnluckyTokenCount) {
      return {.status = absl::InvalidArgumentError("an unlucky prompt")};
    }
    if (run.gradient_pass >= 0) return {};
    int& made = static_cast<BusyMemory&>(*run.memory).made[run.run];
    if (made == 0) DeliverAll(run);
    if (!planned.generation.has_value()) return {};
    run.sink->DeliverToken({.run = run.run, .step = ++made, .id = made});
    if (made < planned.generation->max_tokens) return {.goes_on = true};
    return {.finish_reason = FinishReason::kLength};
  }

  WavePlan plan_;
  std::set<RootId>* const roots_;
  BusyCounts* const counts_;
  int layers_ = 0;
  int step_ = 0;
  std::vector<RootId> kept_;
};

class BusyExecutor final : public Executor {
 public:
  // `counts` outlives the executor.
  explicit BusyExecutor(BusyCounts* counts) : counts_(counts) {}

  std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> /*plan*/) override {
    return std::make_shared<BusyMemory>(counts_);
  }
  std::unique_ptr<RunningWave> Start(WavePlan plan) override {
    return std::make_unique<BusyWave>(std::move(plan), &roots_, counts_);
  }
  int64_t RootBytes(int layer_count, int64_t token_count) const override {
    return layer_count * token_count;
  }
  void ForgetRoot(RootId root) override {
    counts_->lost_roots += roots_.erase(root) == 0;
  }

 private:
  BusyCounts* const counts_;
  std::set<RootId> roots_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_BUSY_EXECUTOR_H_
