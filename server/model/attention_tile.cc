// SPDX-License-Identifier: Apache-2.0
#include "server/model/attention_tile.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/model/head_kernel.h"

namespace phitap {
namespace {

// Elements that are worth a thread's while.
constexpr int64_t kGrainElements = 32768;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double ScaleOf(int64_t head_width) {
  return std::pow(static_cast<double>(head_width), -0.5);
}

struct KeysAndValues {
  at::Tensor keys;
  at::Tensor values;
};
using Attend = absl::FunctionRef<at::Tensor(const KeysAndValues&)>;

// Queries by which of the keys that are not finite they do not see.
std::map<std::vector<int64_t>, std::vector<int64_t>> QueriesByUnseen(
    const AttentionTile& tile) {
  std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
  const int64_t key_stride = tile.mask.invisible.stride(0);
  const bool* const invisible = tile.mask.invisible.const_data_ptr<bool>();
  for (int64_t query = 0; query < kTileLines; ++query) {
    std::vector<int64_t> unseen;
    for (const int64_t key : tile.not_finite) {
      if (invisible[query * key_stride + key]) unseen.push_back(key);
    }
    groups[unseen].push_back(query);
  }
  return groups;
}

at::Tensor WithZeros(const at::Tensor& lines, const std::vector<int64_t>& at) {
  at::Tensor zeroed = lines.clone(at::MemoryFormat::Contiguous);
  for (const int64_t line : at) zeroed.select(1, line).zero_();
  return zeroed;
}

// What `attend` gives [32, H, E], each query's from a call in which the keys
// that it does not see are finite: under a mask too, 0 · NaN is NaN.
at::Tensor Shielded(const AttentionTile& tile, Attend attend) {
  if (tile.not_finite.empty()) return attend({tile.keys, tile.values});
  at::Tensor out;
  for (const auto& [unseen, queries] : QueriesByUnseen(tile)) {
    const at::Tensor results =
        attend({WithZeros(tile.keys, unseen), WithZeros(tile.values, unseen)});
    if (!out.defined()) out = at::zeros_like(results);
    for (const int64_t query : queries) {
      out.select(0, query).copy_(results.select(0, query));
    }
  }
  return out;
}

// [32, H, E] → [KV, (H/KV)·32, E]: the queries of a key head are one matrix.
at::Tensor ByKeyHead(const at::Tensor& queries, int64_t kv_heads) {
  return queries.transpose(0, 1).contiguous().view(
      {kv_heads, -1, queries.size(2)});
}

at::Tensor LibrarySdpa(const AttentionTile& tile, const KeysAndValues& given) {
  // The kernel itself and not its front, which may choose another.
  const auto [output, log_sum_exp] =
      at::_scaled_dot_product_flash_attention_for_cpu(
          tile.queries.transpose(0, 1).unsqueeze(0), given.keys.unsqueeze(0),
          given.values.unsqueeze(0), /*dropout_p=*/0.0, /*is_causal=*/false,
          tile.mask.additive, ScaleOf(tile.queries.size(2)));
  return output[0].transpose(0, 1);
}

HeadLines LinesOfHead(const at::Tensor& x, int64_t head_dim, int64_t head) {
  return {.first = x.const_data_ptr<at::BFloat16>() + head * x.stride(head_dim),
          .stride = x.stride(1 - head_dim)};
}

// What is the stretch's of one head.
HeadTile TileOfHead(const QueryStretch& stretch, int64_t head) {
  const at::Tensor& out = stretch.out;
  return {.queries = LinesOfHead(stretch.queries, 1, head),
          .query_count = out.size(0),
          .key_count = stretch.invisible.size(1),
          .invisible = stretch.invisible.const_data_ptr<bool>(),
          .invisible_stride = stretch.invisible.stride(0),
          .out = out.data_ptr<at::BFloat16>() + head * out.stride(1),
          .out_stride = out.stride(0)};
}

at::Tensor KernelSdpa(const AttentionTile& tile, const KeysAndValues& given) {
  const QueryStretch all = {
      .queries = tile.queries,
      .invisible = tile.mask.invisible,
      .out = at::empty(tile.queries.sizes(), tile.queries.options())};
  SdpaOfStretches(given.keys, given.values, {&all, 1});
  return all.out;
}

}  // namespace

at::Tensor Scores(const AttentionTile& tile) {
  const int64_t heads = tile.queries.size(1);
  // Contiguous: the strides of a longer prompt's buffer must not show.
  const at::Tensor keys = tile.keys.contiguous();
  return at::matmul(ByKeyHead(tile.queries, keys.size(0)), keys.transpose(1, 2))
      .mul_(ScaleOf(tile.queries.size(2)))
      .view({heads, kTileLines, keys.size(1)})
      .masked_fill_(tile.mask.invisible, kMinusInfinity);
}

at::Tensor Probabilities(const AttentionTile& tile, const at::Tensor& scores) {
  at::Tensor probabilities =
      at::softmax(scores, -1, at::kFloat).to(scores.scalar_type());
  // Set, for a query that sees a NaN has nothing but NaN, and one that sees
  // nothing, or is left without any key by an edit, as well.
  return probabilities.masked_fill_(tile.mask.invisible, 0.0)
      .masked_fill_(scores.eq(kMinusInfinity).all(-1, /*keepdim=*/true), 0.0);
}

at::Tensor Mix(const AttentionTile& tile, const at::Tensor& probabilities) {
  const int64_t heads = tile.queries.size(1);
  const int64_t kv_heads = tile.keys.size(0);
  const at::Tensor weights =
      probabilities.contiguous().view({kv_heads, -1, probabilities.size(2)});
  return Shielded(tile, [&](const KeysAndValues& given) {
    return at::matmul(weights, given.values.contiguous())
        .view({heads, kTileLines, -1})
        .transpose(0, 1)
        .contiguous();
  });
}

at::Tensor Sdpa(const AttentionTile& tile) {
  const bool kernel = HasStretchSdpa(tile.queries.scalar_type());
  return Shielded(tile, [&](const KeysAndValues& given) {
    return kernel ? KernelSdpa(tile, given) : LibrarySdpa(tile, given);
  });
}

bool HasStretchSdpa(at::ScalarType dtype) {
  return dtype == at::kBFloat16 && HasHeadKernel();
}

void SdpaOfStretches(const at::Tensor& keys, const at::Tensor& values,
                     absl::Span<const QueryStretch> stretches) {
  const int64_t heads = stretches.front().queries.size(1);
  const int64_t width = keys.size(2);
  const int64_t group = heads / keys.size(0);
  const int64_t grain =
      std::max<int64_t>(1, kGrainElements / (keys.size(1) * width));
  at::parallel_for(0, heads, grain, [&](int64_t begin, int64_t end) {
    std::vector<HeadTile> tiles;
    for (int64_t head = begin; head < end; ++head) {
      tiles.clear();
      for (const QueryStretch& stretch : stretches) {
        tiles.push_back(TileOfHead(stretch, head));
      }
      AttendHead({.keys = LinesOfHead(keys, 0, head / group),
                  .values = LinesOfHead(values, 0, head / group),
                  .width = width,
                  .scale = static_cast<float>(ScaleOf(width))},
                 tiles);
    }
  });
}

}  // namespace phitap
