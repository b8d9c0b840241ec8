#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>

#include <random>

#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

// A request that uses every field once.
constexpr char kRequest[] = R"(
  model: "tiny"
  runs {
    label: "a"
    prompt {
      tokens { ids: [1, 2, 3, 4, 5, 6] }
      hidden_positions { indices: [-1] ranges { start: 1 stop: 3 step: 2 } }
      position_ids: [0, 1, 2, 3, 9, 10]
    }
  }
  runs { label: "b" prompt { text: "abcdef" } }
  runs { prompt { chat { messages { role: "user" content: "abcd" } } } }
  runs { prompt { same_as: "a" } }
  captures {
    label: "lens"
    hook_points: "layers.{0,2-3}.layer_output"
    runs: ["a", "b"]
    selection { positions { indices: [0, -1] } }
    reduction { logit_lens { k: 3 token_ids: [7] apply_final_norm: true } }
  }
  captures {
    hook_points: "blocks.*.attn.hook_pattern"
    selection {
      heads { indices: [5] } queries { ranges { start: -2 } }
      keys { indices: [0] }
    }
    dtype: DATA_TYPE_F16
  }
  captures {
    hook_points: "layers.-1.mlp_neurons"
    runs: ["a"]
    selection { token_ids: [3] features { ranges { stop: 7 } } }
    reduction { mean_over_positions {} }
  }
  captures { hook_points: "logits" reduction { top_k { k: 4 } } }
  options { numerics: NUMERICS_CAUSAL attention: ATTENTION_EAGER isolate: true }
)";

// What holds for every plan, whatever was asked.
void ExpectSound(const TracePlan& plan) {
  int64_t size_bytes = 0;
  for (const PlannedTensor& tensor : plan.tensors) {
    int64_t elements = 1;
    for (int64_t size : tensor.shape) {
      EXPECT_GT(size, 0);
      elements *= size;
    }
    EXPECT_EQ(tensor.shape.size(), tensor.dimension_names.size());
    EXPECT_EQ(tensor.size_bytes, elements * SizeInBytes(tensor.dtype));
    size_bytes += tensor.size_bytes;
  }
  EXPECT_EQ(plan.size_bytes, size_bytes);
  EXPECT_LE(plan.token_layers, plan.token_layers_full_depth);
  for (const PlannedRun& run : plan.runs) {
    EXPECT_FALSE(run.ids.empty());
    EXPECT_EQ(run.position_ids.size(), run.ids.size());
    EXPECT_LE(run.reach.head_positions.size(), run.reach.norm_positions.size());
    EXPECT_LE(run.reach.norm_positions.size(), run.reach.tail_positions.size());
    EXPECT_LE(run.reach.tail_positions.size(), run.ids.size());
  }
}

TEST(PlanTrace, AnswersOrRefusesEveryMutationOfARequest) {
  const std::string whole = RequestOf(kRequest).SerializeAsString();
  const auto unchanged = PlanTrace(RequestOf(kRequest), TinyContext());
  ASSERT_TRUE(unchanged.ok()) << unchanged.status();
  ExpectSound(**unchanged);
  const google::protobuf::LogSilencer silencer;  // it tells of bad UTF-8
  std::mt19937 random(5);
  int planned = 0;
  int refused = 0;
  for (int repeat = 0; repeat < 20000; ++repeat) {
    std::string bytes = whole;
    for (unsigned count = 1 + random() % 3; count > 0; --count) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    v1::TraceRequest request;
    if (!request.ParseFromString(bytes)) continue;
    const auto plan = PlanTrace(request, TinyContext());
    if (plan.ok()) {
      ++planned;
      ExpectSound(**plan);
    } else {
      ++refused;
      EXPECT_NE(FieldOf(plan.status()), "") << plan.status();
      EXPECT_LT(plan.status().message().size(), 1000u);
    }
  }
  EXPECT_GT(planned, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace phitap
