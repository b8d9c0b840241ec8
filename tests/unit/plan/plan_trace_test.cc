#include "server/plan/plan_trace.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What a tensor of a plan is, in one line.
std::string Line(const TracePlan& plan, const PlannedTensor& tensor) {
  std::string line =
      absl::StrCat(plan.runs[tensor.run].label, " ", FullName(tensor.point));
  if (!tensor.part.empty()) absl::StrAppend(&line, ".", tensor.part);
  absl::StrAppend(&line, " ", Name(tensor.dtype), " [");
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    absl::StrAppend(&line, i ? " " : "", tensor.dimension_names[i], "=",
                    tensor.shape[i]);
  }
  return line + "]";
}

std::vector<std::string> Lines(const std::string& request) {
  const auto plan = Plan(request);
  EXPECT_THAT(plan, IsOk());
  std::vector<std::string> lines;
  if (!plan.ok()) return lines;
  for (const PlannedTensor& tensor : (*plan)->tensors) {
    lines.push_back(Line(**plan, tensor));
  }
  return lines;
}

std::vector<std::string> Capture(const std::string& hook_points,
                                 const std::string& more) {
  return Lines(absl::StrCat(kFiveTokens, "captures { hook_points: '",
                            hook_points, "' ", more, " }"));
}

TEST(PlanTrace, GivesEveryHookPointItsShapeAndElementType) {
  for (const HookEntry& entry : HookCatalogue()) {
    const std::string name =
        FullName({entry.hook, HasLayer(entry.hook) ? 1 : -1});
    const auto plan = Plan(
        absl::StrCat(kFiveTokens, "captures { hook_points: '", name, "' }"));
    ASSERT_THAT(plan, IsOk()) << name;
    ASSERT_THAT((*plan)->tensors, SizeIs(1));
    const PlannedTensor& tensor = (*plan)->tensors[0];
    ASSERT_EQ(tensor.shape.size(), entry.dimensions.size());
    int64_t elements = 1;
    for (size_t i = 0; i < entry.dimensions.size(); ++i) {
      EXPECT_EQ(tensor.shape[i], SizeOf(entry.dimensions[i], TinySpec(), 5));
      EXPECT_EQ(tensor.dimension_names[i], Name(entry.dimensions[i]));
      elements *= tensor.shape[i];
    }
    const bool integer =
        name == "input_ids" || name == "attention_mask" || name == "input_size";
    const DType expected = integer                      ? DType::kI64
                           : name == "next_token_probs" ? DType::kF32
                                                        : DType::kBF16;
    EXPECT_EQ(tensor.dtype, expected) << name;
    EXPECT_EQ(tensor.size_bytes, elements * SizeInBytes(expected)) << name;
    EXPECT_EQ((*plan)->size_bytes, tensor.size_bytes);
    EXPECT_EQ(tensor.label, name);
    EXPECT_EQ(tensor.part, "");
  }
}

TEST(PlanTrace, ShapesWhatIsSelected) {
  EXPECT_THAT(Capture("layers.0.attention_keys",
                      "selection { positions { ranges { start: 2 } } "
                      "heads { indices: 1 } features { indices: [0, 3] } }"),
              ElementsAre("0 layers.0.self_attn.attention_keys bfloat16 "
                          "[num_kv_heads=1 seq=3 head_dim=2]"));
  EXPECT_THAT(Capture("layers.0.attention_scores",
                      "selection { queries { indices: -1 } }"),
              ElementsAre("0 layers.0.self_attn.attention_scores bfloat16 "
                          "[num_heads=6 query=1 key=5]"));
}

