// SPDX-License-Identifier: Apache-2.0
#include "server/model/key_tiles.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>

#include "server/model/line_kernels.h"

namespace phitap {
namespace {

int64_t WholeTiles(int64_t line_count) {
  return TileCount(line_count) * kTileLines;
}

}  // namespace

void KeyTiles::Put(const at::Tensor& keys, const at::Tensor& values,
                   const LineRange& lines, const Visibility& visibility) {
  const int64_t end = lines.first_position + lines.count;
  // Fewer than before would leave the others' lines behind.
  TORCH_CHECK(lines.first_position <= end_ && end >= end_, "positions [",
              lines.first_position, ", ", end, ") do not follow ", end_);
  const int64_t needed_from =
      visibility.FirstKeyOfTile(lines.first_position / kTileLines);
  if (end - first_ > capacity()) {
    const int64_t needed = WholeTiles(end - needed_from);
    // A prompt gets what it needs, tokens one by one a little more each time.
    const int64_t grown =
        std::min(WholeTiles(capacity() + capacity() / 4),
                 visibility.MostKeysOfATile(TileCount(end) + 1));
    Move(needed_from, std::max(needed, grown), keys);
  }
  Write(keys, values, lines);
  end_ = end;
}

void KeyTiles::Reserve(int64_t end, const at::Tensor& keys) {
  if (end > room_end()) Move(first_, WholeTiles(end - first_), keys);
}

void KeyTiles::Lay(const KeyLines& lines, int64_t begin, int64_t end) {
  TORCH_CHECK(first_ <= begin && end <= room_end(), "no room for positions [",
              begin, ", ", end, ")");
  Write(lines.keys, lines.values, lines.Range(begin, end));
}

KeyLines KeyTiles::Lines() const {
  return {.keys = keys_.transpose(0, 1),
          .values = values_.transpose(0, 1),
          .first_position = first_};
}

void KeyTiles::Write(const at::Tensor& keys, const at::Tensor& values,
                     const LineRange& lines) {
  const auto put = [&](const at::Tensor& from, const at::Tensor& to) {
    return CopyToHeads(
        from, lines.first_line, lines.count,
        to.narrow(1, lines.first_position - first_, lines.count));
  };
  const std::vector<int64_t> bad_keys = put(keys, keys_);
  const std::vector<int64_t> bad_values = put(values, values_);
  std::vector<int64_t> bad;
  std::set_union(bad_keys.begin(), bad_keys.end(), bad_values.begin(),
                 bad_values.end(), std::back_inserter(bad));
  for (int64_t& line : bad) line += lines.first_position;
  const auto from = std::lower_bound(not_finite_.begin(), not_finite_.end(),
                                     lines.first_position);
  const auto to = std::lower_bound(from, not_finite_.end(),
                                   lines.first_position + lines.count);
  not_finite_.insert(not_finite_.erase(from, to), bad.begin(), bad.end());
}

void KeyTiles::Move(int64_t from, int64_t line_count, const at::Tensor& like) {
  const int64_t kept = std::max<int64_t>(0, end_ - from);
  for (at::Tensor* const lines : {&keys_, &values_}) {
    at::Tensor moved =
        at::zeros({like.size(1), line_count, like.size(2)}, like.options());
    if (kept > 0) {
      moved.narrow(1, 0, kept).copy_(lines->narrow(1, from - first_, kept));
    }
    *lines = std::move(moved);
  }
  first_ = from;
  not_finite_.erase(
      not_finite_.begin(),
      std::lower_bound(not_finite_.begin(), not_finite_.end(), from));
}

TileKeys KeyTiles::Of(int64_t tile, const Visibility& visibility) const {
  const int64_t begin = visibility.FirstKeyOfTile(tile);
  const int64_t count = (tile + 1) * kTileLines - begin;
  TileKeys of{.keys = keys_.narrow(1, begin - first_, count),
              .values = values_.narrow(1, begin - first_, count)};
  for (const int64_t position : not_finite_) {
    if (begin <= position && position < begin + count) {
      of.not_finite.push_back(position - begin);
    }
  }
  return of;
}

void KeyTiles::Trim(const Visibility& visibility) {
  const int64_t from = visibility.FirstKeyOfTile(end_ / kTileLines);
  const int64_t most = visibility.MostKeysOfATile(TileCount(end_) + 1);
  if (from == first_ || capacity() <= most) return;
  Move(from, most, keys_.transpose(0, 1));
}

int64_t KeyTiles::size_bytes() const {
  return keys_.defined()
             ? static_cast<int64_t>(keys_.nbytes() + values_.nbytes())
             : 0;
}

}  // namespace phitap
