// What a wave does at each hook point.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_VISIT_TABLE_H_
#define PHITAP_SERVER_TRACE_VISIT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"
#include "server/trace/pattern_capture.h"
#include "server/trace/row_pass.h"

namespace phitap {

// A part of a value that a node or a capture takes.
struct Watch {
  HookPoint point;
  std::shared_ptr<const ResolvedSelection> selection;
  // One of the two.
  int node = -1;
  const PlannedCapture* capture = nullptr;
  // Of the capture in this pass.
  int first_tensor = -1;
  // Only for scores and probabilities.
  std::unique_ptr<PatternCapture> pattern;
};

// What one row does at one hook point.
struct RowVisit {
  int row = 0;
  std::vector<Watch> before;
  // Indices into the plan, in the order in which they apply.
  std::vector<int> writes;
  std::vector<Watch> after;
  // The pass's own logits choose the next token.
  bool chooses_token = false;
};

// Made at a cost that depends on the passes alone, not on the rest of their
// plans. Thread-compatible.
class VisitTable {
 public:
  VisitTable(const ModelSpec& spec, absl::Span<const RowPass> passes);

  bool Wants(HookPoint point) const { return !visits_[IndexOf(point)].empty(); }
  // By row, ascending.
  std::vector<RowVisit>& At(HookPoint point) { return visits_[IndexOf(point)]; }
  const std::vector<RowVisit>& At(HookPoint point) const {
    return visits_[IndexOf(point)];
  }
  // How many captures a row makes.
  int capture_count(int row) const { return capture_counts_[row]; }

 private:
  static size_t IndexOf(HookPoint point) {
    return static_cast<size_t>(point.layer + 1) * kHookCount +
           static_cast<size_t>(point.hook);
  }
  void Add(int row, const RowPass& pass);
  // The row's visit, which is the last that was added there.
  RowVisit& VisitOf(int row, HookPoint point);

  std::vector<std::vector<RowVisit>> visits_;
  std::vector<int> capture_counts_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_VISIT_TABLE_H_
