// A queue whose waves a test takes by hand.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_SCHEDULE_REQUEST_QUEUE_FIXTURE_H_
#define PHITAP_TESTS_UNIT_SCHEDULE_REQUEST_QUEUE_FIXTURE_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/schedule/request_queue.h"
#include "tests/support/manual_clock.h"
#include "tests/support/small_plans.h"

namespace phitap {

class RequestQueueTest : public ::testing::Test {
 protected:
  // The caller is the one of caller_.
  absl::Status Push(const std::string& name, const SmallPlan& small) {
    auto trace = std::make_shared<AcceptedTrace>(MakePlan(small));
    trace->caller = caller_;
    trace->stream = std::make_shared<ResultStream>(
        ResultStreamOptions{.plan = trace->plan,
                            .deadline = clock_.Now() + deadline_,
                            .clock = &clock_,
                            .wake = [] {}});
    streams_[name] = trace->stream;
    names_[trace.get()] = name;
    return queue_->Push(std::move(trace));
  }

  // The next wave, e.g. "a0 b0 a1".
  std::string NextWave(int64_t max_tokens) {
    wave_ = queue_->TakeWave({.max_tokens = max_tokens});
    std::vector<std::string> entries;
    for (const WaveEntry& entry : wave_.entries) {
      for (int run : entry.pass.runs) {
        entries.push_back(absl::StrCat(names_[entry.trace.get()], run));
      }
    }
    return absl::StrJoin(entries, " ");
  }

  // Lets every run of the wave go on to its next token.
  void GenerateOn() {
    for (const WaveEntry& entry : wave_.entries) {
      entry.trace->groups.GoOn(entry.pass.group, entry.pass.runs);
    }
    queue_->PutBack(wave_);
  }
  // Lets every group of the wave end.
  void End() {
    for (const WaveEntry& entry : wave_.entries) {
      entry.trace->groups.EndWell(entry.pass.group);
    }
    queue_->PutBack(wave_);
  }

  ManualClock clock_;
  std::string caller_ = "ann";
  absl::Duration deadline_ = absl::InfiniteDuration();
  std::optional<RequestQueue> queue_{
      RequestQueueLimits{.max_requests = 4, .max_caller_requests = 4}};
  GatheredWave wave_;
  std::map<std::string, std::shared_ptr<ResultStream>> streams_;
  std::map<const AcceptedTrace*, std::string> names_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_SCHEDULE_REQUEST_QUEUE_FIXTURE_H_
