#include "server/plan/memory/working_bytes.h"

#include <gmock/gmock.h>

#include "server/plan/memory/forward_bytes.h"
#include "server/plan/memory/node_bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kRun[] = "runs { label: 'a' prompt { text: 'abcde' } } ";

std::shared_ptr<const TracePlan> PlanOf(
    const std::string& text, const PlanContext& context = TinyContext()) {
  const auto plan = Plan(text, context);
  EXPECT_THAT(plan, IsOk()) << text;
  return plan.ok() ? *plan : std::make_shared<TracePlan>();
}

// Of a wave with all groups.
int64_t WaveBytes(const TracePlan& plan) {
  int64_t size_bytes = plan.workspace_bytes;
  for (const RunGroup& group : plan.groups) size_bytes += group.workspace_bytes;
  return size_bytes;
}

TEST(CountWorkingBytes, CountsTheKeysAndValuesOfARunThatGenerates) {
  const std::string generating =
      "runs { prompt { text: 'abc' } generation { max_tokens: 30 } }";
  // 33 positions may grow by a quarter, to 41: two tiles of 32; 2 · 4 layers ·
  // 2 heads · 8 · 64 positions · 2 bytes.
  ModelSpec spec = TinySpec();
  spec.sliding_window.reset();
  PlanContext context = {
      .model = "tiny", .spec = spec, .encode = EncodeLetters};
  EXPECT_EQ(PlanOf(generating, context)->working_bytes, 16384);

  context.limits.max_working_bytes = 16383;
  EXPECT_THAT(Plan(generating, context),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("runs: the server would hold"),
                             HasSubstr("at most 16383"))));
}

TEST(CountWorkingBytes, NamesTheLargestPartWhereItRefuses) {
  const ModelSpec spec = Phi3Mini4k();
  PlanContext large = {.model = "phi", .spec = spec};
  large.limits.max_working_bytes = 64 << 20;
  large.limits.max_wave_bytes = 64 << 20;
  const auto refusal = [&](const std::string& request) {
    return std::string(Plan(request, large).status().message());
  };
  EXPECT_THAT(refusal("runs { prompt { tokens { ids: [1,2,3] } } generation { "
                      "max_tokens: 1000 } }"),
              HasSubstr("of them keys and values of runs that generate"));
  std::string ids = "1";
  for (int i = 0; i < 2000; ++i) ids += ",1";
  EXPECT_THAT(refusal(absl::StrCat("runs { prompt { tokens { ids: [", ids,
                                   "] } } } captures { hook_points: "
                                   "'layers.0.layer_output' }")),
              HasSubstr("of them what a group's tokens need on their way"));
}

TEST(CountWorkingBytes, CountsAPassByItsTokensAndPatterns) {
  const auto bytes = [](const std::string& ids, const std::string& point) {
    return PlanOf(absl::StrCat(
                      "runs { label: 'a' prompt { tokens { ids: [", ids,
                      "] } } } gradients { of { run: 'a' logit { token_id: 7 } "
                      "} hook_points: '",
                      point, "' selection { heads { indices: 0 } } }"))
        ->groups.back()
        .workspace_bytes;
  };
  EXPECT_GT(bytes("1,2,3,4", "layers.0.attention_queries"),
            bytes("1,2", "layers.0.attention_queries"));
  EXPECT_GT(bytes("1,2,3,4", "layers.0.attention_scores"),
            bytes("1,2,3,4", "layers.0.attention_queries"));
}

TEST(CountWorkingBytes, GrowsWithWhatIsAskedFor) {
  const auto bytes = [](const std::string& more) {
    return WaveBytes(*PlanOf(kRun + more));
  };
  const int64_t shallow =
      bytes("captures { hook_points: 'layers.0.layer_output' }");
  EXPECT_GT(bytes("captures { hook_points: 'logits' }"), shallow);
  EXPECT_GT(bytes("captures { hook_points: 'layers.0.attention_scores' }"),
            shallow);
  EXPECT_GT(bytes("captures { hook_points: 'layers.0.layer_output' reduction { "
                  "logit_lens { k: 1 } } }"),
            shallow);
  EXPECT_GT(WaveBytes(*PlanOf(
                "runs { prompt { text: 'abcde' hidden_positions { indices: 1 "
                "} } } captures { hook_points: 'layers.0.layer_output' }")),
            shallow);
}

