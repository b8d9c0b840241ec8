#include "client/cli/trace_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "client/cli/trace_json.h"

namespace phitap::cli {
namespace {

using client::Trace;
using testing::ElementsAre;

template <typename T>
HostTensor TensorOf(DType dtype, std::vector<int64_t> shape,
                    const std::vector<T>& values) {
  return CopyOf(dtype, std::move(shape),
                {reinterpret_cast<const std::byte*>(values.data()),
                 values.size() * sizeof(T)});
}

// A trace of three tokens to which tests add what was captured.
struct SmallTrace {
  Trace trace;
  v1::TraceRequest request;

  SmallTrace() {
    trace.header.set_model("small");
    trace.header.set_numerics(v1::NUMERICS_CAUSAL);
    trace.header.set_attention(v1::ATTENTION_SDPA);
    trace.header.set_batch_invariant(true);
    trace.runs = {
        {.label = "0", .ids = {7, 8, 9}, .texts = {"When", " Mary", "\n"}}};
  }

  v1::Capture& Capture(const std::string& hook_points) {
    v1::Capture& capture = *request.add_captures();
    capture.set_label(hook_points);
    capture.set_hook_points(hook_points);
    return capture;
  }

  void Add(const std::string& hook_point, const std::string& part,
           std::vector<std::string> dimensions, HostTensor value) {
    client::TracedTensor tensor = {.value = std::move(value)};
    v1::TensorDescriptor& descriptor = tensor.descriptor;
    descriptor.set_label(request.captures().rbegin()->label());
    descriptor.set_run("0");
    descriptor.set_hook_point(hook_point);
    descriptor.set_part(part);
    for (const int64_t size : tensor.value.shape) descriptor.add_shape(size);
    for (const std::string& name : dimensions) {
      descriptor.add_dimension_names(name);
    }
    trace.tensors.push_back(std::move(tensor));
  }

