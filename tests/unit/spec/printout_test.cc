#include "server/spec/printout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/model_specs.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What nnterp's page of the family shows for Phi-3-mini-4k-instruct.
constexpr char kPhi3Mini4k[] =
    R"(Phi3ForCausalLM(
  (lm_head): Linear(in_features=3072, out_features=32064, bias=False)
  (generator): Generator(
    (streamer): Streamer()
  )
  (embed_tokens): Embedding(32064, 3072, padding_idx=32000)
  (layers): ModuleList(
    (0-31): 32 x Phi3DecoderLayer(
      (self_attn): Phi3Attention(
        (o_proj): Linear(in_features=3072, out_features=3072, bias=False)
        (qkv_proj): Linear(in_features=3072, out_features=9216, bias=False)
        (attention_queries) -> Queries [batch num_heads seq qk_head_dim]: The queries entering attention
        (attention_keys) -> Keys [batch num_kv_heads seq qk_head_dim]: The keys entering attention
        (attention_values) -> Values [batch num_kv_heads seq head_dim]: The values entering attention
        (attention_scores) -> Pattern [batch num_heads query key]: The attention scores entering the softmax, masked
        (attention_premix) -> HeadOutputs [batch seq num_heads head_dim]: Every head's output side by side, as the output projection takes it
        (attention_output) -> Residual [batch seq hidden_size]: What the attention adds to the residual stream
        (attention_probabilities) -> Pattern [batch num_heads query key]: The attention pattern the values are mixed with
        (attention_head_outputs) -> HeadOutputs [batch seq num_heads head_dim]: The per-head outputs before the output projection
      )
      (mlp): Phi3MLP(
        (gate_up_proj): Linear(in_features=3072, out_features=16384, bias=False)
        (down_proj): Linear(in_features=8192, out_features=3072, bias=False)
        (act_fn/activation_fn): SiLUActivation()
        (mlp_activation) -> Neurons [batch seq intermediate_size]: The activation function's output
        (mlp_neurons) -> Neurons [batch seq intermediate_size]: What the down projection receives: act(gate)·up on a gated MLP, the activation itself otherwise
        (mlp_output) -> Residual [batch seq hidden_size]: What the MLP adds to the residual stream
      )
      (input_layernorm): Phi3RMSNorm((3072,), eps=1e-05)
      (post_attention_layernorm): Phi3RMSNorm((3072,), eps=1e-05)
      (resid_attn_dropout): Dropout(p=0.0, inplace=False)
      (resid_mlp_dropout): Dropout(p=0.0, inplace=False)
      (layer_input) -> Residual [batch seq hidden_size]: The residual stream entering the block
      (attention_norm_output) -> Residual [batch seq hidden_size]: The normed stream entering the attention
      (layer_mid) -> Residual [batch seq hidden_size]: The residual stream after the attention add
      (mlp_norm_output) -> Residual [batch seq hidden_size]: The normed stream entering the MLP
      (mlp_input) -> Residual [batch seq hidden_size]: What the MLP is called with
      (layer_output) -> Residual [batch seq hidden_size]: The residual stream leaving the block, a tensor even when the block returns a tuple
    )
  )
  (norm): Phi3RMSNorm((3072,), eps=1e-05)
  (logits) -> Logits [batch seq vocab_size]: The logits the model returns, after anything it does past lm_head (a softcap, a scale)
  (token_embeddings) -> Residual [batch seq hidden_size]: The embedding module's output; layers[0].input is what enters the first block
  (final_norm_output) -> Residual [batch seq hidden_size]: The residual stream after the final norm, what lm_head reads
  (lm_head_output) -> Logits [batch seq vocab_size]: The head's logits before anything the model does past lm_head (a softcap, a scale)
  (next_token_probs) -> NextTokenProbs [batch vocab_size]: The next-token distribution at the last position; derived, read-only
  (input_ids) -> Tokens [batch seq]: The token ids the model was called with
  (attention_mask) -> Tokens [batch seq]: The attention mask the model was called with; zeros are padding
  (input_size): [batch, seq] of the current call; read-only
))";

TEST(Printout, IsNnterpsForPhi3Mini4k) {
  EXPECT_EQ(Printout(Phi3Mini4k()), kPhi3Mini4k);
}

TEST(Printout, TakesItsNumbersFromTheSpecification) {
  ModelSpec spec = TinyGrouped();
  spec.rms_norm_eps = 0.0001;
  const std::string text = Printout(spec);
  EXPECT_THAT(text, HasSubstr("(0-3): 4 x Phi3DecoderLayer(\n"));
  EXPECT_THAT(text, HasSubstr("(qkv_proj): Linear(in_features=24, "
                              "out_features=80, bias=False)"));
  EXPECT_THAT(text, HasSubstr("(o_proj): Linear(in_features=48, "
                              "out_features=24, bias=False)"));
  EXPECT_THAT(text, HasSubstr("(gate_up_proj): Linear(in_features=24, "
                              "out_features=40, bias=False)"));
  EXPECT_THAT(text, HasSubstr("(embed_tokens): Embedding(50, 24)\n"));
  EXPECT_THAT(text, HasSubstr("(norm): Phi3RMSNorm((24,), eps=0.0001)"));
}

TEST(Printout, CountsNoRepeatsOfASingleLayer) {
  ModelSpec spec = TinyGrouped();
  spec.num_layers = 1;
  EXPECT_THAT(Printout(spec), HasSubstr("(0): Phi3DecoderLayer(\n"));
  EXPECT_THAT(Printout(spec), Not(HasSubstr(" x ")));
}

}  // namespace
}  // namespace phitap
