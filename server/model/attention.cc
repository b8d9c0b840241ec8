// SPDX-License-Identifier: Apache-2.0
#include "server/model/attention.h"

#include <cstdint>
#include <utility>

#include "server/model/arithmetic.h"

namespace phitap {

at::Tensor AttentionHeads(const LayerWeights& weights, const at::Tensor& x,
                          const Pass& pass) {
  const int64_t heads = pass.spec.num_heads;
  const int64_t kv_heads = pass.spec.num_kv_heads;
  const int64_t width = pass.spec.head_dim;
  Arithmetic& numerics = pass.numerics;

  at::Tensor qkv = numerics.Linear(x, weights.qkv_proj);
  qkv = pass.Show(Hook::kAttentionQkv, qkv);  // [T, (H + 2KV)·E]
  const auto slice = [&](int64_t first_head, int64_t count) {
    return qkv.narrow(1, first_head * width, count * width)
        .view({qkv.size(0), count, width});
  };
  at::Tensor queries = slice(0, heads);                   // [T, H, E]
  at::Tensor keys = slice(heads, kv_heads);               // [T, KV, E]
  at::Tensor values = slice(heads + kv_heads, kv_heads);  // [T, KV, E]
  queries = pass.Show(Hook::kAttentionQueriesPreRotary, queries);
  keys = pass.Show(Hook::kAttentionKeysPreRotary, keys);
  queries = numerics.Rotate(queries, pass.rotary);
  queries = pass.Show(Hook::kAttentionQueries, queries);
  keys = numerics.Rotate(keys, pass.rotary);
  keys = pass.Show(Hook::kAttentionKeys, keys);
  values = pass.Show(Hook::kAttentionValues, values);

  return numerics.Attend({.queries = queries, .keys = keys, .values = values},
                         pass);
}

at::Tensor AttentionOutput(const LayerWeights& weights, at::Tensor heads,
                           const Pass& pass) {
  heads = pass.Show(Hook::kAttentionHeadOutputs, std::move(heads));
  heads = pass.Show(Hook::kAttentionPremix, std::move(heads));  // [T, H, E]
  at::Tensor output = pass.numerics.Linear(heads.flatten(1), weights.o_proj);
  return pass.Show(Hook::kAttentionOutput, std::move(output));  // [T, D]
}

}  // namespace phitap
