#include "server/trace/trace_executor.h"

#include <ATen/core/Tensor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/checkpoint.h"
#include "server/plan/plan_trace.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/run_wave.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Plan = std::shared_ptr<const TracePlan>;

// Keeps what it is given; cancels a run after some of its layers.
class KeepingSink final : public ResultSink {
 public:
  bool Cancelled(int run) const override {
    const auto limit = cancel_after_.find(run);
    const auto done = layers_.find(run);
    return limit != cancel_after_.end() && done != layers_.end() &&
           done->second >= limit->second;
  }
  void Deliver(int tensor, HostTensor value) override {
    EXPECT_TRUE(values_.emplace(tensor, std::move(value)).second)
        << "tensor " << tensor << " came twice";
  }
  void LayerDone(int run, int64_t token_count) override {
    token_layers_ += token_count;
    const auto limit = throw_at_.find(run);
    if (++layers_[run] == (limit == throw_at_.end() ? 0 : limit->second)) {
      throw std::runtime_error("the whole forward fails");
    }
  }
  void DeliverToken(const GeneratedToken& token) override {
    tokens_.push_back(token);
  }

  // Once, after so many of the run's layers.
  void ThrowAt(int run, int layers) { throw_at_[run] = layers; }
  const std::vector<GeneratedToken>& tokens() const { return tokens_; }
  void CancelAfter(int run, int layers) { cancel_after_[run] = layers; }
  const HostTensor& value(int tensor) const { return values_.at(tensor); }
  std::set<int> delivered() const {
    std::set<int> tensors;
    for (const auto& [tensor, value] : values_) tensors.insert(tensor);
    return tensors;
  }
  int64_t token_layers() const { return token_layers_; }

 private:
  std::map<int, HostTensor> values_;
  std::vector<GeneratedToken> tokens_;
  std::map<int, int> layers_;
  std::map<int, int> cancel_after_;
  std::map<int, int> throw_at_;
  int64_t token_layers_ = 0;
};

std::string Bytes(const HostTensor& value) {
  return std::string(reinterpret_cast<const char*>(value.bytes.data()),
                     value.bytes.size());
}

class TraceExecutorTest : public testing::Test {
 protected:
  void SetUp() override {
    TinyCheckpoint(TinyKind::kGroupedQueries).Write(folder_);
    absl::StatusOr<std::shared_ptr<const Checkpoint>> checkpoint =
        Checkpoint::Open(folder_.path());
    ASSERT_THAT(checkpoint, IsOk());
    spec_ = (*checkpoint)->spec();
    absl::StatusOr<LoadedModel> model =
        LoadModel(*checkpoint, {.dtype = DType::kF32, .thread_count = 2});
    ASSERT_THAT(model, IsOk());
    executor_ = std::move(model->executor);
  }

  // One run of token ids 1, 2, … for each length.
  Plan PlanOf(const std::vector<int>& lengths, const std::string& captures) {
    v1::TraceRequest request;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(captures, &request));
    for (int length : lengths) {
      auto* tokens = request.add_runs()->mutable_prompt()->mutable_tokens();
      for (int i = 0; i < length; ++i) tokens->add_ids(1 + i % 90);
    }
    absl::StatusOr<Plan> plan = PlanTrace(
        request,
        {.model = "tiny", .spec = spec_, .compute_dtype = DType::kF32});
    EXPECT_THAT(plan, IsOk());
    return *plan;
  }

  std::vector<absl::Status> RunAll(const Plan& plan,
                                   const std::shared_ptr<KeepingSink>& sink) {
    const std::shared_ptr<TraceMemory> memory = executor_->Begin(plan);
    std::vector<WaveRun> rows;
    for (int run = 0; run < static_cast<int>(plan->runs.size()); ++run) {
      rows.push_back(
          {.plan = plan, .run = run, .sink = sink, .memory = memory});
    }
    std::vector<absl::Status> statuses;
    for (RowOutcome& outcome : RunWave(*executor_, {.runs = rows})) {
      statuses.push_back(std::move(outcome.status));
    }
    return statuses;
  }

  // What the first tensor of a request for one run of that length is.
  std::string Alone(int length, const std::string& captures) {
    auto sink = std::make_shared<KeepingSink>();
    EXPECT_THAT(RunAll(PlanOf({length}, captures), sink), ElementsAre(IsOk()));
    return Bytes(sink->value(0));
  }

  TempFolder folder_;
  ModelSpec spec_;
  std::unique_ptr<Executor> executor_;
};

