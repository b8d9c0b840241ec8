#include "server/spec/printout.h"

#include <charconv>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace phitap {
namespace {

// A value as nnterp describes it.
struct PrintedValue {
  absl::string_view name;
  absl::string_view layout;  // "Residual [batch seq hidden_size]"
  absl::string_view description;
};

constexpr absl::string_view kResidual = "Residual [batch seq hidden_size]";
constexpr absl::string_view kLogits = "Logits [batch seq vocab_size]";
constexpr absl::string_view kPattern = "Pattern [batch num_heads query key]";
constexpr absl::string_view kHeadOutputs =
    "HeadOutputs [batch seq num_heads head_dim]";
constexpr absl::string_view kNeurons = "Neurons [batch seq intermediate_size]";
constexpr absl::string_view kTokens = "Tokens [batch seq]";

constexpr PrintedValue kAttentionValues[] = {
    {"attention_queries", "Queries [batch num_heads seq qk_head_dim]",
     "The queries entering attention"},
    {"attention_keys", "Keys [batch num_kv_heads seq qk_head_dim]",
     "The keys entering attention"},
    {"attention_values", "Values [batch num_kv_heads seq head_dim]",
     "The values entering attention"},
    {"attention_scores", kPattern,
     "The attention scores entering the softmax, masked"},
    {"attention_premix", kHeadOutputs,
     "Every head's output side by side, as the output projection takes it"},
    {"attention_output", kResidual,
     "What the attention adds to the residual stream"},
    {"attention_probabilities", kPattern,
     "The attention pattern the values are mixed with"},
    {"attention_head_outputs", kHeadOutputs,
     "The per-head outputs before the output projection"},
};

constexpr PrintedValue kMlpValues[] = {
    {"mlp_activation", kNeurons, "The activation function's output"},
    {"mlp_neurons", kNeurons,
     "What the down projection receives: act(gate)·up on a gated MLP, the "
     "activation itself otherwise"},
    {"mlp_output", kResidual, "What the MLP adds to the residual stream"},
};

constexpr PrintedValue kLayerValues[] = {
    {"layer_input", kResidual, "The residual stream entering the block"},
    {"attention_norm_output", kResidual,
     "The normed stream entering the attention"},
    {"layer_mid", kResidual, "The residual stream after the attention add"},
    {"mlp_norm_output", kResidual, "The normed stream entering the MLP"},
    {"mlp_input", kResidual, "What the MLP is called with"},
    {"layer_output", kResidual,
     "The residual stream leaving the block, a tensor even when the block "
     "returns a tuple"},
};

constexpr PrintedValue kModelValues[] = {
    {"logits", kLogits,
     "The logits the model returns, after anything it does past lm_head (a "
     "softcap, a scale)"},
    {"token_embeddings", kResidual,
     "The embedding module's output; layers[0].input is what enters the first "
     "block"},
    {"final_norm_output", kResidual,
     "The residual stream after the final norm, what lm_head reads"},
    {"lm_head_output", kLogits,
     "The head's logits before anything the model does past lm_head (a "
     "softcap, a scale)"},
    {"next_token_probs", "NextTokenProbs [batch vocab_size]",
     "The next-token distribution at the last position; derived, read-only"},
    {"input_ids", kTokens, "The token ids the model was called with"},
    {"attention_mask", kTokens,
     "The attention mask the model was called with; zeros are padding"},
    {"input_size", "", "[batch, seq] of the current call; read-only"},
};

// Python's repr: the shortest digits, an exponent below 1e-4.
std::string PythonFloat(double value) {
  const bool small = value != 0 && std::abs(value) < 1e-4;
  char text[64];
  const auto end = std::to_chars(
      text, text + sizeof(text), value,
      small ? std::chars_format::scientific : std::chars_format::fixed);
  std::string printed(text, end.ptr);
  if (printed.find_first_of(".e") == std::string::npos) printed += ".0";
  return printed;
}

std::string Linear(int64_t in_features, int64_t out_features) {
  return absl::StrCat("Linear(in_features=", in_features,
                      ", out_features=", out_features, ", bias=False)");
}

std::string RmsNorm(const ModelSpec& spec) {
  return absl::StrCat("Phi3RMSNorm((", spec.hidden_size,
                      ",), eps=", PythonFloat(spec.rms_norm_eps), ")");
}

std::string Activation(absl::string_view name) {
  return name == "silu" ? "SiLUActivation()" : absl::StrCat(name, "()");
}

// Lines of a module and of what it holds.
class Tree {
 public:
  explicit Tree(absl::string_view type) : type_(type) {}

