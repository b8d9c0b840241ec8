// One forward of a wave, and what its runs come to.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_WAVE_PASS_H_
#define PHITAP_SERVER_TRACE_WAVE_PASS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "server/model/forward.h"
#include "server/model/phi3.h"
#include "server/plan/executor.h"
#include "server/trace/kept_roots.h"
#include "server/trace/node_values.h"
#include "server/trace/row_pass.h"
#include "server/trace/run_pass.h"
#include "server/trace/tracer.h"

namespace phitap {

// The next pass of each run, together. The memories change only in Finish, so a
// wave that failed can be taken apart and run again. Not thread-safe; model,
// plan and roots outlive it.
class WavePass {
 public:
  // Throws c10::Error, and Step too, where the whole forward fails, no run's
  // fault: then nothing is to be finished.
  WavePass(const Phi3& model, const WavePlan& plan, KeptRoots& roots);

  // Computes a layer. Returns whether there is more.
  bool Step();

  // Whether the run failed for want of a row that it shares with others: alone
  // it may end well.
  bool MustRunAgain(size_t run) const {
    return tracer_.progress().MustRunAgain(static_cast<int>(run));
  }
  // Keeps nothing of the run, which is run again.
  void Withdraw(size_t run) { withdrawn_[run] = true; }
  // Keeps what the runs that ended well have made, chooses their next tokens
  // and delivers the tensors that are complete. The outcomes of runs that were
  // withdrawn mean nothing.
  std::vector<RowOutcome> Finish();
  // Keeps the rows that are to be kept and that ended well; returns them.
  std::vector<RootId> KeepRoots();

 private:
  // The requests in the wave.
  using AllValues = std::vector<std::unique_ptr<NodeValues>>;
  static AllValues ValuesOf(const Phi3& model, const WavePlan& plan);
  std::vector<RunPass> PassesOf(const WavePlan& plan) const;
  std::vector<ForwardRow> ForwardRows() const;

  absl::Status StatusOf(size_t run) const;
  RowOutcome Finish(size_t run);
  absl::Status Keep(const RunPass& pass);
  absl::Status Advance(const RunPass& pass, const at::Tensor& logits,
                       RowOutcome& outcome) const;

  KeptRoots& roots_;
  const AllValues values_;
  const std::vector<RunPass> runs_;
  const PassRows rows_;
  Tracer tracer_;
  const std::vector<ForwardRow> forward_rows_;
  // Null once it has come to its end, and where there is nothing to compute.
  std::unique_ptr<SteppedForward> forward_;
  std::vector<bool> withdrawn_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_WAVE_PASS_H_
