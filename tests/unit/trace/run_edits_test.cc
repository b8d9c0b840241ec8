// What edits do to runs, and what they leave alone.
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/trace/engine.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

// Two prompts of the same length and what is asked of both.
std::string TwoRuns(const std::string& interventions,
                    const std::string& captures) {
  return absl::StrCat("runs { label: 'clean' prompt { ", PromptOf(9, 1),
                      " } } runs { label: 'edited' prompt { ", PromptOf(9, 2),
                      " } ", interventions, " } ", captures);
}

class RunEdits : public testing::Test {
 protected:
  Engine engine_{{}};
};

constexpr char kOutputs[] = R"pb(
  captures { label: 'out' hook_points: 'layers.0.layer_output' }
  captures { label: 'logits' hook_points: 'logits' }
)pb";

TEST_F(RunEdits, PatchFromARunInTheSameWave) {
  const Traced traced =
      engine_.Run(TwoRuns(R"pb(
                            interventions {
                              hook_points: 'layers.0.layer_output'
                              selection { positions { indices: -1 } }
                              set { value { run { run: 'clean' } } }
                            })pb",
                          kOutputs));
  EXPECT_EQ(traced.wave_count, 1);
  const at::Tensor clean = traced.Value("out", "clean");
  const at::Tensor edited = traced.Value("out", "edited");
  EXPECT_TRUE(at::equal(edited[8], clean[8]));
  EXPECT_FALSE(at::equal(edited[7], clean[7]));
  const at::Tensor plain =
      engine_.Run(TwoRuns("", kOutputs)).Value("out", "edited");
  EXPECT_TRUE(at::equal(edited.narrow(0, 0, 8), plain.narrow(0, 0, 8)));
}

TEST_F(RunEdits, PatchAChainOfRunsThatStandsInTheOppositeOrder) {
  std::string request;
  for (int run = 5; run >= 0; --run) {
    absl::StrAppend(&request, "runs { label: 'r", run, "' prompt { ",
                    PromptOf(6, run + 1), " } ");
    if (run > 0) {
      absl::StrAppend(&request,
                      "interventions { hook_points: 'layers.1.mlp_output' "
                      "selection { positions { indices: 3 } } set { value { "
                      "run { run: 'r",
                      run - 1, "' } } } }");
    }
    absl::StrAppend(&request, " } ");
  }
  absl::StrAppend(&request,
                  "captures { label: 'out' hook_points: "
                  "'layers.1.mlp_output' }");
  const Traced traced = engine_.Run(request);
  EXPECT_EQ(traced.wave_count, 1);
  for (int run = 1; run < 6; ++run) {
    EXPECT_TRUE(at::equal(traced.Value("out", absl::StrCat("r", run))[3],
                          traced.Value("out", "r0")[3]))
        << run;
  }
}

TEST_F(RunEdits, PatchFromALaterLayerOfARunThatIsComputedBefore) {
  const Traced traced = engine_.Run(
      TwoRuns(R"pb(
                interventions {
                  hook_points: 'layers.0.layer_output'
                  selection { positions { indices: 2 } }
                  set {
                    value {
                      run {
                        run: 'clean'
                        hook_point: 'layers.1.layer_output'
                        selection { positions { indices: 5 } }
                      }
                    }
                  }
                })pb",
              R"pb(
                captures { label: 'out' hook_points: 'layers.0.layer_output' }
                captures { label: 'late' hook_points: 'layers.1.layer_output' }
              )pb"));
  EXPECT_EQ(traced.wave_count, 2);
  EXPECT_TRUE(at::equal(traced.Value("out", "edited")[2],
                        traced.Value("late", "clean")[5]));
}

TEST_F(RunEdits, ApplyInTheOrderOfTheRequest) {
  const std::string add = R"pb(
    interventions {
      hook_points: 'layers.0.layer_output'
      add { value { number: 1 } }
    })pb";
  const std::string scale = R"pb(
    interventions {
      hook_points: 'layers.0.layer_output'
      scale { value { number: 3 } }
    })pb";
  const at::Tensor plain =
      engine_.Run(TwoRuns("", kOutputs)).Value("out", "edited");
  EXPECT_TRUE(at::equal(
      engine_.Run(TwoRuns(add + scale, kOutputs)).Value("out", "edited"),
      (plain + 1) * 3));
  EXPECT_TRUE(at::equal(
      engine_.Run(TwoRuns(scale + add, kOutputs)).Value("out", "edited"),
      plain * 3 + 1));
}

TEST_F(RunEdits, AreSeenByWhatReadsAfterThemAndNotByWhatReadsBefore) {
  const Traced traced = engine_.Run(TwoRuns(
      R"pb(
        interventions {
          hook_points: 'layers.0.mlp_output'
          add { value { number: 2 } }
        })pb",
      R"pb(
        captures { label: 'after' hook_points: 'layers.0.mlp_output' }
        captures {
          label: 'before'
          hook_points: 'layers.0.mlp_output'
          read_time: READ_TIME_BEFORE
        }
      )pb"));
  const at::Tensor before = traced.Value("before", "edited");
  EXPECT_TRUE(at::equal(traced.Value("after", "edited"), before + 2));
  EXPECT_TRUE(at::equal(traced.Value("after", "clean"),
                        traced.Value("before", "clean")));
}

