// A wave under way: its forward, and where that fails the forwards of its
// parts. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_TRACE_WAVE_H_
#define PHITAP_SERVER_TRACE_TRACE_WAVE_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "server/model/phi3.h"
#include "server/plan/executor.h"
#include "server/trace/kept_roots.h"
#include "server/trace/wave_pass.h"

namespace phitap {

// One group's failure must not be its neighbours': where the whole forward
// fails, or a row that several runs take values from, the groups it concerns
// are computed again, each alone, in rows of their own. Model and roots outlive
// it.
class TraceWave final : public RunningWave {
 public:
  TraceWave(const Phi3& model, KeptRoots& roots, WavePlan plan);

  bool Step() override;
  std::vector<RowOutcome> Finish() override;
  std::vector<RootId> kept_roots() const override { return kept_roots_; }

 private:
  // One forward: of the whole wave, or of one group.
  struct Attempt {
    WavePlan plan;
    // Index in the wave of each of the plan's runs.
    std::vector<size_t> members;
    // Null before its first step.
    std::unique_ptr<WavePass> pass;
  };

  bool Step(Attempt& attempt) const;
  void Ended(Attempt attempt);
  void Failed(const Attempt& attempt, const absl::Status& status);
  // Has the groups of these runs of the attempt computed again; returns all
  // their runs.
  std::vector<size_t> TryAlone(const Attempt& attempt,
                               const std::vector<size_t>& runs);

  const Phi3& model_;
  KeptRoots& roots_;
  // Under way, first the next to be stepped.
  std::deque<Attempt> attempts_;
  // Whose forward has ended; none is changed before Finish.
  std::vector<Attempt> ended_;
  // By run of the wave.
  std::vector<absl::Status> failures_;
  std::vector<WaveRun> runs_;
  std::vector<RootId> kept_roots_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_TRACE_WAVE_H_
