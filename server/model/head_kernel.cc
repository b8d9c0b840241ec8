// SPDX-License-Identifier: Apache-2.0
#include "server/model/head_kernel.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include "server/model/head_blocks.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

namespace phitap {
namespace {

using head_blocks::kBlockKeys;
using head_blocks::kLanes;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kTileQueries = 32;
// Keys whose scores are made in one go.
constexpr int64_t kScoreKeys = 2 * kLanes;
// Tiles that use what is packed of a block.
constexpr int64_t kTilesTogether = 8;
constexpr size_t kLineBytes = 64;

template <typename T>
class AlignedArray {
 public:
  explicit AlignedArray(int64_t size)
      : elements_(static_cast<T*>(std::aligned_alloc(
            kLineBytes,
            (size * sizeof(T) + kLineBytes - 1) / kLineBytes * kLineBytes))) {
    TORCH_CHECK(elements_ != nullptr, "no memory for attention");
  }
  T* get() const { return elements_.get(); }

 private:
  struct Free {
    void operator()(T* elements) const { std::free(elements); }
  };
  std::unique_ptr<T, Free> elements_;
};

// A query so far.
struct QuerySums {
  float max = kMinusInfinity;
  float weights = 0.0f;
};

// What a thread works in.
struct Workspace {
  explicit Workspace(int64_t head_width)
      : width(head_width),
        padded_width((head_width + kLanes - 1) / kLanes * kLanes),
        pairs((head_width + 1) / 2) {}

  const int64_t width;
  const int64_t padded_width;
  const int64_t pairs;
  AlignedArray<uint32_t> keys{kBlockKeys * pairs};
  AlignedArray<uint32_t> values{kBlockKeys / 2 * padded_width};
  AlignedArray<uint32_t> queries{kTilesTogether * kTileQueries * pairs};
  AlignedArray<float> scores{kTileQueries * kBlockKeys};
  AlignedArray<uint16_t> weights{kTileQueries * kBlockKeys};
  AlignedArray<float> mixed{kTilesTogether * kTileQueries * padded_width};
  QuerySums sums[kTilesTogether * kTileQueries];
};

Workspace& WorkspaceFor(int64_t width) {
  thread_local std::optional<Workspace> workspace;
  if (!workspace || workspace->width != width) workspace.emplace(width);
  return *workspace;
}

const uint16_t* Bits(const c10::BFloat16* x) {
  return reinterpret_cast<const uint16_t*>(x);
}

// A tile under way and its part of the workspace.
class TileSums {
 public:
  TileSums(const HeadTile& tile, int64_t index, float scale, Workspace& work)
      : tile_(tile),
        scale_(scale),
        work_(work),
        queries_(work.queries.get() + index * kTileQueries * work.pairs),
        mixed_(work.mixed.get() + index * kTileQueries * work.padded_width),
        sums_(work.sums + index * kTileQueries) {
    std::fill_n(sums_, tile.query_count, QuerySums());
    std::fill_n(mixed_, tile.query_count * work.padded_width, 0.0f);
    for (int64_t i = 0; i < tile.query_count; ++i) {
      uint32_t* const line = queries_ + i * work.pairs;
      line[work.pairs - 1] = 0;  // the last pair may be half a one
      std::memcpy(line, tile.queries.first + i * tile.queries.stride,
                  work.width * sizeof(c10::BFloat16));
    }
  }

  // Adds the packed keys [begin, begin + count) and their values.
  void Add(int64_t begin, int64_t count) {
    for (int64_t key = 0; key < count; key += kScoreKeys) ScoreKeys(key);
    for (int64_t i = 0; i < tile_.query_count; ++i) Weigh(i, begin, count);
    int64_t i = 0;
    for (; i + 4 <= tile_.query_count; i += 4) Mix<4>(i, count);
    for (; i < tile_.query_count; ++i) Mix<1>(i, count);
  }

  void Store() const {
    for (int64_t i = 0; i < tile_.query_count; ++i) {
      const float sum = sums_[i].weights;
      head_blocks::StoreScaled(
          mixed_ + i * work_.padded_width, sum == 0.0f ? 0.0f : 1.0f / sum,
          work_.width,
          reinterpret_cast<uint16_t*>(tile_.out + i * tile_.out_stride));
    }
  }

