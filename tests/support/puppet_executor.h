// An executor whose waves a test runs by hand, so that scheduling can be
// tested without a model and without timing.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_PUPPET_EXECUTOR_H_
#define PHITAP_TESTS_SUPPORT_PUPPET_EXECUTOR_H_

#include <algorithm>
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

// A step that a wave is about to make.
struct ShownStep {
  std::vector<WaveRun> rows;
  // From 0.
  int step = 0;
  bool last = true;
};

// Where a PuppetExecutor's waves meet the test's thread. Thread-safe.
class WaveStage {
 public:
  // Test: blocks until a wave is about to make a step.
  ShownStep AwaitStep() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return shown_.has_value(); });
    return *shown_;
  }
  // Test: the rows of that wave.
  std::vector<WaveRun> Await() { return AwaitStep().rows; }

  // Test: lets the wave make a step that is not its last.
  void Advance() {
    std::lock_guard lock(mutex_);
    advanced_ = true;
    shown_.reset();
    changed_.notify_all();
  }

  // Test: lets the wave end with these outcomes.
  void Complete(std::vector<RowOutcome> outcomes) {
    std::lock_guard lock(mutex_);
    outcomes_ = std::move(outcomes);
    shown_.reset();
    changed_.notify_all();
  }

  // Test: lets the wave make its step; if it is the last, delivers everything
  // and ends it. Returns the step.
  ShownStep StepNext() {
    ShownStep shown = AwaitStep();
    if (!shown.last) {
      Advance();
      return shown;
    }
    for (const WaveRun& row : shown.rows) DeliverAll(row);
    Complete(std::vector<RowOutcome>(shown.rows.size()));
    return shown;
  }

  // Test: lets the wave make all of its steps. Returns its rows.
  std::vector<WaveRun> CompleteNext() {
    for (;;) {
      ShownStep shown = StepNext();
      if (shown.last) return shown.rows;
    }
  }

  // Test: ends this and every later wave at once.
  void RunFreely() {
    std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }

  // Test: waves that have been destroyed.
  int destroyed_count() const {
    std::lock_guard lock(mutex_);
    return destroyed_count_;
  }

  // Executor: returns the outcomes, of the last step.
  std::vector<RowOutcome> Show(ShownStep step) {
    std::unique_lock lock(mutex_);
    shown_ = step;
    changed_.notify_all();
    changed_.wait(lock, [&] {
      return (step.last ? outcomes_.has_value() : advanced_) || free_;
    });
    shown_.reset();  // Where it ran freely.
    advanced_ = false;
    if (!step.last) return {};
    if (outcomes_.has_value()) return *std::exchange(outcomes_, std::nullopt);
    for (const WaveRun& row : step.rows) DeliverAll(row);
    return std::vector<RowOutcome>(step.rows.size());
  }
  void NoteDestroyed() {
    std::lock_guard lock(mutex_);
    ++destroyed_count_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<ShownStep> shown_;
  bool advanced_ = false;
  std::optional<std::vector<RowOutcome>> outcomes_;
  bool free_ = false;
  int destroyed_count_ = 0;
};

class PuppetWave final : public RunningWave {
 public:
  PuppetWave(WaveStage* stage, WavePlan plan, int step_count)
      : stage_(stage), plan_(std::move(plan)), step_count_(step_count) {}
  ~PuppetWave() override { stage_->NoteDestroyed(); }
  // Frees what it holds for runs that nobody waits for.
  bool Step() override {
    for (WaveRun& run : plan_.runs) {
      if (run.sink->Cancelled(run.run)) run.memory.reset();
    }
    const bool last = step_ + 1 == step_count_;
    outcomes_ =
        stage_->Show({.rows = plan_.runs, .step = step_++, .last = last});
    return !last;
  }
  std::vector<RowOutcome> Finish() override { return std::move(outcomes_); }
  std::vector<RootId> kept_roots() const override { return {}; }

 private:
  WaveStage* const stage_;
  WavePlan plan_;
  const int step_count_;
  int step_ = 0;
  std::vector<RowOutcome> outcomes_;
};

// Whether waves make one step for all, or one a layer.
enum class PuppetSteps { kOne, kLayers };

class PuppetExecutor final : public Executor {
 public:
  // `stage` outlives the executor.
  explicit PuppetExecutor(WaveStage* stage,
                          PuppetSteps steps = PuppetSteps::kOne)
      : stage_(stage), steps_(steps) {}
  std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> /*plan*/) override {
    return std::make_shared<TraceMemory>();
  }
  std::unique_ptr<RunningWave> Start(WavePlan plan) override {
    int step_count = 1;
    for (const WaveRun& row : plan.runs) {
      if (steps_ == PuppetSteps::kOne) break;
      step_count =
          std::max(step_count, row.plan->runs[row.run].reach.layer_count);
    }
    return std::make_unique<PuppetWave>(stage_, std::move(plan), step_count);
  }
  int64_t RootBytes(int layer_count, int64_t token_count) const override {
    return layer_count * token_count;
  }
  void ForgetRoot(RootId /*root*/) override {}

 private:
  WaveStage* const stage_;
  const PuppetSteps steps_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_PUPPET_EXECUTOR_H_
