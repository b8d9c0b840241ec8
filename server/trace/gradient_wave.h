// A wave that fills in the gradients of one run.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_GRADIENT_WAVE_H_
#define PHITAP_SERVER_TRACE_GRADIENT_WAVE_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "server/model/phi3.h"
#include "server/plan/executor.h"
#include "server/trace/request_memory.h"

namespace phitap {

// The forward of the run's gradient pass, recorded, and the pass back through
// it, in one step. The model outlives it.
class GradientWave final : public RunningWave {
 public:
  GradientWave(const Phi3& model, WaveRun run);

  bool Step() override;
  std::vector<RowOutcome> Finish() override;
  std::vector<RootId> kept_roots() const override { return {}; }

 private:
  RequestMemory& memory() const;
  const GradientPass& planned() const;
  absl::Status Compute();
  absl::Status Keep();

  const Phi3& model_;
  const WaveRun run_;
  absl::Status status_;
  // In the order of GradientPass::gradients.
  std::vector<at::Tensor> gradients_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_GRADIENT_WAVE_H_
