// How much of a wave is still to be computed.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_WAVE_WORK_H_
#define PHITAP_SERVER_SCHEDULE_WAVE_WORK_H_

#include <cstdint>
#include <vector>

#include "server/plan/executor.h"
#include "server/schedule/group_order.h"

namespace phitap {

// In token-layers, counted as if nothing were dropped. Thread-compatible.
class WaveWork {
 public:
  WaveWork() = default;
  // Of the plan's rows, and of its runs that have none.
  WaveWork(const WavePlan& plan, PassPhase phase);

  // A step was made: the next layer.
  void StepDone();
  int64_t token_layers() const { return all_; }
  // Of the layers to come; 0 once all have been stepped through.
  int64_t token_layers_left() const { return left_; }
  int64_t layers_left() const;

 private:
  void Add(int first_layer, int layer_count, int64_t tokens);

  // Of each layer.
  std::vector<int64_t> tokens_;
  int64_t all_ = 0;
  int64_t left_ = 0;
  int steps_done_ = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_WAVE_WORK_H_
