// Runs waves of planned runs through a model and captures what they ask for.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_TRACE_EXECUTOR_H_
#define PHITAP_SERVER_TRACE_TRACE_EXECUTOR_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/checkpoint/checkpoint.h"
#include "server/model/weight_packing.h"
#include "server/model/weight_progress.h"
#include "server/plan/executor.h"
#include "server/trace/known_row_rules.h"

namespace phitap {

struct LoadOptions {
  // Element type to compute in.
  DType dtype = DType::kBF16;
  // Threads of the compute thread's ATen calls.
  int thread_count = 1;
  WeightPacking packing = WeightPacking::kNone;
  // May be null.
  WeightProgress on_weights;
  // Blocks until the task has run on that thread; null where it is the calling
  // one.
  std::function<absl::Status(std::function<void()>)> run_on_compute_thread;
  // Outlives the loading; null: every start measures.
  KnownRowRules* known_row_rules = nullptr;
};

// What a loaded model tells about its numbers.
struct NumericsReport {
  bool batch_invariant = true;
  // "multiples of 4 rows".
  std::string row_rule;
  // Device, CPU features, libtorch, threads, row rule, tile.
  std::string fingerprint;
};

struct LoadedModel {
  std::unique_ptr<Executor> executor;
  NumericsReport numerics;
  // What came of LoadOptions::packing.
  WeightPacking packing = WeightPacking::kNone;
};

// On the thread that will run waves, before it does: libtorch's thread count
// belongs to the calling thread.
void ReadyComputeThread(int thread_count);

// Loads the weights, measures the row rule (or takes the one that was measured
// under the same conditions) and returns what runs waves. On any thread; the
// measurement happens on the one that will run them. RESOURCE_EXHAUSTED where
// memory does not suffice, INTERNAL for libtorch's own errors.
absl::StatusOr<LoadedModel> LoadModel(
    std::shared_ptr<const Checkpoint> checkpoint, const LoadOptions& options);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_TRACE_EXECUTOR_H_