  std::string Render(int width = 80) const {
    const TokenNames names(
        {{1, " John"}, {2, " Mary"}, {3, " the"}, {4, "\n"}});
    return RenderGroups(GroupTensors(trace, request), names, {.width = width});
  }
};

TEST(RenderRuns, ShowsTheTokens) {
  EXPECT_EQ(RenderRuns(SmallTrace().trace, v1::TraceRequest(), Terminal()),
            "small  causal, sdpa\n"
            "run 0, 3 tokens: When|·Mary|\\n\n");
}

TEST(RenderRuns, ShowsEditsAndHowItWentOn) {
  SmallTrace small;
  client::TracedRun& run = small.trace.runs.front();
  run.generated = {{.id = 1, .text = " a\n"}, {.id = 2}};
  run.status.set_finish_reason(v1::FINISH_REASON_LENGTH);
  v1::Run& asked = *small.request.add_runs();
  asked.set_label("0");
  v1::Intervention& edit = *asked.add_interventions();
  edit.set_hook_points("layers.0.x");
  edit.mutable_set()->mutable_value()->set_number(0);
  const auto rendered = [&small] {
    return RenderRuns(small.trace, small.request, Terminal());
  };
  EXPECT_EQ(rendered(),
            "small  causal, sdpa\n"
            "run 0, 3 tokens: When|·Mary|\\n\n"
            "  edit layers.0.x zero\n"
            "  goes on ·a\\n|#2…\n");
  run.status.set_finish_reason(v1::FINISH_REASON_STOP);
  EXPECT_THAT(rendered(), testing::EndsWith("  goes on ·a\\n|#2\n"));
}

TEST(RenderGroups, PutsGeneratedTokensAndOtherTensorsIntoTables) {
  SmallTrace small;
  small.Capture("x");
  small.Add("x", "", {"seq"}, TensorOf<float>(DType::kF32, {1}, {3}));
  small.Add("x", "", {"seq"}, TensorOf<float>(DType::kF32, {1}, {4}));
  small.trace.tensors.back().descriptor.set_step(2);
  small.Add("", "", {"layer"}, TensorOf<float>(DType::kF32, {2}, {5, 6}));
  small.trace.tensors.back().descriptor.set_label("grid");
  small.trace.tensors.back().descriptor.set_run("");
  EXPECT_EQ(small.Render(),
            "\nx, run 0\n"
            "tensor  shape  type     norms or values  from, to\n"
            "x       [1]    float32  3\n"
            "\nx, run 0, generated tokens\n"
            "tensor       shape  type     norms or values  from, to\n"
            "x at step 2  [1]    float32  4\n"
            "\ngrid\n"
            "tensor  shape  type     norms or values  from, to\n"
            "grid    [2]    float32  5 6\n");
}

TEST(RenderGroups, ShowsALensOverLayersAndPositions) {
  SmallTrace small;
  small.Capture("layers.*.layer_output")
      .mutable_reduction()
      ->mutable_logit_lens()
      ->set_k(2);
  for (const int layer : {0, 1}) {
    const std::string hook = absl::StrCat("layers.", layer, ".layer_output");
    const float p = layer == 0 ? 0.25F : 1.0F;
    small.Add(hook, "probabilities", {"seq", "top_k"},
              TensorOf<float>(DType::kF32, {3, 2}, {p, 0, p, 0, p, 0}));
    small.Add(
        hook, "indices", {"seq", "top_k"},
        TensorOf<int32_t>(DType::kI32, {3, 2}, {3, 1, 3, 1, 2 - layer, 1}));
  }
  EXPECT_THAT(IdsToName(GroupTensors(small.trace, small.request)),
              ElementsAre(1, 2, 3));
  EXPECT_EQ(small.Render(),
            "\nlayers.*.layer_output, run 0\n"
            "      0    1     2\n"
            "layer When ·Mary \\n\n"
            "    1 ·the█·the █·John█\n"
            "    0 ·the▂·the ▂·Mary▂\n"
            "after \\n:  ·John 100.0%  ·John 0.0%\n");
}

TEST(RenderGroups, ShowsALensOfOnePositionOverRanks) {
  SmallTrace small;
  v1::Capture& capture = small.Capture("layers.0.layer_output");
  capture.mutable_selection()->mutable_positions()->add_indices(-2);
  v1::LogitLens& lens = *capture.mutable_reduction()->mutable_logit_lens();
  lens.set_k(2);
  lens.add_token_ids(1);
  small.Add("layers.0.layer_output", "probabilities", {"seq", "top_k"},
            TensorOf<float>(DType::kF32, {1, 2}, {0.5, 0.25}));
  small.Add("layers.0.layer_output", "indices", {"seq", "top_k"},
            TensorOf<int32_t>(DType::kI32, {1, 2}, {2, 3}));
  small.Add("layers.0.layer_output", "token_probabilities", {"seq", "token"},
            TensorOf<float>(DType::kF32, {1, 1}, {0.125}));
  small.Add("layers.0.layer_output", "token_ranks", {"seq", "token"},
            TensorOf<int32_t>(DType::kI32, {1, 1}, {2}));
  EXPECT_EQ(small.Render(),
            "\nlayers.0.layer_output, run 0\n"
            "layer #1    #2\n"
            "    0 ·Mary▄·the▂\n"
            "after ·Mary:  ·Mary 50.0%  ·the 25.0%\n"
            "\n"
            "hook point                  ·John\n"
            "layers.0.layer_output  12.5% (#3)\n");
}

TEST(RenderGroups, ShowsTheLikeliestTokensOfLogits) {
  SmallTrace small;
  small.Capture("logits").mutable_selection()->mutable_positions()->add_indices(
      1);
  small.Add("logits", "", {"seq", "vocab_size"},
            TensorOf<float>(DType::kF32, {1, 3}, {0, 0.6931472F, 0}));
  EXPECT_EQ(small.Render(),
            "\nlogits, run 0\n"
            "hook point  at       #1           #2        #3\n"
            "logits      1 ·Mary  ·John 50.0%  #0 25.0%  ·Mary 25.0%\n");
}

TEST(RenderGroups, ShowsTheLargestEntries) {
  SmallTrace small;
  small.Capture("layers.0.mlp_neurons")
      .mutable_reduction()
      ->mutable_top_k()
      ->set_k(1);
  small.Add("layers.0.mlp_neurons", "values", {"seq", "top_k"},
            TensorOf<float>(DType::kF32, {3, 1}, {1.5, 2, -3}));
  small.Add("layers.0.mlp_neurons", "indices", {"seq", "top_k"},
            TensorOf<int32_t>(DType::kI32, {3, 1}, {1, 200, 3}));
  EXPECT_EQ(small.Render(),
            "\nlayers.0.mlp_neurons, run 0\n"
            "hook point            at       #1\n"
            "layers.0.mlp_neurons  0 When   1 1.5\n"
            "layers.0.mlp_neurons  1 ·Mary  200 2\n"
            "layers.0.mlp_neurons  2 \\n     3 -3\n");
}

TEST(RenderGroups, ShowsAttentionAsAHeatmap) {
  SmallTrace small;
  v1::Capture& capture = small.Capture("layers.0.attention_probabilities");
  capture.mutable_selection()->mutable_heads()->add_indices(3);
  small.Add("layers.0.self_attn.attention_probabilities", "",
            {"num_heads", "query", "key"},
            TensorOf<float>(DType::kF32, {1, 3, 3},
                            {1, 0, 0, 0.5, 0.5, 0, 0, 0.25, 0.75}));
  EXPECT_EQ(small.Render(40),
            "\nlayers.0.attention_probabilities, run 0\n"
            "layers.0.self_attn.attention_probabilities (down: query, across: "
            "key)\n"
            "            When    ·Mary       \\n\n"
            " When 0     100█\n"
            "·Mary 1      50▄      50▄\n"
            "   \\n 2               25▂      75▆\n");
}

TEST(RenderGroups, ShowsHeadsWhereThereIsOneQuery) {
  SmallTrace small;
  v1::Capture& capture = small.Capture("layers.0.attention_probabilities");
  capture.mutable_selection()->mutable_queries()->add_indices(-1);
  small.Add("layers.0.self_attn.attention_probabilities", "",
            {"num_heads", "query", "key"},
            TensorOf<float>(DType::kF32, {2, 1, 3}, {1, 0, 0, 0, 0.5, 0.5}));
  EXPECT_EQ(small.Render(40),
            "\nlayers.0.attention_probabilities, run 0\n"
            "layers.0.self_attn.attention_probabilities at query 2 \\n (down: "
            "head, across: key)\n"
            "           When    ·Mary       \\n\n"
            "head 0     100█\n"
            "head 1               50▄      50▄\n");
}

TEST(RenderGroups, ShowsAnythingElseAsAStripOfNorms) {
  SmallTrace small;
  small.Capture("layers.*.layer_output");
  small.Add("layers.0.layer_output", "", {"seq", "hidden_size"},
            TensorOf<float>(DType::kF32, {3, 3}, {3, 4, 0, 0, 0, 0, 0, 0, 10}));
  small.Capture("next").mutable_reduction()->mutable_mean_over_positions();
  small.Add("layers.1.layer_output", "", {"hidden_size"},
            TensorOf<uint16_t>(DType::kBF16, {2}, {0x3f80, 0xc020}));
  EXPECT_EQ(
      small.Render(),
      "\nlayers.*.layer_output, run 0\n"
      "tensor                 shape   type     norms or values  from, to\n"
      "layers.0.layer_output  [3, 3]  float32  ▄ █              0 to 10\n"
      "\nnext, run 0\n"
      "tensor                 shape  type      norms or values  from, to\n"
      "layers.1.layer_output  [2]    bfloat16  1 -2.5\n");
}

TEST(RestoreDefaultLabels, LeavesNamesAndSecondReadersAlone) {
  v1::TraceRequest request;
  request.add_captures()->set_label("mine");
  request.add_captures()->set_label("layers.*.x");
  request.add_captures()->set_label("layers.*.x@lens=1");
  std::vector<v1::TensorDescriptor> tensors(3);
  std::vector<v1::TensorDescriptor*> pointers;
  for (int i = 0; i < 3; ++i) {
    tensors[i].set_label(request.captures(i).label());
    tensors[i].set_hook_point("layers.0.x");
    pointers.push_back(&tensors[i]);
  }
  RestoreDefaultLabels(request, {true, false, false}, pointers);
  EXPECT_EQ(tensors[0].label(), "mine");
  EXPECT_EQ(tensors[1].label(), "layers.0.x");
  EXPECT_EQ(tensors[2].label(), "layers.*.x@lens=1");
}

TEST(TraceJson, WritesStatisticsAndOnRequestTheNumbers) {
  SmallTrace small;
  small.Capture("x");
  small.Add("x", "", {"seq", "pair"},
            TensorOf<float>(DType::kF32, {1, 2}, {3, -INFINITY}));
  const Json left_out = TraceJson(small.trace, {"x"}, Values::kLeftOut);
  EXPECT_EQ(left_out["tensors"][0]["stats"].dump(),
            R"({"min":3.0,"max":3.0,"mean":3.0,"norm":3.0,"not_finite":1})");
  EXPECT_FALSE(left_out["tensors"][0].contains("values"));
  const Json included = TraceJson(small.trace, {"x"}, Values::kIncluded);
  EXPECT_EQ(included["tensors"][0]["values"].dump(), "[[3.0,null]]");
  EXPECT_EQ(included["runs"][0]["ids"].dump(), "[7,8,9]");
}

}  // namespace
}  // namespace phitap::cli
