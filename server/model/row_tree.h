// Where rows find what is their parents'.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_ROW_TREE_H_
#define PHITAP_SERVER_MODEL_ROW_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/model/forward.h"

namespace phitap {

// The row that has computed something: an index in the forward's rows, or what
// an earlier forward has left.
inline constexpr int kKeptRow = -1;

// Positions [begin, end) that one row has computed.
struct OwnedStretch {
  int owner = kKeptRow;
  int64_t begin = 0;
  int64_t end = 0;
};

// The rows of a forward and their parents. A view of the rows; cheap to copy.
class RowTree {
 public:
  explicit RowTree(absl::Span<const ForwardRow> rows) : rows_(rows) {}

  const ForwardRow& row(int index) const { return rows_[index]; }
  int64_t EndOf(int index) const;
  bool HasParent(int index) const;
  // The row without a parent above it, itself if it has none; kKeptRow under
  // states of an earlier forward.
  int RootOf(int index) const;
  // Those states; null where there are none.
  const RowStates* KeptRootOf(int index) const;

  // Who has computed the keys and values of the row's positions in `layer`, and
  // so the residual stream behind it: ascending, from position 0 to the row's
  // end. A row with a cache has all from position 0 on.
  std::vector<OwnedStretch> OwnersOf(int index, int layer) const;

  // Throws c10::Error unless parents come first, are one of two kinds, and go
  // as far as their children need.
  void Check() const;

 private:
  void CheckParent(int index) const;
  void CheckKept(int index) const;

  absl::Span<const ForwardRow> rows_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_ROW_TREE_H_
