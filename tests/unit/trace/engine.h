// A tiny model that runs text requests to their end, group by group.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_TRACE_ENGINE_H_
#define PHITAP_TESTS_UNIT_TRACE_ENGINE_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/checkpoint.h"
#include "server/plan/executor.h"
#include "server/plan/trace_plan.h"
#include "server/trace/trace_executor.h"
#include "tests/support/checkpoint_files.h"

namespace phitap {

// What became of a request.
struct Traced {
  std::shared_ptr<const TracePlan> plan;
  std::map<int, at::Tensor> tensors;
  // The last outcome of each run.
  std::map<int, RowOutcome> outcomes;
  // By run, in the order in which they came.
  std::map<int, std::vector<GeneratedToken>> tokens;
  // How many waves it took.
  int wave_count = 0;

  // The only tensor with these; undefined where it did not come.
  at::Tensor Value(absl::string_view label, absl::string_view run = "",
                   int step = 0) const;
  std::vector<int32_t> TokensOf(int run) const;
};

class Engine {
 public:
  struct Setting {
    TinyKind kind = TinyKind::kGroupedQueries;
    DType dtype = DType::kF32;
    int thread_count = 2;
  };
  explicit Engine(const Setting& setting);

  const ModelSpec& spec() const { return spec_; }
  Executor& executor() { return *executor_; }

  // A TraceRequest in text format.
  absl::StatusOr<std::shared_ptr<const TracePlan>> Plan(
      const std::string& request) const;
  // Whether groups that could run at the same time share a wave.
  enum class Waves { kShared, kGroupByGroup };
  Traced Run(std::shared_ptr<const TracePlan> plan,
             Waves waves = Waves::kShared);
  // Expects every run to end well.
  Traced Run(const std::string& request, Waves waves = Waves::kShared);

 private:
  TempFolder folder_;
  ModelSpec spec_;
  DType dtype_;
  std::unique_ptr<Executor> executor_;
};

// `count` token ids from a fixed sequence, as the text of a prompt:
// "tokens { ids: [ 3, 17 ] }".
std::string PromptOf(int count, int seed = 1);

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_TRACE_ENGINE_H_