  void Add(absl::string_view name, absl::string_view text) {
    lines_.push_back(absl::StrCat("(", name, "): ", text));
  }
  void Add(absl::string_view name, const Tree& child) {
    Add(name, child.Text());
  }
  template <size_t count>
  void Add(const PrintedValue (&values)[count]) {
    for (const PrintedValue& value : values) {
      lines_.push_back(absl::StrCat("(", value.name, ")",
                                    value.layout.empty() ? "" : " -> ",
                                    value.layout, ": ", value.description));
    }
  }

  std::string Text() const {
    std::string text = absl::StrCat(type_, "(\n");
    for (const std::string& entry : lines_) {
      for (absl::string_view line : absl::StrSplit(entry, '\n')) {
        absl::StrAppend(&text, "  ", line, "\n");
      }
    }
    return text + ")";
  }

 private:
  std::string type_;
  std::vector<std::string> lines_;
};

Tree Attention(const ModelSpec& spec) {
  const int64_t query_width = spec.num_heads * spec.head_dim;
  const int64_t key_width = spec.num_kv_heads * spec.head_dim;
  Tree tree("Phi3Attention");
  tree.Add("o_proj", Linear(query_width, spec.hidden_size));
  tree.Add("qkv_proj", Linear(spec.hidden_size, query_width + 2 * key_width));
  tree.Add(kAttentionValues);
  return tree;
}

Tree Mlp(const ModelSpec& spec) {
  Tree tree("Phi3MLP");
  tree.Add("gate_up_proj",
           Linear(spec.hidden_size, 2 * spec.intermediate_size));
  tree.Add("down_proj", Linear(spec.intermediate_size, spec.hidden_size));
  tree.Add("act_fn/activation_fn", Activation(spec.hidden_act));
  tree.Add(kMlpValues);
  return tree;
}

Tree DecoderLayer(const ModelSpec& spec) {
  // torch's ModuleList names repeats "(0-31): 32 x", and one alone "(0)".
  Tree tree(spec.num_layers == 1
                ? "Phi3DecoderLayer"
                : absl::StrCat(spec.num_layers, " x Phi3DecoderLayer"));
  tree.Add("self_attn", Attention(spec));
  tree.Add("mlp", Mlp(spec));
  tree.Add("input_layernorm", RmsNorm(spec));
  tree.Add("post_attention_layernorm", RmsNorm(spec));
  tree.Add("resid_attn_dropout", "Dropout(p=0.0, inplace=False)");
  tree.Add("resid_mlp_dropout", "Dropout(p=0.0, inplace=False)");
  tree.Add(kLayerValues);
  return tree;
}

std::string Embedding(const ModelSpec& spec) {
  std::string text =
      absl::StrCat("Embedding(", spec.vocab_size, ", ", spec.hidden_size);
  if (spec.pad_id.has_value()) {
    absl::StrAppend(&text, ", padding_idx=", *spec.pad_id);
  }
  return text + ")";
}

}  // namespace

std::string Printout(const ModelSpec& spec) {
  Tree layers("ModuleList");
  layers.Add(
      spec.num_layers == 1 ? "0" : absl::StrCat("0-", spec.num_layers - 1),
      DecoderLayer(spec));
  Tree generator("Generator");
  generator.Add("streamer", "Streamer()");

  Tree model(spec.architecture);
  model.Add("lm_head", Linear(spec.hidden_size, spec.vocab_size));
  model.Add("generator", generator);
  model.Add("embed_tokens", Embedding(spec));
  model.Add("layers", layers);
  model.Add("norm", RmsNorm(spec));
  model.Add(kModelValues);
  return model.Text();
}

}  // namespace phitap
