#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>

#include <random>

#include "tests/unit/plan/edits.h"

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

// One that experiments: edits, a program, gradients, generation, a sweep.
constexpr char kExperiment[] = R"(
  runs { label: "a" prompt { text: "abcdef" } }
  runs {
    label: "b"
    prompt { text: "ghijkl" }
    interventions {
      hook_points: "layers.1.layer_output"
      selection { positions { indices: [3, 5] } }
      when: "large"
      set { value { run { run: "a" } } }
    }
    interventions {
      hook_points: "layers.{0,2}.layer_mid"
      add { value { constant: "v" } scale: 2.5 }
    }
    interventions {
      hook_points: "layers.1.attention_scores"
      selection { queries { indices: -1 } keys { indices: [0, 1] } }
      knockout {}
    }
    interventions {
      hook_points: "layers.3.mlp_output"
      dictionary {
        dictionary { name: "sae" subtract_decoder_bias: true }
        edits { feature: 3 scale: 2 }
        edits { feature: 8 from_run: "a" }
        encode_hook: "mlp_input"
      }
    }
    interventions {
      hook_points: "layers.2.layer_input"
      selection { token_ids: [7, 8] }
      subspace { basis { tensor_name: "basis" } source { number: 1 } }
    }
    interventions {
      hook_points: "layers.0.mlp_output"
      set { value { mean_of_runs { runs: "a" over_positions: true } } }
    }
    interventions {
      hook_points: "layers.0.layer_output"
      swap { from { constant: "v" } to { constant: "w" } both: true }
    }
  }
  runs {
    label: "g"
    prompt { text: "mno" }
    generation { max_tokens: 4 temperature: 0.5 top_k: 3 seed: 4 stop_ids: 7 }
    interventions {
      hook_points: "layers.1.layer_mid"
      selection { steps { indices: [1, 2] } }
      noise { scale: 0.5 seed: 3 }
    }
    interventions { hook_points: "layers.2.layer_output" skip {} }
  }
  captures { hook_points: "layers.2.layer_mid" runs: "g" }
  captures { node: "large" }
  captures { label: "kept" hook_points: "logits" runs: "a" tensor_name: "k" }
  constants { key: "v" value { dtype: DATA_TYPE_F16 shape: 24
    data: "abababababababababababababababababababababababab" } }
  constants { key: "w" value { dtype: DATA_TYPE_F16 shape: 24
    data: "cacacacacacacacacacacacacacacacacacacacacacacaca" } }
  program {
    nodes { name: "r" read { run: "a" hook_point: "layers.0.layer_mid" } }
    nodes { name: "n" inputs: "r" reduce { kind: REDUCE_KIND_NORM } }
    nodes { name: "one" number: 1 }
    nodes { name: "large" inputs: ["one", "n"] function: FUNCTION_LESS }
  }
  gradients {
    of { run: "a" logit { token_id: 4 } }
    hook_points: "layers.*.layer_output"
  }
  sweeps {
    run: "b"
    interventions {
      hook_points: "layers.{1,2}.layer_output"
      add { value { constant: "v" } }
    }
    axes { layers { window: 2 } }
    axes { positions { positions { indices: [0, -1] } } }
    axes { scales { scales: [0.5, 2] } }
    metrics { label: "d" logit_difference { token_id: 1 baseline_token_id: 2 } }
  }
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

// Every node, write, output and group names what is there.
void ExpectConsistent(const TracePlan& plan) {
  const int node_count = static_cast<int>(plan.nodes.size());
  for (int i = 0; i < node_count; ++i) {
    for (int input : plan.nodes[i].inputs) EXPECT_LT(input, i);
    EXPECT_FALSE(plan.nodes[i].field.empty());
  }
  for (const PlannedWrite& write : plan.writes) {
    EXPECT_LT(write.run, static_cast<int>(plan.runs.size()));
    EXPECT_LT(write.value, node_count);
    EXPECT_LT(write.condition, node_count);
    EXPECT_TRUE(write.steps.prompt || write.steps.has_generated());
    EXPECT_EQ(EntryOf(write.point.hook).access, Access::kReadWrite);
  }
  for (const PlannedOutput& output : plan.outputs) {
    EXPECT_LT(output.node, node_count);
    EXPECT_LT(output.tensor, static_cast<int>(plan.tensors.size()));
  }
  size_t grouped = 0;
  for (const RunGroup& group : plan.groups) grouped += group.runs.size();
  EXPECT_EQ(grouped, plan.runs.size() + plan.gradient_passes.size());
}

struct Mutations {
  const char* request;
  PlanContext context;
  int repeats = 0;
};

void AnswersOrRefuses(const Mutations& mutations) {
  const std::string whole = RequestOf(mutations.request).SerializeAsString();
  const auto unchanged =
      PlanTrace(RequestOf(mutations.request), mutations.context);
  ASSERT_TRUE(unchanged.ok()) << unchanged.status();
  ExpectSound(**unchanged);
  ExpectConsistent(**unchanged);
  const google::protobuf::LogSilencer silencer;  // it tells of bad UTF-8
  std::mt19937 random(5);
  int planned = 0;
  int refused = 0;
  for (int repeat = 0; repeat < mutations.repeats; ++repeat) {
    std::string bytes = whole;
    for (unsigned count = 1 + random() % 3; count > 0; --count) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    v1::TraceRequest request;
    if (!request.ParseFromString(bytes)) continue;
    const auto plan = PlanTrace(request, mutations.context);
    if (plan.ok()) {
      ++planned;
      ExpectSound(**plan);
      ExpectConsistent(**plan);
    } else {
      ++refused;
      EXPECT_NE(FieldOf(plan.status()), "") << plan.status();
      EXPECT_LT(plan.status().message().size(), 1000u) << plan.status();
    }
  }
  EXPECT_GT(planned, 100);
  EXPECT_GT(refused, 1000);
}

TEST(PlanTrace, AnswersOrRefusesEveryMutationOfARequest) {
  AnswersOrRefuses(
      {.request = kRequest, .context = TinyContext(), .repeats = 20000});
}

TEST(PlanTrace, AnswersOrRefusesEveryMutationOfAnExperiment) {
  AnswersOrRefuses(
      {.request = kExperiment, .context = KeepingContext(), .repeats = 20000});
}

}  // namespace
}  // namespace phitap
