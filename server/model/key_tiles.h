// Keys and values of one row in one layer, in whole tiles.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_KEY_TILES_H_
#define PHITAP_SERVER_MODEL_KEY_TILES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "server/model/visibility.h"

namespace phitap {

// Lines of a wave's matrix that hold consecutive positions of a row.
struct LineRange {
  int64_t first_line = 0;
  int64_t first_position = 0;
  int64_t count = 0;
};

// Keys and values of consecutive positions of a row, wherever they lie.
struct KeyLines {
  at::Tensor keys;    // [T, KV, E]
  at::Tensor values;  // [T, KV, E]
  // Position p is line first_line + p − first_position.
  int64_t first_line = 0;
  int64_t first_position = 0;

  LineRange Range(int64_t begin, int64_t end) const {
    return {.first_line = first_line + begin - first_position,
            .first_position = begin,
            .count = end - begin};
  }
};

// The keys and values that one tile's queries may see.
struct TileKeys {
  at::Tensor keys;    // [KV, keys of the tile, E]
  at::Tensor values;  // [KV, keys of the tile, E]
  // Keys of the tile whose key or value has a NaN or an infinity, ascending,
  // counted from the tile's first.
  std::vector<int64_t> not_finite;
};

// Positions up to the last tile's end that were not put are zero. Under a
// window, tiles that no later query sees are dropped as room is needed. A copy
// shares the buffers. Not thread-safe.
class KeyTiles {
 public:
  // Puts the lines of `keys` and `values` [T, KV, E] at their positions, which
  // follow those that it has or take the place of the last ones.
  void Put(const at::Tensor& keys, const at::Tensor& values,
           const LineRange& lines, const Visibility& visibility);

  // Makes room for the positions [0, end) in advance, of keys like these.
  void Reserve(int64_t end, const at::Tensor& keys);

  // Writes lines over what there is at their positions, for which there is
  // room; end() stays.
  void Lay(const KeyLines& lines, int64_t begin, int64_t end);

  // All that it has, as lines: views of the buffers.
  KeyLines Lines() const;

  // Views of the buffers.
  TileKeys Of(int64_t tile, const Visibility& visibility) const;

  // Gives back what queries from the end on do not need, where it is much.
  void Trim(const Visibility& visibility);

  // After the last position.
  int64_t end() const { return end_; }
  // After the last position that there is room for.
  int64_t room_end() const { return first_ + capacity(); }
  int64_t size_bytes() const;

 private:
  int64_t capacity() const { return keys_.defined() ? keys_.size(1) : 0; }
  // Copies lines to their positions; none of the others changes.
  void Write(const at::Tensor& keys, const at::Tensor& values,
             const LineRange& lines);
  // Makes room for positions [from, end), and forgets those before `from`.
  void Move(int64_t from, int64_t line_count, const at::Tensor& like);

  at::Tensor keys_;    // [KV, 32n, E]
  at::Tensor values_;  // [KV, 32n, E]
  int64_t first_ = 0;  // position of the buffers' first line
  int64_t end_ = 0;
  std::vector<int64_t> not_finite_;  // positions, ascending
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_KEY_TILES_H_
