// Runs a wave from its first step to its end.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_RUN_WAVE_H_
#define PHITAP_TESTS_SUPPORT_RUN_WAVE_H_

#include <memory>
#include <utility>
#include <vector>

#include "server/plan/executor.h"

namespace phitap {

inline std::vector<RowOutcome> RunWave(Executor& executor, WavePlan plan) {
  const std::unique_ptr<RunningWave> wave = executor.Start(std::move(plan));
  while (wave->Step()) {
  }
  return wave->Finish();
}

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_RUN_WAVE_H_
