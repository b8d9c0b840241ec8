// One of the callers that load a scheduler: asks for something, and does as he
// likes with the answer.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_SCHEDULE_LOAD_CALLER_H_
#define PHITAP_TESTS_UNIT_SCHEDULE_LOAD_CALLER_H_

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/schedule/scheduler.h"
#include "tests/support/small_plans.h"

namespace phitap {

// What became of requests.
struct LoadCounts {
  int accepted = 0;
  // Each accepted one is one of these: read to the end, failed at its deadline,
  // or given up by the caller.
  int finished = 0;
  int expired = 0;
  int left = 0;
  int refused = 0;

  LoadCounts& operator+=(const LoadCounts& other) {
    accepted += other.accepted;
    finished += other.finished;
    expired += other.expired;
    left += other.left;
    refused += other.refused;
    return *this;
  }
};

struct LoadCallerOptions {
  // Both outlive the caller.
  Scheduler* scheduler = nullptr;
  const Clock* clock = nullptr;
  // That it asks of; one named often is asked often.
  std::vector<std::string> executors;
  std::string name;
  unsigned seed = 0;
};

// Checks that answers are whole and right, and refusals allowed.
// Thread-compatible.
class LoadCaller {
 public:
  explicit LoadCaller(LoadCallerOptions options);
  ~LoadCaller();

  void AskOnce();
  // What it has put off reading.
  void ReadRest();

  const LoadCounts& counts() const { return counts_; }
  // Whether the scheduler is stopping.
  bool refused_for_good() const { return refused_for_good_; }

 private:
  class Answer;

  int Below(int end) { return static_cast<int>(random_() % end); }
  SmallPlan DrawPlan();
  absl::StatusOr<std::unique_ptr<Answer>> Ask(absl::Duration patience);
  void CountRefusal(const absl::Status& status);
  // To its end.
  void Read(Answer& answer);

  const LoadCallerOptions options_;
  std::mt19937 random_;
  LoadCounts counts_;
  bool refused_for_good_ = false;
  std::vector<std::unique_ptr<Answer>> put_off_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_SCHEDULE_LOAD_CALLER_H_