 private:
  void ScoreKeys(int64_t key) {
    int64_t i = 0;
    for (; i + 8 <= tile_.query_count; i += 8) Score<8>(i, key);
    for (; i < tile_.query_count; ++i) Score<1>(i, key);
  }

  template <int N>
  void Score(int64_t query, int64_t key) {
    head_blocks::Scores<N>(
        queries_ + query * work_.pairs, work_.keys.get() + key * work_.pairs,
        work_.pairs, scale_, work_.scores.get() + query * kBlockKeys + key);
  }

  void Weigh(int64_t query, int64_t begin, int64_t count) {
    float* const scores = work_.scores.get() + query * kBlockKeys;
    uint16_t* const weights = work_.weights.get() + query * kBlockKeys;
    QuerySums& sums = sums_[query];
    const float of_block = head_blocks::HideScores(
        tile_.invisible + query * tile_.invisible_stride + begin, count,
        scores);
    // A NaN makes all of the query's sums NaN.
    const float max =
        std::isnan(of_block) ? of_block : std::max(sums.max, of_block);
    if (max == kMinusInfinity) {
      std::fill_n(weights, count, 0);
      return;
    }
    const float added = head_blocks::WeighScores(scores, count, max, weights);
    if (sums.max != max) {
      const float by =
          _mm512_cvtss_f32(head_blocks::Exp(_mm512_set1_ps(sums.max - max)));
      head_blocks::Scale(by, work_.padded_width,
                         mixed_ + query * work_.padded_width);
      sums = {.max = max, .weights = sums.weights * by};
    }
    sums.weights += added;
  }

  template <int N>
  void Mix(int64_t query, int64_t count) {
    head_blocks::Mix<N>(work_.weights.get() + query * kBlockKeys,
                        work_.values.get(), work_.padded_width, count,
                        mixed_ + query * work_.padded_width);
  }

  const HeadTile& tile_;
  const float scale_;
  Workspace& work_;
  uint32_t* const queries_;
  float* const mixed_;
  QuerySums* const sums_;
};

void AttendTogether(const HeadKeys& head, absl::Span<const HeadTile> tiles,
                    Workspace& work) {
  std::vector<TileSums> sums;
  sums.reserve(tiles.size());
  int64_t end = 0;
  for (const HeadTile& tile : tiles) {
    sums.emplace_back(tile, sums.size(), head.scale, work);
    end = std::max(end, tile.key_count);
  }
  for (int64_t begin = 0; begin < end; begin += kBlockKeys) {
    const int64_t count = std::min(kBlockKeys, end - begin);
    head_blocks::PackKeys(Bits(head.keys.first) + begin * head.keys.stride,
                          head.keys.stride, count, work.width, work.keys.get());
    head_blocks::PackValues(
        Bits(head.values.first) + begin * head.values.stride,
        head.values.stride, count, work.width, work.values.get());
    for (size_t i = 0; i < tiles.size(); ++i) {
      const int64_t of_tile = std::min(count, tiles[i].key_count - begin);
      if (of_tile > 0) sums[i].Add(begin, of_tile);
    }
  }
  for (const TileSums& tile : sums) tile.Store();
}

}  // namespace

#pragma GCC pop_options

bool HasHeadKernel() {
  static const bool has = __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512bf16");
  return has;
}

void AttendHead(const HeadKeys& head, absl::Span<const HeadTile> tiles) {
  Workspace& work = WorkspaceFor(head.width);
  for (size_t i = 0; i < tiles.size(); i += kTilesTogether) {
    AttendTogether(head, tiles.subspan(i, kTilesTogether), work);
  }
}

}  // namespace phitap

#else

namespace phitap {

bool HasHeadKernel() { return false; }

void AttendHead(const HeadKeys&, absl::Span<const HeadTile>) {
  TORCH_CHECK(false, "this CPU does not multiply pairs of bfloat16 numbers");
}

}  // namespace phitap
#endif
