#include "server/plan/memory/forward_bytes.h"

#include <algorithm>
#include <initializer_list>

#include "server/plan/saturating.h"

namespace phitap {
namespace {

constexpr int64_t kFloat32Bytes = 4;
// Queries of a tile of attention; keys and values are kept in whole tiles.
constexpr int64_t kTileLines = 32;
// Lines that the strictest row rule fills a matrix up to, and those that the
// logit lens takes at a time.
constexpr int64_t kBlockLines = 64;
// What library calls need of a token beside what our own kernels do: norms,
// rotary and SwiGLU in several steps, some of them in float32.
constexpr int64_t kLibrarySteps = 2;

int64_t Product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors) product = SaturatingMultiply(product, factor);
  return product;
}

int64_t Sum(std::initializer_list<int64_t> terms) {
  int64_t sum = 0;
  for (int64_t term : terms) sum = SaturatingAdd(sum, term);
  return sum;
}

int64_t WholeTiles(int64_t line_count) {
  return (line_count + kTileLines - 1) / kTileLines * kTileLines;
}

}  // namespace

ForwardBytes::ForwardBytes(const ModelSpec& spec, DType compute_dtype,
                           Numerics numerics)
    : spec_(spec),
      numerics_(numerics),
      b_(SizeInBytes(compute_dtype)),
      queries_(spec.num_heads * spec.head_dim),
      keys_(spec.num_kv_heads * spec.head_dim) {}

// In elements, D hidden size, Q of the queries, K of the keys, F of the MLP, a
// value that is edited twice, as it was and as it is:
//
//   attention  2·2D  residual stream, norm
//              2(Q + 2K)  queries, keys, values
//              2Q + 2K + 2K  queries and keys turned, values
//              4K  keys and values in tiles, and what is laid over them
//              2Q  head outputs
//   MLP        5D + Q  residual stream before and after, norm, output; heads
//              2·2F + F + F  gate and up, activation, neurons
//
// and cosines and sines, first in float32.
int64_t ForwardBytes::Token() const {
  const int64_t attention = 4 * spec_.hidden_size + 6 * queries_ + 12 * keys_;
  const int64_t mlp =
      5 * spec_.hidden_size + queries_ + 6 * spec_.intermediate_size;
  const int64_t rotary = 2 * spec_.rotary_dims * (b_ + 2 * kFloat32Bytes);
  const int64_t own = std::max(attention, mlp) * b_ + rotary;
  return numerics_ == Numerics::kCausal
             ? own
             : own + kLibrarySteps *
                         (spec_.hidden_size + spec_.intermediate_size) *
                         (b_ + kFloat32Bytes);
}

// Lines before and after the norm, edited, and those that the head reads; its
// output, edited, and its softmax at a last position.
int64_t ForwardBytes::HeadPosition() const {
  return 4 * spec_.hidden_size * b_ +
         spec_.vocab_size * (3 * b_ + 2 * kFloat32Bytes);
}

int64_t ForwardBytes::Padding() const {
  return numerics_ == Numerics::kCausal
             ? Product({kBlockLines, Token() + HeadPosition()})
             : 0;
}

// A tile's queries against all keys: the mask twice, keys and values without
// what is not finite; scores and probabilities as computed, as shown, as
// edited and in float32. Library calls have all queries at once, and the keys
// once for every head.
int64_t ForwardBytes::AttentionCall(int64_t token_count,
                                    Pattern pattern) const {
  const bool causal = numerics_ == Numerics::kCausal;
  const int64_t keys = WholeTiles(token_count);
  const int64_t queries = causal ? kTileLines : token_count;
  const int64_t entries = Product({queries, keys});
  const int64_t copies = Product({4, causal ? keys_ : queries_, keys, b_});
  const int64_t masks = Product({entries, 2 * b_ + kFloat32Bytes});
  if (pattern == Pattern::kNone) return Sum({copies, masks});
  return Sum({copies, masks,
              Product({spec_.num_heads, entries, 5 * b_ + 2 * kFloat32Bytes})});
}

// One for each tile, up to its last key.
int64_t ForwardBytes::HidingMasks(int64_t token_count) const {
  const int64_t keys = WholeTiles(token_count + kTileLines);
  return Product({keys, keys, b_ + 1}) / 2;
}

// Buffers grow by a quarter; under a window no query sees more than a tile and
// the window before it.
int64_t ForwardBytes::KeysAndValues(int64_t token_count) const {
  int64_t held = WholeTiles(SaturatingAdd(token_count, token_count / 4));
  if (numerics_ == Numerics::kCausal && spec_.sliding_window.has_value()) {
    held = std::min(held, WholeTiles(*spec_.sliding_window + 2 * kTileLines));
  }
  return Product({2, spec_.num_layers, keys_, held, b_});
}

// Both norms keep their input in float32, and scaled and unscaled (4 + 2b);
// qkv, queries and keys turned and as halves, head outputs twice (b); gate and
// up, the activation, the neurons (4F b); both branches' sums (2D b).
int64_t ForwardBytes::LayerGraphPerToken() const {
  const int64_t attention =
      (queries_ + 2 * keys_) + 2 * (queries_ + keys_) + 2 * queries_;
  return 2 * spec_.hidden_size * (kFloat32Bytes + 2 * b_) +
         (attention + 4 * spec_.intermediate_size + 2 * spec_.hidden_size) * b_;
}

// Layers; in EAGER scores, their softmax in float32 and the probabilities of
// every head; logits, as computed and in float32 with their softmax.
int64_t ForwardBytes::Graph(int64_t token_count, Attention attention) const {
  int64_t size_bytes =
      Product({spec_.num_layers, token_count, LayerGraphPerToken()});
  if (attention == Attention::kEager) {
    size_bytes = SaturatingAdd(
        size_bytes, Product({spec_.num_layers, spec_.num_heads, token_count,
                             token_count, kFloat32Bytes + 2 * b_}));
  }
  return SaturatingAdd(size_bytes, Product({token_count, spec_.vocab_size,
                                            b_ + 2 * kFloat32Bytes}));
}

// Logits as computed, in float32 and their softmax.
int64_t ForwardBytes::LensBlock() const {
  return Product(
      {kBlockLines, 3 * spec_.hidden_size * b_ +
                        spec_.vocab_size * (b_ + 3 * kFloat32Bytes)});
}

}  // namespace phitap
