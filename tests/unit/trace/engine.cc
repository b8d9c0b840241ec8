#include "tests/unit/trace/engine.h"

#include <ATen/Parallel.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/plan/plan_trace.h"
#include "server/trace/evaluate.h"
#include "tests/support/run_wave.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

class KeepingSink final : public ResultSink {
 public:
  explicit KeepingSink(Traced& traced) : traced_(traced) {}
  bool Cancelled(int) const override { return false; }
  void Deliver(int tensor, HostTensor value) override {
    EXPECT_EQ(value.shape, traced_.plan->tensors[tensor].shape) << tensor;
    EXPECT_EQ(value.dtype, traced_.plan->tensors[tensor].dtype) << tensor;
    EXPECT_TRUE(traced_.tensors.emplace(tensor, TensorOver(value)).second)
        << "tensor " << tensor << " came twice";
  }
  void LayerDone(int, int64_t) override {}
  void DeliverToken(const GeneratedToken& token) override {
    traced_.tokens[token.run].push_back(token);
  }

 private:
  Traced& traced_;
};

// The groups that have not ended and whose predecessors have.
std::vector<int> Ready(const TracePlan& plan, const std::set<int>& ended) {
  std::vector<int> ready;
  for (int g = 0; g < static_cast<int>(plan.groups.size()); ++g) {
    const std::vector<int>& after = plan.groups[g].after;
    if (!ended.contains(g) &&
        std::all_of(after.begin(), after.end(),
                    [&](int other) { return ended.contains(other); })) {
      ready.push_back(g);
    }
  }
  return ready;
}

// What the wave takes of the ready groups.
std::vector<int> Chosen(const TracePlan& plan, const std::vector<int>& ready,
                        Engine::Waves waves) {
  std::vector<int> chosen = {ready.front()};
  if (waves == Engine::Waves::kGroupByGroup ||
      plan.numerics == Numerics::kTransformers ||
      plan.groups[ready.front()].gradient_pass >= 0) {
    return chosen;
  }
  for (size_t i = 1; i < ready.size(); ++i) {
    if (plan.groups[ready[i]].gradient_pass < 0) chosen.push_back(ready[i]);
  }
  return chosen;
}

}  // namespace

at::Tensor Traced::Value(absl::string_view label, absl::string_view run,
                         int step) const {
  at::Tensor found;
  for (const auto& [index, value] : tensors) {
    const PlannedTensor& tensor = plan->tensors[index];
    const std::string owner =
        tensor.run < 0 ? "" : plan->runs[tensor.run].label;
    if (tensor.label != label || tensor.step != step) continue;
    if (!run.empty() && owner != run) continue;
    EXPECT_FALSE(found.defined()) << label << " is there twice";
    found = value;
  }
  return found;
}

std::vector<int32_t> Traced::TokensOf(int run) const {
  std::vector<int32_t> ids;
  for (const GeneratedToken& token : tokens.at(run)) ids.push_back(token.id);
  return ids;
}

Engine::Engine(const Setting& setting) : dtype_(setting.dtype) {
  TinyCheckpoint(setting.kind).Write(folder_);
  auto checkpoint = Checkpoint::Open(folder_.path());
  EXPECT_THAT(checkpoint, IsOk());
  spec_ = (*checkpoint)->spec();
  auto model = LoadModel(*checkpoint, {.dtype = setting.dtype,
                                       .thread_count = setting.thread_count});
  EXPECT_THAT(model, IsOk());
  executor_ = std::move(model->executor);
}

absl::StatusOr<std::shared_ptr<const TracePlan>> Engine::Plan(
    const std::string& request) const {
  v1::TraceRequest message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(request, &message));
  return PlanTrace(message,
                   {.model = "tiny", .spec = spec_, .compute_dtype = dtype_});
}

Traced Engine::Run(std::shared_ptr<const TracePlan> plan, Waves waves) {
  Traced traced{.plan = plan};
  const auto sink = std::make_shared<KeepingSink>(traced);
  const std::shared_ptr<TraceMemory> memory = executor_->Begin(plan);
  std::set<int> ended;
  while (ended.size() < plan->groups.size()) {
    const std::vector<int> ready = Ready(*plan, ended);
    std::vector<WaveRun> rows;
    std::vector<int> group_of_row;
    for (const int group : Chosen(*plan, ready, waves)) {
      for (const int run : plan->groups[group].runs) {
        const auto before = traced.outcomes.find(run);
        const int pass = plan->groups[group].gradient_pass;
        if (pass < 0 && before != traced.outcomes.end() &&
            !before->second.goes_on) {
          continue;
        }
        rows.push_back({.plan = plan,
                        .run = run,
                        .sink = sink,
                        .memory = memory,
                        .gradient_pass = pass});
        group_of_row.push_back(group);
      }
    }
    std::vector<RowOutcome> outcomes = RunWave(*executor_, {.runs = rows});
    ++traced.wave_count;
    std::set<int> go_on;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (outcomes[i].goes_on) go_on.insert(group_of_row[i]);
      traced.outcomes[rows[i].run] = std::move(outcomes[i]);
    }
    for (const int group : group_of_row) {
      if (!go_on.contains(group)) ended.insert(group);
    }
  }
  return traced;
}

Traced Engine::Run(const std::string& request, Waves waves) {
  const auto plan = Plan(request);
  EXPECT_THAT(plan, IsOk()) << request;
  if (!plan.ok()) return {};
  Traced traced = Run(*plan, waves);
  for (const auto& [run, outcome] : traced.outcomes) {
    EXPECT_THAT(outcome.status, IsOk()) << (*plan)->runs[run].label;
  }
  return traced;
}

std::string PromptOf(int count, int seed) {
  std::vector<int> ids;
  for (int i = 0; i < count; ++i) ids.push_back((7 * i * seed + i + seed) % 96);
  return absl::StrCat("tokens { ids: [ ", absl::StrJoin(ids, ", "), " ] }");
}

}  // namespace phitap
