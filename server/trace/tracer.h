// The reads, writes and captures of a wave at work inside a forward.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_TRACER_H_
#define PHITAP_SERVER_TRACE_TRACER_H_

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/model/hooks.h"
#include "server/model/phi3.h"
#include "server/trace/edit.h"
#include "server/trace/row_pass.h"
#include "server/trace/visit_table.h"

namespace phitap {

// Shows each row only its own lines. At every hook point all rows' BEFORE reads
// and captures come first; then, row by row, its writes in order and its AFTER
// reads and captures, a row whose write needs another row's AFTER read after
// that row. Captures are delivered as they are made. A row whose edit or
// capture throws fails alone, and so do those that need what it did not get to;
// rows that nobody waits for are dropped. Not thread-safe: one instance serves
// one forward; `model` and `passes` must outlive it.
class Tracer final : public Hooks {
 public:
  Tracer(const Phi3& model, absl::Span<const RowPass> passes);

  bool Wants(HookPoint point) const override { return table_.Wants(point); }
  at::Tensor Visit(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) override;
  bool WantsPattern(HookPoint point, const PatternBlock& block) const override;
  at::Tensor VisitPattern(HookPoint point, const PatternBlock& block,
                          at::Tensor value) override;
  std::vector<int> AfterLayer(int layer, const TokenLayout& layout) override;

  // Why the row failed, if it did: CANCELLED where nobody waits for it.
  const absl::Status& status(int row) const { return statuses_[row]; }
  // Whether every capture of the row has been made.
  bool Complete(int row) const { return captures_left_[row] == 0; }
  // Of the row's last position [V], where it generates; undefined before.
  const at::Tensor& logits(int row) const { return logits_[row]; }

 private:
  // One value on its way through the rows.
  struct PointVisit {
    std::vector<RowVisit>& visits;
    EditedMatrix matrix;
    // By visit: the row's lines, null where it has none here or is done.
    std::vector<const TokenLayout::Row*> waiting;
  };

  PointVisit Begin(HookPoint point, at::Tensor value,
                   const TokenLayout& layout);
  // Takes the visit, and before it those that it depends on.
  void TakeInOrder(PointVisit& point, size_t visit);
  // A visit that is waiting and that must come before this one; −1 for none.
  int SoonerThan(const PointVisit& point, size_t visit) const;
  void Take(PointVisit& point, size_t visit);
  void Apply(int write, const RowPass& pass, const TokenLayout::Row& lines,
             EditedMatrix& matrix) const;
  void Apply(int write, const RowPass& pass, const PatternBlock& block,
             EditedPattern& pattern) const;

  void Watched(const Watch& watch, int row, const at::Tensor& selected);
  void WatchBlock(std::vector<Watch>& watches, const PatternBlock& block,
                  const at::Tensor& value);
  // Reduces, casts and hands over one captured value.
  void Deliver(const Watch& watch, int row, const at::Tensor& selected);

  // Does the row's work unless the row has failed; it fails if that throws.
  void ForRow(int row, absl::FunctionRef<void()> work);
  // Whether the writes have what they need; if not, the row fails.
  bool HasInputs(int row, absl::Span<const int> writes);
  absl::Status WhyMissing(int row, int read) const;

  const Phi3& model_;
  absl::Span<const RowPass> passes_;
  VisitTable table_;
  absl::flat_hash_map<std::pair<const RequestMemory*, int>, int> row_of_run_;
  std::vector<int> captures_left_;
  std::vector<at::Tensor> logits_;
  std::vector<absl::Status> statuses_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_TRACER_H_