TEST(PlanTrace, ShapesWhatIsReduced) {
  EXPECT_THAT(
      Capture("layers.0.layer_mid", "reduction { mean_over_positions {} }"),
      ElementsAre("0 layers.0.layer_mid bfloat16 [hidden_size=24]"));
  EXPECT_THAT(Capture("layers.0.attention_queries",
                      "reduction { mean_over_positions {} }"),
              ElementsAre("0 layers.0.self_attn.attention_queries bfloat16 "
                          "[num_heads=6 head_dim=8]"));
  EXPECT_THAT(Capture("layers.0.attention_premix", "reduction { norm {} }"),
              ElementsAre("0 layers.0.self_attn.attention_premix float32 "
                          "[seq=5 num_heads=6]"));
  EXPECT_THAT(Capture("next_token_probs", "reduction { norm {} }"),
              ElementsAre("0 next_token_probs float32 []"));
  EXPECT_THAT(Capture("layers.0.attention_probabilities",
                      "reduction { top_k { k: 5 } } dtype: DATA_TYPE_F16"),
              ElementsAre("0 layers.0.self_attn.attention_probabilities.values "
                          "float16 [num_heads=6 query=5 top_k=5]",
                          "0 layers.0.self_attn.attention_probabilities."
                          "indices int32 [num_heads=6 query=5 top_k=5]"));
}

TEST(PlanTrace, ShapesTheLogitLens) {
  EXPECT_THAT(Capture("layers.0.layer_mid",
                      "selection { positions { indices: [4, 0] } } "
                      "reduction { logit_lens { k: 3 token_ids: [7, 7] } }"),
              ElementsAre("0 layers.0.layer_mid.probabilities float32 "
                          "[seq=2 top_k=3]",
                          "0 layers.0.layer_mid.indices int32 [seq=2 top_k=3]",
                          "0 layers.0.layer_mid.token_probabilities float32 "
                          "[seq=2 token_ids=2]",
                          "0 layers.0.layer_mid.token_ranks int32 "
                          "[seq=2 token_ids=2]"));
  const auto plan = Plan(
      absl::StrCat(kFiveTokens,
                   "captures { hook_points: 'final_norm_output' reduction { "
                   "logit_lens { k: 3 apply_final_norm: false } } }"));
  ASSERT_THAT(plan, IsOk());
  ASSERT_THAT((*plan)->tensors, SizeIs(2));
  const auto& lens =
      std::get<LogitLensReduction>((*plan)->captures[0].reduction);
  EXPECT_FALSE(lens.apply_final_norm);
  EXPECT_EQ(lens.k, 3);
}

TEST(PlanTrace, SendsInTheElementTypeAskedFor) {
  EXPECT_THAT(Capture("logits", "dtype: DATA_TYPE_F32"),
              ElementsAre("0 logits float32 [seq=5 vocab_size=50]"));
  EXPECT_THAT(Capture("next_token_probs", "dtype: DATA_TYPE_F16"),
              ElementsAre("0 next_token_probs float16 [vocab_size=50]"));
}

TEST(PlanTrace, OrdersTensorsByCaptureThenRunThenLayer) {
  EXPECT_THAT(
      Lines("runs { label: 'b' prompt { text: 'ab' } }"
            "runs { label: 'a' prompt { text: 'a' } }"
            "captures { hook_points: 'final_norm_output' runs: ['a', 'b'] }"
            "captures { label: 'ids' hook_points: 'input_ids' runs: 'a' }"
            "captures { hook_points: 'layers.2-3.layer_mid' }"),
      ElementsAre("a final_norm_output bfloat16 [seq=1 hidden_size=24]",
                  "b final_norm_output bfloat16 [seq=2 hidden_size=24]",
                  "a input_ids int64 [seq=1]",
                  "b layers.2.layer_mid bfloat16 [seq=2 hidden_size=24]",
                  "b layers.3.layer_mid bfloat16 [seq=2 hidden_size=24]",
                  "a layers.2.layer_mid bfloat16 [seq=1 hidden_size=24]",
                  "a layers.3.layer_mid bfloat16 [seq=1 hidden_size=24]"));
}

TEST(PlanTrace, PointsCapturesAtTheirTensors) {
  const auto plan = Plan(absl::StrCat(
      kFiveTokens,
      "captures { label: 'x' hook_points: 'layers.*.layer_input' "
      "reduction { top_k { k: 1 } } } captures { hook_points: 'logits' }"));
  ASSERT_THAT(plan, IsOk());
  const TracePlan& planned = **plan;
  ASSERT_THAT(planned.captures, SizeIs(5));
  ASSERT_THAT(planned.tensors, SizeIs(9));
  EXPECT_EQ(planned.captures[3].first_tensor, 6);
  EXPECT_EQ(planned.captures[4].first_tensor, 8);
  EXPECT_EQ(planned.tensors[6].label, "x");
  EXPECT_EQ(planned.captures[3].read_at, (HookPoint{Hook::kLayerOutput, 2}));
  EXPECT_EQ(planned.captures[0].read_at, HookPoint{Hook::kTokenEmbeddings});
}