TEST_F(RunEdits, SetToTheMeanOverRuns) {
  const std::string request =
      absl::StrCat("runs { label: 'a' prompt { ", PromptOf(7, 1),
                   " } } runs { label: 'b' prompt { ", PromptOf(7, 2),
                   " } } runs { label: 'c' prompt { ", PromptOf(7, 3), " } ",
                   R"pb(
        interventions {
          hook_points: 'layers.1.attention_output'
          set { value { mean_of_runs { runs: 'a' runs: 'b' } } }
        } }
                             captures { label: 'out' hook_points: 'layers.1.attention_output' }
      )pb");
  const Traced traced = engine_.Run(request);
  EXPECT_TRUE(at::allclose(
      traced.Value("out", "c"),
      (traced.Value("out", "a") + traced.Value("out", "b")) / 2, 1e-6, 1e-7));
}

TEST_F(RunEdits, OfARunThatFailsFailWhatNeedsItAndNothingElse) {
  const std::string request =
      absl::StrCat(TwoRuns(R"pb(
                             interventions {
                               hook_points: 'layers.1.layer_output'
                               set { value { run { run: 'clean' } } }
                             })pb",
                           kOutputs),
                   "runs { label: 'other' prompt { ", PromptOf(5, 3), " } }");
  const auto plan = engine_.Plan(request);
  ASSERT_THAT(plan, IsOk());
  TracePlan broken = **plan;
  for (PlannedCapture& capture : broken.captures) {
    // No planner makes such a plan: the capture throws.
    if (capture.run == 0 && capture.point.layer == 0) {
      capture.selection.features = {0, engine_.spec().hidden_size};
    }
  }
  const Traced traced =
      engine_.Run(std::make_shared<const TracePlan>(std::move(broken)));
  EXPECT_EQ(traced.outcomes.at(0).status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(traced.outcomes.at(1).status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("run \"clean\", which it reads, failed")));
  EXPECT_THAT(traced.outcomes.at(2).status, IsOk());
  EXPECT_TRUE(at::equal(traced.Value("logits", "other"),
                        engine_.Run(request).Value("logits", "other")));
}

TEST_F(RunEdits, HaveTheSameBitsWhetherGroupsShareAWaveOrNot) {
  const std::string request = TwoRuns(
      R"pb(
    interventions {
      hook_points: 'layers.0.layer_output'
      selection { positions { indices: 2 } }
      set {
        value {
          run {
            run: 'clean'
            hook_point: 'layers.1.layer_output'
          }
        }
      }
    } }
            runs { label: 'third' prompt { tokens { ids: [ 5, 6, 7 ] } })pb",
      kOutputs);
  const Traced shared = engine_.Run(request);
  const Traced one = engine_.Run(request, Engine::Waves::kGroupByGroup);
  EXPECT_EQ(shared.wave_count, 2);
  EXPECT_EQ(one.wave_count, 3);
  ASSERT_EQ(shared.tensors.size(), one.tensors.size());
  for (const auto& [tensor, value] : shared.tensors) {
    EXPECT_TRUE(at::equal(value, one.tensors.at(tensor))) << tensor;
  }
}

TEST_F(RunEdits, OfASweepAreThoseOfItsCellsRunByRun) {
  const std::string metric =
      "logit_difference { token_id: 3 baseline_token_id: 8 }";
  const std::string sweep = absl::StrCat(
      R"pb(sweeps { label: 's' run: 'edited'
                    interventions {
                      hook_points: 'layers.*.layer_output'
                      set { value { run { run: 'clean' } } }
                    }
                    axes { layers {} }
                    axes { positions {} }
                    metrics { label: 'm')pb",
      metric, " } }");
  const Traced traced = engine_.Run(TwoRuns("", sweep));
  const at::Tensor grid = traced.Value("s");
  const int64_t layers = engine_.spec().num_layers;
  ASSERT_EQ(grid.sizes().vec(), (std::vector<int64_t>{layers, 9}));
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (const int64_t position : {0, 4, 8}) {
      const Traced cell = engine_.Run(TwoRuns(
          absl::StrCat(
              "interventions { hook_points: 'layers.", layer,
              ".layer_output' selection { positions { indices: ", position,
              " } } set { value { run { run: 'clean' } } } }"),
          absl::StrCat("program { nodes { name: 'n' metric { run: 'edited' ",
                       metric, " } } } captures { label: 'm' node: 'n' }")));
      EXPECT_EQ(grid[layer][position].item<float>(),
                cell.Value("m").item<float>())
          << layer << ", " << position;
    }
  }
}

TEST_F(RunEdits, RefuseAnIndexThatWasComputedOutOfRange) {
  const auto plan = engine_.Plan(TwoRuns("", R"pb(
    program {
      nodes {
        name: 'x'
        read { run: 'clean' hook_point: 'layers.0.layer_output' }
      }
      nodes { name: 'i' number: 64 }
      nodes {
        name: 'picked'
        inputs: [ 'x', 'i' ]
        gather { dimension: -1 }
      }
    }
    captures { label: 'picked' node: 'picked' }
    captures { label: 'x' node: 'x' })pb"));
  ASSERT_THAT(plan, IsOk());
  const Traced traced = engine_.Run(*plan);
  EXPECT_THAT(traced.outcomes.at(0).status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("program.nodes[2]")));
  EXPECT_TRUE(traced.Value("x").defined());
}

}  // namespace
}  // namespace phitap