// Cells pay for what is their own, and once for what they have in common.
TEST(CountWorkingBytes, CountsWhatCellsShareOnce) {
  std::string text = kRun;
  for (int i = 0; i < 20; ++i) {
    absl::StrAppend(&text, "runs { label: 'c", i,
                    "' prompt { same_as: 'a' } interventions { hook_points: "
                    "'layers.1.layer_output' selection { positions { indices: "
                    "-1 } } add { value { number: ",
                    i + 1, " } } } } ");
  }
  text += "captures { hook_points: 'layers.3.layer_output' }";
  const auto shared = PlanOf(text);
  const auto alone = PlanOf(text + " options { isolate: true }");
  ASSERT_EQ(shared->groups.size(), alone->groups.size());
  EXPECT_EQ(shared->groups[0].workspace_bytes,
            alone->groups[0].workspace_bytes);
  EXPECT_EQ(shared->groups[1].workspace_bytes * 5,
            alone->groups[1].workspace_bytes);
}

TEST(CountWorkingBytes, CountsTheStorageThatViewsMayKeep) {
  const auto storage = [](const std::string& capture) {
    const auto plan =
        PlanOf(absl::StrCat(kRun, "captures { hook_points: '", capture, " }"));
    return plan->storage_bytes - plan->size_bytes;
  };
  EXPECT_EQ(storage("layers.0.layer_output'"), 5 * 24 * 2);
  EXPECT_EQ(storage("layers.0.layer_output' dtype: DATA_TYPE_F32"), 0);
  EXPECT_EQ(storage("layers.0.layer_output' reduction { norm {} }"), 0);
  EXPECT_EQ(storage("layers.0.attention_scores'"), 0);
}

NodeBytes NodesOf(const std::string& text) {
  return CountNodeBytes(*PlanOf(text), DType::kBF16);
}

constexpr char kMetric[] =
    "program { nodes { name: 'm' metric { run: 'a' logit { token_id: 3 } } } } "
    "captures { node: 'm' }";

TEST(CountNodeBytes, TellsWhatOneWaveUsesFromWhatLaterOnesDo) {
  const NodeBytes metric = NodesOf(std::string(kRun) + kMetric);
  EXPECT_EQ(metric.held, 0);
  ASSERT_EQ(metric.of_group.size(), 1u);
  EXPECT_GT(metric.of_group[0], 0);

  // Read deeper than it is written: of another wave.
  const std::string patch =
      "runs { label: 'b' prompt { text: 'vwxyz' } interventions { hook_points: "
      "'layers.0.layer_output' set { value { run { run: 'a' hook_point: "
      "'layers.2.layer_output' } } } } } ";
  const NodeBytes later = NodesOf(absl::StrCat(kRun, patch, kLogits));
  EXPECT_EQ(later.held, 5 * 24 * 2 * 2);
  EXPECT_THAT(later.of_group, ElementsAre(0, 0));
}

TEST(CountNodeBytes, HoldsWhatARunThatGeneratesIsEditedWith) {
  const std::string clean = "runs { label: 'b' prompt { text: 'abcde' } } ";
  const auto with = [&](const std::string& generation) {
    return NodesOf(absl::StrCat(
        clean, "runs { label: 'a' prompt { text: 'abcde' } ", generation,
        " interventions { hook_points: 'layers.2.layer_output' selection { "
        "positions { indices: 1 } steps { indices: 0 } } set { value { run { "
        "run: 'b' } } } } } ",
        kLogits));
  };
  EXPECT_EQ(with("").held, 0);
  EXPECT_EQ(with("generation { max_tokens: 2 }").held, 24 * 2 * 2);
}

TEST(CountNodeBytes, CountsAConstantOnce) {
  EXPECT_EQ(
      NodesOf(absl::StrCat("runs { prompt { text: 'abcde' } interventions { "
                           "hook_points: 'layers.*.layer_output' add { value { "
                           "number: 2 } } } }",
                           kLogits))
          .constants,
      4);
}

TEST(ForwardBytes, KeepsNoMoreKeysThanTheWindowAndATile) {
  ModelSpec open = TinySpec();
  open.sliding_window.reset();
  const ForwardBytes narrow(TinySpec(), DType::kBF16, Numerics::kCausal);
  const ForwardBytes wide(open, DType::kBF16, Numerics::kCausal);
  EXPECT_EQ(narrow.KeysAndValues(10), wide.KeysAndValues(10));
  EXPECT_EQ(narrow.KeysAndValues(1 << 20), narrow.KeysAndValues(1000));
  EXPECT_GT(wide.KeysAndValues(1 << 20), narrow.KeysAndValues(1 << 20));
}

}  // namespace
}  // namespace phitap