TEST(PlanTrace, ReadsPromptsOfEveryKind) {
  const auto plan = Plan(
      "runs { prompt { text: 'bcd' } }"
      "runs { prompt { chat { messages { role: 'user' content: 'ef' } } } }"
      "runs { prompt { tokens { ids: [9, 9] } position_ids: [4, 5] "
      "hidden_positions { indices: [-1, 0] } } }"
      "runs { prompt { same_as: '4' } } runs { prompt { same_as: '2' } }"
      "captures { hook_points: 'input_ids' }");
  ASSERT_THAT(plan, IsOk());
  const std::vector<PlannedRun>& runs = (*plan)->runs;
  ASSERT_THAT(runs, SizeIs(5));
  EXPECT_THAT(runs[0].ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(runs[0].position_ids, ElementsAre(0, 1, 2));
  EXPECT_FALSE(runs[0].has_position_ids);
  EXPECT_THAT(runs[1].ids, ElementsAre(4, 5));
  EXPECT_THAT(runs[2].position_ids, ElementsAre(4, 5));
  EXPECT_TRUE(runs[2].has_position_ids);
  EXPECT_THAT(runs[2].hidden_positions, ElementsAre(0, 1));
  // The same tokens, and nothing else of the other run.
  EXPECT_EQ(runs[3].label, "3");
  EXPECT_THAT(runs[3].ids, ElementsAre(9, 9));
  EXPECT_THAT(runs[3].hidden_positions, IsEmpty());
  EXPECT_THAT(runs[3].position_ids, ElementsAre(0, 1));
  EXPECT_THAT(runs[4].ids, ElementsAre(9, 9));
}

TEST(PlanTrace, EncodesAPromptOnceForAllRunsThatShareIt) {
  PlanContext context = TinyContext();
  int encoded = 0;
  context.encode = [&](const v1::Prompt& prompt) {
    ++encoded;
    return EncodeLetters(prompt);
  };
  EXPECT_THAT(Plan("runs { prompt { same_as: '1' } }"
                   "runs { prompt { text: 'abc' } }"
                   "runs { prompt { same_as: '0' } }"
                   "captures { hook_points: 'input_ids' }",
                   context),
              IsOk());
  EXPECT_EQ(encoded, 1);
}

TEST(PlanTrace, TakesTheOptions) {
  const std::string request = absl::StrCat(kFiveTokens, kLogits);
  const auto plain = Plan(request);
  ASSERT_THAT(plain, IsOk());
  EXPECT_EQ((*plain)->model, "tiny");
  EXPECT_EQ((*plain)->numerics, Numerics::kCausal);
  EXPECT_EQ((*plain)->attention, Attention::kSdpa);
  EXPECT_FALSE((*plain)->isolate);
  EXPECT_FALSE((*plain)->report_progress);
  const auto chosen = Plan(request +
                           "options { numerics: NUMERICS_TRANSFORMERS "
                           "attention: ATTENTION_EAGER isolate: true "
                           "report_progress: true }");
  ASSERT_THAT(chosen, IsOk());
  EXPECT_EQ((*chosen)->numerics, Numerics::kTransformers);
  EXPECT_EQ((*chosen)->attention, Attention::kEager);
  EXPECT_TRUE((*chosen)->isolate);
  EXPECT_TRUE((*chosen)->report_progress);
  // Exact calls: every position through the head.
  EXPECT_THAT((*chosen)->runs[0].reach.head_positions, SizeIs(5));
}

TEST(PlanTrace, TakesPrioritiesFromZeroToTen) {
  const auto with = [](int priority) {
    return Plan(absl::StrCat(kFiveTokens, kLogits,
                             "options { priority: ", priority, " }"));
  };
  const auto plan = with(10);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->priority, 10);
  for (const int priority : {-1, 11}) {
    EXPECT_THAT(with(priority),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::StartsWith("options.priority: is ")));
  }
}

}  // namespace
}  // namespace phitap