constexpr char kLastLayer[] =
    "captures { hook_points: 'layers.-1.layer_output' }";

TEST_F(TraceExecutorTest, DeliversEveryTensorAsPlanned) {
  const Plan plan = PlanOf({7, 40}, R"pb(
    captures { hook_points: 'layers.*.attention_queries' }
    captures { hook_points: 'layers.0.attention_probabilities' }
    captures { hook_points: 'input_size' }
    captures {
      hook_points: 'logits'
      reduction { top_k { k: 3 } }
    }
    captures {
      hook_points: 'layers.*.layer_output'
      reduction {
        logit_lens {
          k: 2
          token_ids: [ 5, 6 ]
        }
      }
    })pb");
  auto sink = std::make_shared<KeepingSink>();
  EXPECT_THAT(RunAll(plan, sink), ElementsAre(IsOk(), IsOk()));
  ASSERT_EQ(sink->delivered().size(), plan->tensors.size());
  for (size_t t = 0; t < plan->tensors.size(); ++t) {
    const HostTensor& value = sink->value(static_cast<int>(t));
    EXPECT_EQ(value.shape, plan->tensors[t].shape) << t;
    EXPECT_EQ(value.dtype, plan->tensors[t].dtype) << t;
    EXPECT_EQ(static_cast<int64_t>(value.bytes.size()),
              plan->tensors[t].size_bytes)
        << t;
  }
  EXPECT_EQ(sink->token_layers(), plan->token_layers);
}

TEST_F(TraceExecutorTest, LetsALongActivationGoWhereOneRowIsCaptured) {
  auto sink = std::make_shared<KeepingSink>();
  const Plan plan = PlanOf({60}, R"pb(
    captures {
      hook_points: 'layers.0.mlp_neurons'
      selection { positions { indices: -1 } }
    })pb");
  EXPECT_THAT(RunAll(plan, sink), ElementsAre(IsOk()));
  const HostTensor& row = sink->value(0);
  const auto owner = std::static_pointer_cast<const at::Tensor>(row.owner);
  EXPECT_EQ(owner->storage().nbytes(), row.bytes.size());
}

TEST_F(TraceExecutorTest, ComputesALayerInputWithoutItsLayer) {
  auto sink = std::make_shared<KeepingSink>();
  const Plan plan =
      PlanOf({5}, "captures { hook_points: 'layers.1.layer_input' }");
  EXPECT_THAT(RunAll(plan, sink), ElementsAre(IsOk()));
  EXPECT_EQ(sink->token_layers(), 5);
  EXPECT_EQ(Bytes(sink->value(0)),
            Alone(5, "captures { hook_points: 'layers.0.layer_output' }"));
}

TEST_F(TraceExecutorTest, DropsACancelledRunAndLeavesItsNeighboursBitsAlone) {
  auto sink = std::make_shared<KeepingSink>();
  sink->CancelAfter(1, 1);
  const std::vector<absl::Status> statuses =
      RunAll(PlanOf({9, 20, 33}, kLastLayer), sink);
  EXPECT_THAT(statuses, ElementsAre(IsOk(),
                                    StatusIs(absl::StatusCode::kCancelled,
                                             HasSubstr("nobody waits")),
                                    IsOk()));
  EXPECT_THAT(sink->delivered(), ElementsAre(0, 2));
  EXPECT_EQ(Bytes(sink->value(0)), Alone(9, kLastLayer));
  EXPECT_EQ(Bytes(sink->value(2)), Alone(33, kLastLayer));
}

