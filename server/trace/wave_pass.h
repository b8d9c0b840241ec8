// One forward of a wave, and what its rows come to.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_WAVE_PASS_H_
#define PHITAP_SERVER_TRACE_WAVE_PASS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/model/phi3.h"
#include "server/plan/executor.h"
#include "server/trace/node_values.h"
#include "server/trace/row_pass.h"
#include "server/trace/tracer.h"

namespace phitap {

// The next pass of each row, together. The memories change only in Finish, so a
// wave that failed can be taken apart and run again. Not thread-safe; model and
// rows outlive it.
class WavePass {
 public:
  WavePass(const Phi3& model, absl::Span<const WaveRun> rows);

  // Not OK where the whole forward failed, no row's fault: then nothing is to
  // be finished.
  absl::Status Forward();
  // Keeps what the rows that ended well have made, chooses their next tokens
  // and delivers the tensors that are complete.
  std::vector<RowOutcome> Finish();

 private:
  NodeValues& ValuesOf(const WaveRun& row);
  absl::Status StatusOf(size_t row) const;
  RowOutcome Finish(size_t row);
  absl::Status Keep(const RowPass& pass);
  absl::Status Advance(const RowPass& pass, const at::Tensor& logits,
                       RowOutcome& outcome) const;

  const Phi3& model_;
  // One for each request in the wave.
  std::vector<std::unique_ptr<NodeValues>> values_;
  std::vector<RowPass> passes_;
  std::unique_ptr<Tracer> tracer_;
};

// A gradient pass of one row: fills in its gradients.
RowOutcome RunGradientPass(const Phi3& model, const WaveRun& row);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_WAVE_PASS_H_
