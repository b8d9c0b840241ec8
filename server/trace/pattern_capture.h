// Gathers attention scores or probabilities that come block by block into the
// value that a capture asks for. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_PATTERN_CAPTURE_H_
#define PHITAP_SERVER_TRACE_PATTERN_CAPTURE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "server/model/hooks.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Thread-compatible.
class PatternCapture {
 public:
  // `selection` must outlive it. `token_count` is the prompt's, or that of all
  // positions so far.
  PatternCapture(Hook hook, const ResolvedSelection& selection,
                 int64_t token_count);

  // Whether any query of the block is asked for and not there yet.
  bool Wants(const PatternBlock& block) const;
  // Takes the block's part of `value` [H, queries, keys].
  void Add(const PatternBlock& block, const at::Tensor& value);
  // Whether every query asked for is there.
  bool Complete() const { return missing_ == 0; }
  // [heads, queries, keys] as selected.
  at::Tensor Take() { return std::move(gathered_); }

 private:
  // The selected heads and keys of `part` [H, queries, keys seen]; keys that
  // were not seen may be left out at the end.
  at::Tensor SelectHeadsAndKeys(at::Tensor part) const;

  const ResolvedSelection& selection_;
  // What an entry is that its query cannot see: −∞ for scores, 0 for
  // probabilities.
  const double invisible_;
  const int64_t token_count_;
  // Line of `gathered_` that each query of the prompt goes to; −1 where it is
  // not asked for, or there already.
  std::vector<int64_t> line_of_query_;
  int64_t missing_ = 0;
  at::Tensor gathered_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_PATTERN_CAPTURE_H_
