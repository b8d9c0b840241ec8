// An executor whose waves a test runs by hand, so that scheduling can be
// tested without a model and without timing.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_PUPPET_EXECUTOR_H_
#define PHITAP_TESTS_SUPPORT_PUPPET_EXECUTOR_H_

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/base/host_tensor.h"
#include "server/plan/executor.h"

namespace phitap {

// Delivers every tensor of the row's run, each byte its tensor's number; of a
// gradient's row none.
inline void DeliverAll(const WaveRun& row) {
  if (row.gradient_pass >= 0) return;
  for (size_t i = 0; i < row.plan->tensors.size(); ++i) {
    const PlannedTensor& tensor = row.plan->tensors[i];
    if (tensor.run != row.run) continue;
    const std::vector<std::byte> bytes(tensor.size_bytes,
                                       static_cast<std::byte>(i));
    row.sink->Deliver(static_cast<int>(i),
                      CopyOf(tensor.dtype, tensor.shape, bytes));
  }
}

// Where a PuppetExecutor's waves meet the test's thread. Thread-safe.
class WaveStage {
 public:
  // Test: blocks until the executor is given a wave, and returns its rows.
  std::vector<WaveRun> Await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return rows_.has_value(); });
    return *rows_;
  }

  // Test: lets the wave end with these outcomes.
  void Complete(std::vector<RowOutcome> outcomes) {
    std::lock_guard lock(mutex_);
    outcomes_ = std::move(outcomes);
    rows_.reset();
    changed_.notify_all();
  }

  // Test: delivers everything and ends the wave. Returns its rows.
  std::vector<WaveRun> CompleteNext() {
    std::vector<WaveRun> rows = Await();
    for (const WaveRun& row : rows) DeliverAll(row);
    Complete(std::vector<RowOutcome>(rows.size()));
    return rows;
  }

  // Test: ends this and every later wave at once.
  void RunFreely() {
    std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }

  // Executor.
  std::vector<RowOutcome> Show(absl::Span<const WaveRun> rows) {
    std::unique_lock lock(mutex_);
    rows_.emplace(rows.begin(), rows.end());
    changed_.notify_all();
    changed_.wait(lock, [&] { return outcomes_.has_value() || free_; });
    rows_.reset();  // Where it ran freely.
    if (outcomes_.has_value()) return *std::exchange(outcomes_, std::nullopt);
    for (const WaveRun& row : rows) DeliverAll(row);
    return std::vector<RowOutcome>(rows.size());
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::vector<WaveRun>> rows_;
  std::optional<std::vector<RowOutcome>> outcomes_;
  bool free_ = false;
};

// Computes everything in one step.
class PuppetWave final : public RunningWave {
 public:
  PuppetWave(WaveStage* stage, WavePlan plan)
      : stage_(stage), plan_(std::move(plan)) {}
  bool Step() override {
    outcomes_ = stage_->Show(plan_.runs);
    return false;
  }
  std::vector<RowOutcome> Finish() override { return std::move(outcomes_); }
  std::vector<RootId> kept_roots() const override { return {}; }

 private:
  WaveStage* const stage_;
  const WavePlan plan_;
  std::vector<RowOutcome> outcomes_;
};

class PuppetExecutor final : public Executor {
 public:
  // `stage` outlives the executor.
  explicit PuppetExecutor(WaveStage* stage) : stage_(stage) {}
  std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> /*plan*/) override {
    return std::make_shared<TraceMemory>();
  }
  std::unique_ptr<RunningWave> Start(WavePlan plan) override {
    return std::make_unique<PuppetWave>(stage_, std::move(plan));
  }
  int64_t RootBytes(int layer_count, int64_t token_count) const override {
    return layer_count * token_count;
  }
  void ForgetRoot(RootId /*root*/) override {}

 private:
  WaveStage* const stage_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_PUPPET_EXECUTOR_H_
