// The captures of a wave at work inside a forward.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_TRACER_H_
#define PHITAP_SERVER_TRACE_TRACER_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "server/model/hooks.h"
#include "server/model/phi3.h"
#include "server/plan/executor.h"
#include "server/trace/pattern_capture.h"

namespace phitap {

// Shows each row only its own lines, delivers what its plan captures as soon as
// it is made, and drops rows that nobody waits for. Not thread-safe: one
// instance serves one forward; `model` and `rows` must outlive it.
class Tracer final : public Hooks {
 public:
  Tracer(const Phi3& model, absl::Span<const WaveRow> rows);

  bool Wants(HookPoint point) const override;
  at::Tensor Visit(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) override;
  bool WantsPattern(HookPoint point, const PatternBlock& block) const override;
  at::Tensor VisitPattern(HookPoint point, const PatternBlock& block,
                          at::Tensor value) override;
  std::vector<int> AfterLayer(int layer, const TokenLayout& layout) override;

  // Whether the row was dropped because nobody waits for it.
  bool Dropped(int row) const { return dropped_[row]; }
  // Whether every tensor of the row has been delivered.
  bool Complete(int row) const { return pending_[row] == 0; }

 private:
  struct Watch {
    int row = 0;
    const PlannedCapture* capture = nullptr;
    // Only for scores and probabilities.
    std::unique_ptr<PatternCapture> pattern;
  };

  size_t IndexOf(HookPoint point) const;
  const PlannedRun& RunOf(int row) const;
  // Reduces, casts and hands over one captured value.
  void Deliver(const Watch& watch, const at::Tensor& selected);

  const Phi3& model_;
  absl::Span<const WaveRow> rows_;
  // By hook point: see IndexOf.
  std::vector<std::vector<Watch>> watches_;
  std::vector<int> pending_;
  std::vector<bool> dropped_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_TRACER_H_
