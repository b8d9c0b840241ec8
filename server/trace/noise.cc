// SPDX-License-Identifier: Apache-2.0
#include "server/trace/noise.h"

#include <ATen/ops/empty.h>

#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

#include "server/spec/dimension.h"
#include "server/trace/philox.h"

namespace phitap {
namespace {

// Elements that one call of the generator makes.
constexpr int64_t kBlock = 4;

using Words = std::array<uint32_t, kBlock>;
using Normals = std::array<float, kBlock>;

// A point's number: layers count from −1.
uint32_t PointWord(HookPoint point) {
  return static_cast<uint32_t>(point.layer + 1) * kHookCount +
         static_cast<uint32_t>(point.hook);
}

// Box and Muller: √(−2 ln u) · (cos 2πv, sin 2πv) for u in (0, 1], v in [0, 1).
void FillPair(uint32_t u, uint32_t v, float* out) {
  const double radius = std::sqrt(-2.0 * std::log((u + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * (v * 0x1p-32);
  out[0] = static_cast<float>(radius * std::cos(angle));
  out[1] = static_cast<float>(radius * std::sin(angle));
}

// The normals of one position and head, a block of columns at a time.
class Line {
 public:
  Line(const NoisePlace& place, int64_t position, int64_t head)
      : key_{static_cast<uint32_t>(place.seed),
             static_cast<uint32_t>(place.seed >> 32)},
        counter_{0, static_cast<uint32_t>(head),
                 static_cast<uint32_t>(position), PointWord(place.point)} {}

  float At(int64_t column) {
    if (column / kBlock != block_) Fill(column / kBlock);
    return normals_[column % kBlock];
  }

 private:
  void Fill(int64_t block) {
    block_ = block;
    counter_[0] = static_cast<uint32_t>(block);
    const Words words = Philox4x32(counter_, key_);
    FillPair(words[0], words[1], &normals_[0]);
    FillPair(words[2], words[3], &normals_[2]);
  }

  std::array<uint32_t, 2> key_;
  Words counter_;
  Normals normals_ = {};
  int64_t block_ = -1;
};

enum class Axis { kPositions, kHeads, kColumns };

Axis AxisOf(Dimension dimension) {
  switch (dimension) {
    case Dimension::kSeq:
    case Dimension::kQuery:
      return Axis::kPositions;
    case Dimension::kNumHeads:
    case Dimension::kNumKvHeads:
      return Axis::kHeads;
    default:
      return Axis::kColumns;
  }
}

bool HeadsComeFirst(Hook hook) {
  return AxisOf(EntryOf(hook).dimensions.front()) == Axis::kHeads;
}

std::vector<int64_t> ShapeOf(const NoisePlace& place) {
  std::vector<int64_t> shape;
  for (const Dimension dimension : EntryOf(place.point.hook).dimensions) {
    const Axis axis = AxisOf(dimension);
    const auto& indices = axis == Axis::kPositions ? place.positions
                          : axis == Axis::kHeads   ? place.heads
                                                   : place.columns;
    shape.push_back(static_cast<int64_t>(indices.size()));
  }
  return shape;
}

std::vector<int64_t> AllOf(int64_t count) {
  std::vector<int64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

NoisePlace PlaceOf(uint64_t seed, HookPoint point,
                   const ResolvedSelection& selection, const ModelSpec& spec,
                   int64_t token_count) {
  NoisePlace place{.seed = seed,
                   .point = point,
                   .positions = {0},
                   .heads = {0},
                   .columns = {0}};
  for (const Dimension dimension : EntryOf(point.hook).dimensions) {
    const std::vector<int64_t> all =
        AllOf(SizeOf(dimension, spec, token_count));
    switch (AxisOf(dimension)) {
      case Axis::kPositions:
        place.positions = (dimension == Dimension::kQuery ? selection.queries
                                                          : selection.positions)
                              .value_or(all);
        break;
      case Axis::kHeads:
        place.heads = selection.heads.value_or(all);
        break;
      case Axis::kColumns:
        place.columns =
            (dimension == Dimension::kKey ? selection.keys : selection.features)
                .value_or(all);
        break;
    }
  }
  return place;
}

at::Tensor StandardNormal(const NoisePlace& place) {
  at::Tensor normals = at::empty(ShapeOf(place), at::TensorOptions(at::kFloat));
  float* out = normals.mutable_data_ptr<float>();
  const auto fill = [&](int64_t position, int64_t head) {
    Line line(place, position, head);
    for (const int64_t column : place.columns) *out++ = line.At(column);
  };
  if (HeadsComeFirst(place.point.hook)) {
    for (const int64_t head : place.heads) {
      for (const int64_t position : place.positions) fill(position, head);
    }
    return normals;
  }
  for (const int64_t position : place.positions) {
    for (const int64_t head : place.heads) fill(position, head);
  }
  return normals;
}

}  // namespace phitap
