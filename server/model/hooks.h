// Places where the forward shows its values.
//
// T tokens of all rows of a wave, one after another; D hidden size, H heads, KV
// key/value heads, E head size, F MLP width, V vocabulary, R rotary dimensions.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_HOOKS_H_
#define PHITAP_SERVER_MODEL_HOOKS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "server/spec/hook_point.h"

namespace phitap {

// Which token each line of a [T, ...] matrix is. Rows (runs) stand one after
// another; lines past the last row are padding.
struct TokenLayout {
  struct Row {
    // Index of the row in the wave.
    int row = 0;
    // First line of the row in the matrix.
    int64_t begin = 0;
    // The prompt's positions that its lines hold, ascending.
    std::vector<int64_t> positions;
    // Whether `positions` is first, first + 1, …
    bool contiguous = true;
  };
  std::vector<Row> rows;
};

// Attention scores or probabilities of one row: a block of queries, of the
// positions that the row computes, against keys 0, 1, …; keys past the block's
// are invisible to it.
struct PatternBlock {
  int row = 0;
  int64_t first_query = 0;
  // Queries of the block that are the row's (the rest, if any, are dummies).
  int64_t query_count = 0;
};

// Sees, and may replace, each value the model computes. Not thread-safe: one
// instance serves one forward pass.
//
// Values are as the model has them, token-major: [T, ...] in the order of the
// hook-point table, with heads split where the table splits them (queries
// [T, H, E]; keys, values [T, KV, E]; head outputs and premix [T, H, E]). Of
// what a run has one of, the layout has a line a row: input_size [rows, 2], at
// position 0, and next_token_probs [rows, V], at the last position. A row that
// goes on from a cache, or has a parent, shows its own positions and layers,
// and them only (layer_output of layer first_layer − 1 included): its
// input_size is [1, tokens of the row], as if the others were not there.
class Hooks {
 public:
  virtual ~Hooks() = default;

  // Whether Visit wants this hook point in any row. Asked before a value that
  // only the hooks need is made.
  virtual bool Wants(HookPoint point) const = 0;
  // Returns the value that the model goes on with: `value` itself if unchanged,
  // else one of the same shape, dtype and strides. Called in forward order,
  // only where Wants. `value` may be a view; what is kept of it must not be
  // written.
  virtual at::Tensor Visit(HookPoint point, at::Tensor value,
                           const TokenLayout& layout) = 0;

  // The same for scores and probabilities, block by block: `value` [H, queries,
  // keys]. Invisible entries are already −∞ or 0.
  virtual bool WantsPattern(HookPoint point,
                            const PatternBlock& block) const = 0;
  virtual at::Tensor VisitPattern(HookPoint point, const PatternBlock& block,
                                  at::Tensor value) = 0;

  // Called after each layer with the rows that computed it or begin behind it
  // (see ForwardRow::first_layer); returns the rows that nobody waits for any
  // more, those that have not begun included: they are dropped, and cost
  // nothing from there on. A row must not be dropped before the rows that have
  // it as parent, unless they begin at position 0 and have begun.
  virtual std::vector<int> AfterLayer(int layer, const TokenLayout& layout) = 0;
};

// Wants nothing.
class NoHooks final : public Hooks {
 public:
  bool Wants(HookPoint) const override { return false; }
  at::Tensor Visit(HookPoint, at::Tensor value, const TokenLayout&) override {
    return value;
  }
  bool WantsPattern(HookPoint, const PatternBlock&) const override {
    return false;
  }
  at::Tensor VisitPattern(HookPoint, const PatternBlock&,
                          at::Tensor value) override {
    return value;
  }
  std::vector<int> AfterLayer(int, const TokenLayout&) override { return {}; }
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_HOOKS_H_
