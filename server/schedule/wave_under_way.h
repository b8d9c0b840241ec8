// One wave from its start to what becomes of its runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_WAVE_UNDER_WAY_H_
#define PHITAP_SERVER_SCHEDULE_WAVE_UNDER_WAY_H_

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/plan/executor.h"
#include "server/schedule/accepted_trace.h"
#include "server/schedule/retry_pace.h"
#include "server/schedule/rows/row_planner.h"
#include "server/schedule/wave_metrics.h"
#include "server/schedule/wave_work.h"

namespace phitap {

// What waves are run with. All outlive the waves.
struct WaveParts {
  // Of all executors.
  RowPlanner* rows = nullptr;
  const Clock* clock = nullptr;
  // Is told when requests end.
  RetryPace* pace = nullptr;
  // Of the executor's model.
  WaveMetrics* metrics = nullptr;
};

// On the compute thread; every wave is ended once before it is destroyed.
class WaveUnderWay {
 public:
  // Starts it. Requests whose first wave it is begin now.
  WaveUnderWay(GatheredWave wave, const WaveParts& parts);

  // Computes the next layer. Returns whether there is more to compute.
  bool Step();
  // After the last step.
  void Finish();
  // A smaller wave goes first now.
  void NoteSetAside() { parts_.metrics->CountSetAside(); }
  // Instead of it: the wave is given up, its runs are cancelled.
  void GiveUp();

  // Frees what is held for requests that are over or past their deadlines (the
  // executor does so within the next step). Returns whether any is left.
  bool DropOver();

  const GatheredWave& wave() const { return wave_; }
  const WaveWork& work() const { return work_; }

 private:
  void Begin(AcceptedTrace& trace);
  // The compute thread has worked on it since `before`.
  void CountTime(absl::Time before);
  std::vector<CallerRun> Runs() const;
  // Destroys what runs, and tells the planner that the roots `kept` are there.
  void End(const std::vector<RootId>& kept);
  // Ends the runs, and the requests of which nothing is left.
  void Settle(const std::vector<RowOutcome>& outcomes);

  const WaveParts parts_;
  GatheredWave wave_;
  // Of the wave's requests.
  Executor& executor_;
  // Each request of the wave once.
  std::set<AcceptedTrace*> traces_;
  absl::Time started_at_;
  // Of the steps alone, without the times for which it was set aside.
  absl::Duration compute_time_;
  WaveWork work_;
  // Of its plan.
  std::vector<WaveRow> rows_;
  std::unique_ptr<RunningWave> running_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_WAVE_UNDER_WAY_H_
