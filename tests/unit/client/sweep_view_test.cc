#include "client/cli/sweep_view.h"

#include "tests/support/status_matchers.h"
#include "tests/unit/client/proto_matchers.h"

namespace phitap::cli {
namespace {

using testing::HasSubstr;

HostTensor Values(std::vector<int64_t> shape,
                  const std::vector<float>& values) {
  return CopyOf(DType::kF32, std::move(shape),
                {reinterpret_cast<const std::byte*>(values.data()),
                 values.size() * sizeof(float)});
}

// Two layers of three tokens, from −2 in the corrupt run to 2 in the clean one.
SweepAnswer Patched() {
  return {.run = "corrupt",
          .reference_run = "clean",
          .axes = {{.kind = "layers",
                    .values = {0, 1},
                    .labels = {"layer 0", "layer 1"}},
                   {.kind = "positions",
                    .values = {0, 1, 2},
                    .labels = {"When", "·Mary", "·to"}}},
          .metrics = {{.label = "logit-diff",
                       .text = "logit-diff: Mary, John",
                       .values = Values({2, 3}, {-2, 2, -2, -2.4, 0, 2.4}),
                       .unedited = -2,
                       .reference = 2}}};
}

TEST(RenderSweep, DrawsTheWayFromOneRunToTheOtherLastLayerOnTop) {
  EXPECT_EQ(
      RenderSweep(Patched(), SweepScale::kNormalised, {.width = 40}),
      "logit-diff: Mary, John   run corrupt: -2 = 0%, run clean: 2 = 100%\n"
      "            When    ·Mary      ·to\n"
      "layer 1     -10       50▄     110█\n"
      "layer 0              100█\n");
}

TEST(RenderSweep, DrawsTheMetricItself) {
  EXPECT_EQ(RenderSweep(Patched(), SweepScale::kRaw, {.width = 40}),
            "logit-diff: Mary, John   run corrupt: -2, run clean: 2\n"
            "            When    ·Mary      ·to\n"
            "layer 1    -2.4      0.0▄     2.4█\n"
            "layer 0    -2.0▁     2.0▇    -2.0▁\n");
}

TEST(RenderSweep, DrawsTheMetricItselfWhereTheRunsDoNotDiffer) {
  SweepAnswer answer = Patched();
  answer.metrics[0].reference = -2;
  EXPECT_THAT(RenderSweep(answer, SweepScale::kNormalised, {.width = 40}),
              HasSubstr("run corrupt: -2, run clean: -2\n"));
}

TEST(RenderSweep, ShadesCellsThatHaveNoRoomForNumbers) {
  EXPECT_EQ(
      RenderSweep(Patched(), SweepScale::kNormalised, {.width = 20}),
      "logit-diff: Mary, John   run corrupt: -2 = 0%, run clean: 2 = 100%\n"
      "        0\n"
      "layer 1   ▒▒██\n"
      "layer 0   ██\n"
      "        0  ░░▒▒▓▓██ 1\n");
}

TEST(RenderSweep, DrawsOneGridForEachCellOfFurtherAxes) {
  SweepAnswer answer = Patched();
  answer.axes.insert(
      answer.axes.begin(),
      {.kind = "scales", .values = {0.5, 2}, .labels = {"×0.5", "×2"}});
  answer.metrics[0].values =
      Values({2, 2, 3}, {-2, -2, -2, -2, -2, -2, 2, -2, -2, -2, -2, -2});
  EXPECT_EQ(
      RenderSweep(answer, SweepScale::kNormalised, {.width = 40}),
      "logit-diff: Mary, John   run corrupt: -2 = 0%, run clean: 2 = 100%\n"
      "×0.5\n"
      "            When    ·Mary      ·to\n"
      "layer 1\nlayer 0\n"
      "×2\n"
      "            When    ·Mary      ·to\n"
      "layer 1\n"
      "layer 0     100█\n");
}

TEST(RenderSweep, TellsCloseValuesApart) {
  SweepAnswer answer = Patched();
  answer.metrics[0].values =
      Values({2, 3}, {0.9993, 0.9993, 0.9991, 0.9993, 0.9993, 0.9972});
  EXPECT_EQ(RenderSweep(answer, SweepScale::kRaw, {.width = 40}),
            "logit-diff: Mary, John   run corrupt: -2, run clean: 2\n"
            "            When    ·Mary      ·to\n"
            "layer 1  0.9993█  0.9993█  0.9972\n"
            "layer 0  0.9993█  0.9993█  0.9991▇\n");
}

TEST(RenderSweep, StacksLayersAlone) {
  SweepAnswer answer = Patched();
  answer.axes.pop_back();
  answer.metrics[0].values = Values({2}, {2, -2});
  EXPECT_EQ(
      RenderSweep(answer, SweepScale::kNormalised, {.width = 40}),
      "logit-diff: Mary, John   run corrupt: -2 = 0%, run clean: 2 = 100%\n"
      "        logit-d…\n"
      "layer 1\n"
      "layer 0     100█\n");
}

TEST(RenderSweepValues, WritesTheNumbers) {
  EXPECT_EQ(RenderSweepValues(Patched(), Terminal()),
            "logit-diff  When  ·Mary  ·to\n"
            "layer 1     -2.4      0  2.4\n"
            "layer 0       -2      2   -2\n");
}

SweepQuestion Question() {
  return {.request = Parsed<v1::TraceRequest>(R"pb(
            sweeps {
              label: "sweep"
              run: "corrupt"
              interventions {
                hook_points: "layers.*.x"
                set { value { run { run: "clean" } } }
              }
              axes { layers {} }
              metrics {
                label: "logit"
                logit { token_id: 3 }
              }
              metrics {
                label: "kl"
                kl { from_run: "clean" }
              }
            }
          )pb"),
          .metric_texts = {"logit: Mary", "kl:clean"},
          .reference_run = "clean"};
}

TEST(AddBaselines, AsksForTheMetricInBothRuns) {
  SweepQuestion question = Question();
  AddBaselines(&question);
  EXPECT_THAT(question.request.program(), EqualsProto(R"pb(
                nodes {
                  name: "logit of corrupt"
                  metric {
                    label: "logit"
                    run: "corrupt"
                    logit { token_id: 3 }
                  }
                }
                nodes {
                  name: "logit of clean"
                  metric {
                    label: "logit"
                    run: "clean"
                    logit { token_id: 3 }
                  }
                }
                nodes {
                  name: "kl of corrupt"
                  metric {
                    label: "kl"
                    run: "corrupt"
                    kl { from_run: "clean" }
                  }
                }
              )pb"));
  EXPECT_EQ(question.request.captures_size(), 3);
  EXPECT_EQ(question.request.captures(2).node(), "kl of corrupt");
}

TEST(ReferenceRunOf, IsTheOneRunThatIsRead) {
  v1::Sweep sweep = Question().request.sweeps(0);
  EXPECT_EQ(ReferenceRunOf(sweep), "clean");
  sweep.mutable_interventions(0)->mutable_set()->mutable_value()->set_number(0);
  EXPECT_EQ(ReferenceRunOf(sweep), "");
  for (const char* run : {"a", "b"}) {
    sweep.add_interventions()
        ->mutable_add()
        ->mutable_value()
        ->mutable_run()
        ->set_run(run);
  }
  EXPECT_EQ(ReferenceRunOf(sweep), "");
}

client::TracedTensor Tensor(const std::string& label, const std::string& part,
                            HostTensor value) {
  client::TracedTensor tensor = {.value = std::move(value)};
  tensor.descriptor.set_label(label);
  tensor.descriptor.set_part(part);
  return tensor;
}

TEST(AnswerOf, PutsGridsAndBaselinesTogether) {
  client::Trace trace;
  trace.runs = {{.label = "clean", .ids = {1}},
                {.label = "corrupt", .ids = {2}}};
  trace.tensors = {Tensor("logit of corrupt", "", Values({}, {-2})),
                   Tensor("kl of corrupt", "", Values({}, {3})),
                   Tensor("sweep", "logit", Values({2}, {-2, 2})),
                   Tensor("sweep", "kl", Values({2}, {3, 0}))};
  const absl::StatusOr<SweepAnswer> answer = AnswerOf(Question(), trace);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->metrics[0].unedited, -2);
  EXPECT_EQ(answer->metrics[0].reference, std::nullopt);
  // A run does not diverge from itself.
  EXPECT_EQ(answer->metrics[1].reference, 0);
  EXPECT_EQ(ToJson(*answer)["metrics"][1].dump(),
            R"({"label":"kl","text":"kl:clean","unedited":{"run":"corrupt",)"
            R"("value":3.0},"reference":{"run":"clean","value":0.0},)"
            R"("values":[3.0,0.0]})");
  EXPECT_EQ(ToJson(*answer)["axes"].dump(),
            R"([{"kind":"layers","values":[0.0,1.0],)"
            R"("labels":["layer 0","layer 1"]}])");
}

TEST(AnswerOf, FailsWhereAGridDidNotCome) {
  client::Trace trace;
  trace.runs = {{.label = "corrupt", .ids = {2}}};
  EXPECT_THAT(AnswerOf(Question(), trace),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("`sweep`")));
}

}  // namespace
}  // namespace phitap::cli
