// Hooks that keep a copy of everything a forward shows.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_RECORDING_HOOKS_H_
#define PHITAP_TESTS_SUPPORT_RECORDING_HOOKS_H_

#include <ATen/ATen.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "server/model/hooks.h"

namespace phitap {

// What was shown of one row at one hook point.
struct Recorded {
  // Of its first dimension; of the queries for scores and probabilities.
  std::vector<int64_t> positions;
  at::Tensor value;
};

class RecordingHooks : public Hooks {
 public:
  struct Key {
    int row = 0;
    Hook hook = Hook::kInputIds;
    int layer = -1;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  // Records the hooks that `wants` says, of rows with so many tokens.
  RecordingHooks(std::vector<int64_t> token_counts,
                 std::function<bool(Hook)> wants)
      : token_counts_(std::move(token_counts)), wants_(std::move(wants)) {}

  const std::map<Key, Recorded>& records() const { return records_; }

  bool Wants(HookPoint point) const override { return wants_(point.hook); }

  at::Tensor Visit(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) override {
    for (const TokenLayout::Row& row : layout.rows) {
      if (row.positions.empty()) continue;
      const auto count = static_cast<int64_t>(row.positions.size());
      records_[{row.row, point.hook, point.layer}] = {
          row.positions, value.narrow(0, row.begin, count)
                             .clone(at::MemoryFormat::Contiguous)};
    }
    return value;
  }

  bool WantsPattern(HookPoint point, const PatternBlock&) const override {
    return wants_(point.hook);
  }

  // Puts the blocks together to [H, queries, keys of the prompt].
  at::Tensor VisitPattern(HookPoint point, const PatternBlock& block,
                          at::Tensor value) override {
    const int64_t token_count = token_counts_[block.row];
    Recorded& record = records_[{block.row, point.hook, point.layer}];
    const double unseen = point.hook == Hook::kAttentionScores
                              ? -std::numeric_limits<double>::infinity()
                              : 0.0;
    at::Tensor whole = at::full({value.size(0), block.query_count, token_count},
                                unseen, value.options());
    const int64_t key_count = std::min(token_count, value.size(2));
    whole.narrow(2, 0, key_count)
        .copy_(value.narrow(1, 0, block.query_count).narrow(2, 0, key_count));
    record.value =
        record.value.defined() ? at::cat({record.value, whole}, 1) : whole;
    for (int64_t i = 0; i < block.query_count; ++i) {
      record.positions.push_back(block.first_query + i);
    }
    return value;
  }

  std::vector<int> AfterLayer(int, const TokenLayout&) override { return {}; }

 private:
  std::vector<int64_t> token_counts_;
  std::function<bool(Hook)> wants_;
  std::map<Key, Recorded> records_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_RECORDING_HOOKS_H_
