// Collects passes of one wave from the requests of several callers.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_WAVE_BUILDER_H_
#define PHITAP_SERVER_SCHEDULE_WAVE_BUILDER_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "server/schedule/accepted_trace.h"
#include "server/schedule/group_order.h"

namespace phitap {

// What a wave may take at most.
struct WaveLimits {
  // A pass of more goes alone.
  int64_t max_tokens = std::numeric_limits<int64_t>::max();
  int64_t max_joined_bytes = std::numeric_limits<int64_t>::max();
  // These no pass exceeds.
  int64_t max_token_layers = std::numeric_limits<int64_t>::max();
  int64_t max_workspace_bytes = std::numeric_limits<int64_t>::max();
};

// A caller's requests of which something is ready, in the order in which they
// take turns.
using CallersTraces = std::deque<std::shared_ptr<AcceptedTrace>>;

// Puts `trace` behind those of at least its priority.
void InsertByPriority(std::shared_ptr<AcceptedTrace> trace,
                      CallersTraces& traces);

// The pass that is taken first leads: it decides of which model, numerics,
// attention and phase the others are. Passes in kTransformers and gradients go
// alone; those of an `isolate` request only with its own. Thread-compatible.
class WaveBuilder {
 public:
  explicit WaveBuilder(WaveLimits limits) : limits_(limits) {}

  // `traces` may take part.
  void Offer(const std::string& caller, CallersTraces traces);
  // Token-layers of the pass that Take would take; none if nothing of the
  // caller's fits, now or later.
  std::optional<int64_t> CostOf(const std::string& caller);
  // Takes that pass. The caller's other requests of the same priority come
  // before the next of this one.
  void Take(const std::string& caller);

  GatheredWave Build() && { return std::move(wave_); }

 private:
  // Of a pass of `trace` that fits.
  std::optional<PassPhase> PhaseThatFits(const AcceptedTrace& trace) const;
  bool MayJoin(const AcceptedTrace& trace, PassPhase phase) const;
  bool Fits(const PassSize& size) const;
  int CountOf(const AcceptedTrace& trace) const;
  PassSize SizeOf(const AcceptedTrace& trace, PassPhase phase) const;

  const WaveLimits limits_;
  std::map<std::string, CallersTraces> offered_;
  // Runs of each request in the wave.
  std::map<const AcceptedTrace*, int> run_counts_;
  GatheredWave wave_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_WAVE_BUILDER_H_
