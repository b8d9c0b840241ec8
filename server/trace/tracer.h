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
#include "server/trace/apply_write.h"
#include "server/trace/edit.h"
#include "server/trace/row_pass.h"
#include "server/trace/run_pass.h"
#include "server/trace/visit_table.h"
#include "server/trace/wave_progress.h"

namespace phitap {

// Shows each run only its own values, wherever they are computed. At every hook
// point all BEFORE reads and captures come first; then, row by row, its writes
// in order and the AFTER reads and captures that it has part in, a row whose
// write needs a run's AFTER read after the rows that show it. Captures are
// delivered as they are made. A run whose edit or capture throws fails alone,
// and so do those that need what it did not get to; see WaveProgress for rows
// that several runs have. Not thread-safe: one instance serves one forward;
// `model`, `runs` and `rows` must outlive it.
class Tracer final : public Hooks {
 public:
  Tracer(const Phi3& model, absl::Span<const RunPass> runs,
         const PassRows& rows);

  bool Wants(HookPoint point) const override { return table_.Wants(point); }
  at::Tensor Visit(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) override;
  bool WantsPattern(HookPoint point, const PatternBlock& block) const override;
  at::Tensor VisitPattern(HookPoint point, const PatternBlock& block,
                          at::Tensor value) override;
  std::vector<int> AfterLayer(int layer, const TokenLayout& layout) override {
    return progress_.AfterLayer(layer, layout);
  }
  // Called where the forward has come to its end.
  void AfterForward() { progress_.AfterForward(); }

  const WaveProgress& progress() const { return progress_; }
  // Whether every capture of the run has been made.
  bool Complete(int run) const { return captures_left_[run] == 0; }
  // Of the run's last position [V], where it generates; undefined before.
  const at::Tensor& logits(int run) const { return logits_[run]; }

 private:
  // One value on its way through the rows.
  struct PointVisit {
    const std::vector<RowVisit>& visits;
    EditedMatrix matrix;
    // By visit: lines of the row, or of the one that it has given way to; null
    // where it has none here or is done.
    std::vector<const TokenLayout::Row*> waiting;
  };

  PointVisit Begin(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) const;
  // Takes the visit, and before it those that it depends on.
  void TakeInOrder(PointVisit& point, size_t visit);
  // A visit that is waiting and that must come before this one; −1 for none.
  int SoonerThan(const PointVisit& point, size_t visit) const;
  void Take(PointVisit& point, size_t visit);
  // Takes the logits of the run's last position, if they are there.
  void Choose(int run, const TokenLayout::Row& lines, const at::Tensor& logits);

  // Makes the row's writes there; `apply` makes one. The row fails where that
  // throws, or where a write has not what it needs.
  void Write(
      const RowVisit& visit,
      absl::FunctionRef<bool(const PlannedWrite&, const WriteScope&)> apply);
  // Why the write cannot be made yet.
  absl::Status InputStatus(int write, NodeValues& values) const;
  absl::Status WhyMissing(NodeValues& values, int read) const;

  void Show(const RowWatch& watch, const TokenLayout::Row& lines,
            const at::Tensor& value);
  void Show(const std::vector<RowWatch>& watches, const PatternBlock& block,
            const at::Tensor& value);
  // Indices in the table of the visits of a row there, and of those that have
  // given way to it, as far as they are needed; its own first.
  std::vector<int> VisitsOf(HookPoint point, int row) const;

  void Watched(const Watch& watch, const at::Tensor& selected);
  // Does the run's work unless the run has failed; it fails if that throws.
  void ForRun(int run, absl::FunctionRef<void()> work);

  const Phi3& model_;
  const absl::Span<const RunPass> runs_;
  const PassRows& rows_;
  const VisitTable table_;
  WaveProgress progress_;
  absl::flat_hash_map<std::pair<const RequestMemory*, int>, int> pass_of_run_;
  std::vector<int> captures_left_;
  std::vector<at::Tensor> logits_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_TRACER_H_