TEST_F(TraceExecutorTest, FailsARunAloneAndLeavesItsNeighboursBitsAlone) {
  TracePlan broken = *PlanOf({9, 20, 33}, kLastLayer);
  // No planner makes such a plan: the forward throws at this capture.
  broken.captures[1].selection.features = {0, spec_.hidden_size};
  auto sink = std::make_shared<KeepingSink>();
  const std::vector<absl::Status> statuses =
      RunAll(std::make_shared<const TracePlan>(broken), sink);
  EXPECT_THAT(statuses[0], IsOk());
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kInternal);
  EXPECT_THAT(statuses[2], IsOk());
  EXPECT_EQ(Bytes(sink->value(0)), Alone(9, kLastLayer));
  EXPECT_EQ(Bytes(sink->value(2)), Alone(33, kLastLayer));
}

TEST_F(TraceExecutorTest, RunsGroupsAgainAloneWhereTheWholeForwardFailed) {
  auto sink = std::make_shared<KeepingSink>();
  sink->ThrowAt(1, 2);
  const Plan plan = PlanOf({9, 20, 33}, R"pb(
    captures { hook_points: 'layers.*.layer_output' })pb");
  EXPECT_THAT(RunAll(plan, sink), ElementsAre(IsOk(), IsOk(), IsOk()));
  // Layer 0 had been delivered before; the sink counts what comes twice.
  EXPECT_EQ(sink->delivered().size(), plan->tensors.size());
  EXPECT_EQ(Bytes(sink->value(static_cast<int>(plan->tensors.size()) - 1)),
            Alone(33, kLastLayer));
}

TEST_F(TraceExecutorTest, GeneratesOnAfterAForwardThatFailed) {
  TracePlan generating = *PlanOf({9, 20}, kLastLayer);
  for (PlannedRun& run : generating.runs) {
    run.generation = PlannedGeneration{.max_tokens = 6};
  }
  const auto plan = std::make_shared<const TracePlan>(generating);
  const auto tokens_with = [&](int throw_at) {
    auto sink = std::make_shared<KeepingSink>();
    sink->ThrowAt(0, throw_at);
    const std::shared_ptr<TraceMemory> memory = executor_->Begin(plan);
    std::vector<WaveRun> rows;
    for (const int run : {0, 1}) {
      rows.push_back(
          {.plan = plan, .run = run, .sink = sink, .memory = memory});
    }
    for (bool goes_on = true; goes_on;) {
      for (const RowOutcome& outcome : RunWave(*executor_, {.runs = rows})) {
        EXPECT_THAT(outcome.status, IsOk());
        goes_on = outcome.goes_on;
      }
    }
    std::map<int, std::vector<int32_t>> tokens;
    for (const GeneratedToken& token : sink->tokens()) {
      tokens[token.run].push_back(token.id);
    }
    return tokens;
  };
  const auto undisturbed = tokens_with(1 << 20);
  EXPECT_EQ(undisturbed.at(0).size(), 6u);
  const int layers = static_cast<int>(spec_.num_layers);
  EXPECT_EQ(tokens_with(2 * layers + 1), undisturbed);
}

TEST_F(TraceExecutorTest, SaysSoWhereACaptureWasNeverMade) {
  TracePlan shallow = *PlanOf({9}, kLastLayer);
  shallow.runs[0].reach.layer_count = 1;
  auto sink = std::make_shared<KeepingSink>();
  EXPECT_THAT(RunAll(std::make_shared<const TracePlan>(shallow), sink),
              ElementsAre(StatusIs(absl::StatusCode::kInternal,
                                   HasSubstr("before every capture"))));
}

TEST_F(TraceExecutorTest, GivesTheLensTheModelsOwnPrediction) {
  const std::string last = Alone(12, R"pb(
    captures {
      hook_points: 'layers.-1.layer_output'
      reduction { logit_lens { k: 5 } }
    })pb");
  auto sink = std::make_shared<KeepingSink>();
  EXPECT_THAT(RunAll(PlanOf({12}, R"pb(
                       captures { hook_points: 'next_token_probs' })pb"),
                     sink),
              ElementsAre(IsOk()));
  const auto* next =
      reinterpret_cast<const float*>(sink->value(0).bytes.data());
  const auto* lens = reinterpret_cast<const float*>(last.data());
  const float best = *std::max_element(next, next + spec_.vocab_size);
  EXPECT_EQ(lens[11 * 5], best);
}

}  // namespace
}  // namespace phitap
