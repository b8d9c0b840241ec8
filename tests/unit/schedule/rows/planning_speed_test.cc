// How long planning takes. Bounds are wide: they catch what grows with pairs of
// runs, not a slow machine.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/schedule/rows/plan_rows.h"

namespace phitap {
namespace {

// Of this thread alone, whatever else the machine does.
double ThreadMicroseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) +
         1e-3 * static_cast<double>(now.tv_nsec);
}

// The shortest of several plannings.
double MicrosecondsOf(const std::vector<CallerRun>& runs, int repeats) {
  double shortest = 1e9;
  for (int i = 0; i < repeats; ++i) {
    RowPlanner planner(KeepingNothing());
    std::vector<CallerRun> planned = runs;
    const double begin = ThreadMicroseconds();
    const WavePlan wave = planner.Plan(std::move(planned));
    shortest = std::min(shortest, ThreadMicroseconds() - begin);
  }
  return shortest;
}

TEST(PlanningSpeedTest, OfOneShortRun) {
  const double taken = MicrosecondsOf({Make(RunOf(Tokens(6)), kLayers)}, 1000);
  RecordProperty("microseconds", std::to_string(taken));
  EXPECT_LT(taken, 60);
}

TEST(PlanningSpeedTest, OfAThousandCells) {
  std::vector<CallerRun> runs;
  for (int i = 0; i < 1000; ++i) {
    const MadeWrite write = WriteAt(Output(i / 64 % 8), {i % 64},
                                    i % 2 == 0 ? 0 : static_cast<uint64_t>(i));
    runs.push_back(Make(RunOf(Tokens(64), {write}), kLayers));
  }
  const double taken = MicrosecondsOf(runs, 10);
  RecordProperty("microseconds", std::to_string(taken));
  EXPECT_LT(taken, 40'000);
}

TEST(PlanningSpeedTest, OfLongPromptsThatBeginAlike) {
  std::vector<CallerRun> runs;
  for (int i = 0; i < 256; ++i) {
    runs.push_back(
        Make(RunOf(Leaving(Tokens(2000), 1000 + i * 3, 5000 + i)), kLayers));
  }
  const double taken = MicrosecondsOf(runs, 5);
  RecordProperty("microseconds", std::to_string(taken));
  EXPECT_LT(taken, 100'000);
}

}  // namespace
}  // namespace phitap
