#include "server/trace/reduce.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace phitap {
namespace {

// Rows of the vocabulary that the lens holds at a time: a multiple of every row
// rule's block.
constexpr int64_t kLensRows = 64;

// Whether entry (a, i) comes before (b, j): larger first, NaN largest, then the
// smaller index.
bool Before(float a, int32_t i, float b, int32_t j) {
  const bool a_nan = std::isnan(a);
  const bool b_nan = std::isnan(b);
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a != b) return a > b;
  return i < j;
}

// Indices of the `top.size()` best of `row`, best first. A heap with the worst
// of the best on top, so one pass over the row.
void TopOfRow(absl::Span<const float> row, absl::Span<int32_t> top) {
  auto before = [row](int32_t i, int32_t j) {
    return Before(row[i], i, row[j], j);
  };
  const int32_t k = static_cast<int32_t>(top.size());
  for (int32_t i = 0; i < k; ++i) top[i] = i;
  std::make_heap(top.begin(), top.end(), before);
  for (int32_t i = k; i < static_cast<int32_t>(row.size()); ++i) {
    if (!before(i, top[0])) continue;
    std::pop_heap(top.begin(), top.end(), before);
    top[k - 1] = i;
    std::push_heap(top.begin(), top.end(), before);
  }
  std::sort_heap(top.begin(), top.end(), before);
}

// Runs body(row number, row of `matrix` [n, width]) over all rows, on several
// threads.
template <typename Body>
void ForEachRow(const at::Tensor& matrix, const Body& body) {
  const int64_t width = matrix.size(-1);
  const float* entries = matrix.const_data_ptr<float>();
  at::parallel_for(0, matrix.numel() / width, /*grain_size=*/1,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t n = begin; n < end; ++n) {
                       body(n, absl::MakeConstSpan(entries + n * width, width));
                     }
                   });
}

at::Tensor TopIndices(const at::Tensor& matrix, int64_t k) {
  std::vector<int64_t> shape = matrix.sizes().vec();
  shape.back() = k;
  at::Tensor indices = at::empty(shape, matrix.options().dtype(at::kInt));
  int32_t* out = indices.mutable_data_ptr<int32_t>();
  ForEachRow(matrix, [out, k](int64_t n, absl::Span<const float> row) {
    TopOfRow(row, absl::MakeSpan(out + n * k, k));
  });
  return indices;
}

// How many entries of the row come before entry `id`.
int32_t RankOf(absl::Span<const float> row, int32_t id) {
  int32_t rank = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(row.size()); ++i) {
    rank += Before(row[i], i, row[id], id) ? 1 : 0;
  }
  return rank;
}

at::Tensor RanksOf(const at::Tensor& logits, absl::Span<const int32_t> ids) {
  const int64_t count = static_cast<int64_t>(ids.size());
  at::Tensor ranks =
      at::empty({logits.size(0), count}, logits.options().dtype(at::kInt));
  int32_t* out = ranks.mutable_data_ptr<int32_t>();
  ForEachRow(logits, [out, ids, count](int64_t n, absl::Span<const float> row) {
    for (int64_t i = 0; i < count; ++i)
      out[n * count + i] = RankOf(row, ids[i]);
  });
  return ranks;
}

at::Tensor TokenProbabilities(const at::Tensor& probabilities,
                              absl::Span<const int32_t> ids) {
  at::Tensor index = at::empty({static_cast<int64_t>(ids.size())},
                               probabilities.options().dtype(at::kLong));
  std::copy(ids.begin(), ids.end(), index.mutable_data_ptr<int64_t>());
  return probabilities.index_select(1, index);
}

}  // namespace

Top TopOf(const at::Tensor& value, int64_t k) {
  const at::Tensor comparable = value.to(at::kFloat).contiguous();
  at::Tensor indices = TopIndices(comparable, k);
  return {.values = value.gather(-1, indices.to(at::kLong)),
          .indices = std::move(indices)};
}

std::vector<at::Tensor> LensOf(const Phi3& model, const at::Tensor& residual,
                               const LogitLensReduction& lens) {
  const Phi3::LensNorm norm =
      lens.apply_final_norm ? Phi3::LensNorm::kApply : Phi3::LensNorm::kSkip;
  std::vector<std::vector<at::Tensor>> blocks(lens.token_ids.empty() ? 2 : 4);
  for (int64_t begin = 0; begin < residual.size(0); begin += kLensRows) {
    const int64_t count = std::min(kLensRows, residual.size(0) - begin);
    const at::Tensor logits =
        model.LensLogits(residual.narrow(0, begin, count), norm).contiguous();
    const at::Tensor probabilities = at::softmax(logits, -1);
    at::Tensor indices = TopIndices(logits, lens.k);
    blocks[0].push_back(probabilities.gather(-1, indices.to(at::kLong)));
    blocks[1].push_back(std::move(indices));
    if (lens.token_ids.empty()) continue;
    blocks[2].push_back(TokenProbabilities(probabilities, lens.token_ids));
    blocks[3].push_back(RanksOf(logits, lens.token_ids));
  }
  std::vector<at::Tensor> parts;
  parts.reserve(blocks.size());
  for (const std::vector<at::Tensor>& part : blocks)
    parts.push_back(at::cat(part));
  return parts;
}

std::vector<at::Tensor> Reduce(const Phi3& model, const at::Tensor& value,
                               const Reduction& reduction,
                               int64_t seq_dimension) {
  if (std::holds_alternative<MeanOverPositionsReduction>(reduction)) {
    return {at::mean(value, {seq_dimension}, /*keepdim=*/false, at::kFloat)
                .to(value.scalar_type())};
  }
  if (std::holds_alternative<NormReduction>(reduction)) {
    return {
        at::linalg_vector_norm(value, 2, {-1}, /*keepdim=*/false, at::kFloat)};
  }
  if (const auto* top_k = std::get_if<TopKReduction>(&reduction)) {
    Top top = TopOf(value, top_k->k);
    return {std::move(top.values), std::move(top.indices)};
  }
  if (const auto* lens = std::get_if<LogitLensReduction>(&reduction)) {
    return LensOf(model, value, *lens);
  }
  return {value};
}

}  // namespace phitap
