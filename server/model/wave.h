// The rows of a forward, and which of their lines its matrices hold as it goes.
//
// A row's lines are its tokens. Rows stand deepest first, so that those that
// end with a layer are the last lines, and the rest go on without a copy; where
// rows join behind a layer, all are laid out anew.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_WAVE_H_
#define PHITAP_SERVER_MODEL_WAVE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "server/model/forward.h"
#include "server/model/hooks.h"
#include "server/model/row_tree.h"
#include "server/model/visibility.h"
#include "server/spec/model_spec.h"

namespace phitap {

// A row and how far it goes.
struct ActiveRow {
  // In the caller's list.
  int index = 0;
  const ForwardRow* ask = nullptr;
  int layer_count = 0;
  std::vector<int64_t> tail_positions;
  std::vector<int64_t> norm_positions;
  std::vector<int64_t> head_positions;

  int64_t token_count() const { return static_cast<int64_t>(ask->ids.size()); }
  // Its tokens are those at [first_position, end_position).
  int64_t first_position() const { return ask->first_position; }
  int64_t end_position() const { return first_position() + token_count(); }
};

// Lines of the residual stream that leave with their rows, for norm and head.
struct Departure {
  at::Tensor lines;  // [n, D]
  std::vector<ActiveRow> rows;
};

class Wave {
 public:
  enum class Positions {
    kAsAsked,
    // All where any is asked for: transformers computes nothing less.
    kAllOrNone,
  };
  struct Options {
    // Matrices have a multiple of so many lines; zeros fill them up.
    int64_t line_multiple = 1;
    Positions positions = Positions::kAsAsked;
  };

  // `indices` are the rows of the caller's list that take part, ascending.
  Wave(absl::Span<const ForwardRow> rows, const std::vector<int>& indices,
       const Options& options);

  // Rows under way, in the order of their lines.
  const std::vector<ActiveRow>& rows() const { return rows_; }
  bool empty() const { return rows_.empty(); }
  // Rows that join behind a later layer.
  const std::vector<ActiveRow>& waiting() const { return waiting_; }
  const RowTree& tree() const { return tree_; }
  // After the last position of any row, under way or waiting.
  int64_t last_end() const;

  // Whose lines the matrices hold now; its rows are rows()'s.
  const TokenLayout& layout() const { return layout_; }
  // With the padding.
  int64_t line_count() const { return PaddedCount(layout_); }

  // Of the layer under way: the lines that go on once it has keys and values.
  const TokenLayout& tail() const { return tail_; }
  int64_t tail_line_count() const { return PaddedCount(tail_); }

  // `layer` is next.
  void BeginLayer(int layer);
  // From here on the matrices hold the tail: returns x's lines of it, x itself
  // where that is all.
  at::Tensor EnterTail(const at::Tensor& x);

  // Rows that begin behind `layer` join, with their parents' lines of x [T, D],
  // which has the tail's; returns x with theirs.
  at::Tensor Join(int layer, const at::Tensor& x);

  // Ends `layer`, or with −1 the embeddings: rows that it was the last for
  // leave with the lines of `x` that norm and head need, rows `dropped`, under
  // way or waiting, leave with nothing. Narrows `x` to the lines that stay.
  Departure EndLayer(int layer, const std::vector<int>& dropped, at::Tensor& x);

  // So many lines and the padding.
  int64_t Padded(int64_t line_count) const;

 private:
  int64_t PaddedCount(const TokenLayout& layout) const;
  // Moves the rows that begin behind `layer` to those under way.
  bool TakeIn(int layer);
  void Keep(const std::vector<bool>& stays, at::Tensor& x);
  void CheckParents() const;

  Options options_;
  RowTree tree_;
  std::vector<ActiveRow> rows_;
  std::vector<ActiveRow> waiting_;
  std::vector<bool> dropped_;  // by the caller's index
  TokenLayout layout_;
  TokenLayout tail_;
  // The line in the layer's first layout of each line of the tail; unset where
  // they are the same.
  std::optional<std::vector<int64_t>> tail_lines_;
};

// One line for each position of each row, rows without positions included.
struct RowPositions {
  int row = 0;
  const std::vector<int64_t>* positions = nullptr;
};
TokenLayout LayOut(const std::vector<RowPositions>& rows);

int64_t LineCount(const TokenLayout& layout);

// The lines in `from` of every line of `to`, whose rows are among from's, in
// the same order.
std::vector<int64_t> LinesOf(const TokenLayout& to, const TokenLayout& from);

// What its queries see.
Visibility VisibilityOf(const ActiveRow& row, const ModelSpec& spec);

// The line of `position`, which the row has.
int64_t LineOf(const TokenLayout::Row& row, int64_t position);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_WAVE_H_
