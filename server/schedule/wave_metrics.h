// What is counted of waves.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_WAVE_METRICS_H_
#define PHITAP_SERVER_SCHEDULE_WAVE_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "server/observe/metrics.h"
#include "server/schedule/group_order.h"

namespace phitap {

// Of one model. Everything it counts with has been found before: counting
// neither allocates nor waits. Thread-safe.
class WaveMetrics {
 public:
  // `metrics` outlives it.
  WaveMetrics(Metrics& metrics, const std::string& model);

  // A wave began.
  void CountWave(PassPhase phase, int64_t tokens);
  // A request's first wave began, so long after the request was accepted.
  void CountWait(absl::Duration waited);
  // The compute thread spent time on a wave.
  void CountTime(absl::Duration taken);
  void CountStep() { steps_.Increment(); }
  void CountSetAside() { set_aside_.Increment(); }

 private:
  // By phase.
  std::array<prometheus::Histogram*, kPassPhaseCount> tokens_;
  prometheus::Histogram& waits_;
  prometheus::Counter& seconds_;
  prometheus::Counter& steps_;
  prometheus::Counter& set_aside_;
};

// Of every model, from its first wave on. Not thread-safe.
class EngineMetrics {
 public:
  // `metrics` outlives it.
  explicit EngineMetrics(Metrics& metrics) : metrics_(metrics) {}
  // Lives as long as this does.
  WaveMetrics& Of(const std::string& model);

 private:
  Metrics& metrics_;
  std::map<std::string, WaveMetrics> models_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_WAVE_METRICS_H_
