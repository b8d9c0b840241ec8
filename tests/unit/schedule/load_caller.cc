#include "tests/unit/schedule/load_caller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "tests/support/busy_executor.h"

namespace phitap {
namespace {

// Tells a reader that there is something to read. Thread-safe.
class Bell {
 public:
  void Ring() {
    std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  void Await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::exchange(rung_, false); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

bool IsLast(const StreamEvent& event) {
  return std::holds_alternative<TraceFinished>(event) ||
         std::holds_alternative<TraceFailed>(event);
}

}  // namespace

// One accepted request and what has been read of its answer.
class LoadCaller::Answer {
 public:
  Answer(std::shared_ptr<const TracePlan> plan, std::shared_ptr<Bell> bell,
         std::shared_ptr<ResultStream> stream)
      : plan_(std::move(plan)),
        bell_(std::move(bell)),
        stream_(std::move(stream)) {}

  // Blocks. The last event, and none after it.
  StreamEvent Next() {
    std::optional<StreamEvent> event;
    while (!(event = stream_->Pull()).has_value()) bell_->Await();
    Take(*event);
    return *std::move(event);
  }

  void GiveUp() { stream_->Close(); }

  // What was read, after the last event, is what the plan says.
  void ExpectWhole(const TraceFinished& finished) const {
    for (size_t run = 0; run < plan_->runs.size(); ++run) {
      const PlannedRun& planned = plan_->runs[run];
      const bool unlucky = planned.ids.size() == kUnluckyTokenCount;
      EXPECT_EQ(
          finished.run_statuses[run].code(),
          unlucky ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk);
      EXPECT_EQ(tensors_.count(static_cast<int>(run)), unlucky ? 0u : 1u);
      const int tokens = planned.generation.has_value() && !unlucky
                             ? planned.generation->max_tokens
                             : 0;
      const auto made = steps_.find(static_cast<int>(run));
      EXPECT_EQ(made == steps_.end() ? 0 : made->second, tokens);
    }
    EXPECT_FALSE(stream_->Pull().has_value());
    EXPECT_TRUE(stream_->over());
    stream_->ReleaseBytes(std::numeric_limits<int64_t>::max());
  }

 private:
  void Take(const StreamEvent& event) {
    if (const auto* ready = std::get_if<TensorReady>(&event)) {
      EXPECT_TRUE(tensors_.emplace(ready->tensor, 1).second);
      const auto filling = static_cast<std::byte>(ready->tensor);
      EXPECT_TRUE(std::all_of(ready->value.bytes.begin(),
                              ready->value.bytes.end(),
                              [&](std::byte b) { return b == filling; }));
    } else if (const auto* token = std::get_if<TokenMade>(&event)) {
      EXPECT_EQ(token->token.step, ++steps_[token->token.run]);
    } else if (const auto* progress = std::get_if<ProgressMade>(&event)) {
      EXPECT_LE(progress->layers_done, progress->layers_total);
    }
  }

  const std::shared_ptr<const TracePlan> plan_;
  const std::shared_ptr<Bell> bell_;
  const std::shared_ptr<ResultStream> stream_;
  std::map<int, int> tensors_;
  // By run: the last step.
  std::map<int, int> steps_;
};

LoadCaller::LoadCaller(LoadCallerOptions options)
    : options_(std::move(options)), random_(options_.seed) {}

LoadCaller::~LoadCaller() = default;

SmallPlan LoadCaller::DrawPlan() {
  SmallPlan plan = {.model = options_.executors[Below(
                        static_cast<int>(options_.executors.size()))]};
  plan.tokens_of_runs.clear();
  // Now and then one that is set aside for the others.
  const bool large = Below(8) == 0;
  for (int runs = 1 + Below(3); runs > 0; --runs) {
    plan.tokens_of_runs.push_back(large ? 400 : 1 + Below(60));
  }
  if (Below(6) == 0) plan.tokens_of_runs[0] = kUnluckyTokenCount;
  plan.layer_count = large ? 8 : 1 + Below(3);
  plan.max_tokens = Below(4) == 0 ? 1 + Below(4) : 0;
  plan.isolate = Below(8) == 0;
  plan.may_share = !plan.isolate && Below(3) > 0;
  plan.attention = Below(6) == 0 ? Attention::kEager : Attention::kSdpa;
  plan.priority = Below(3);
  plan.report_progress = Below(3) == 0;
  plan.working_bytes = Below(500);
  return plan;
}

absl::StatusOr<std::unique_ptr<LoadCaller::Answer>> LoadCaller::Ask(
    absl::Duration patience) {
  std::shared_ptr<const TracePlan> plan = MakePlan(DrawPlan());
  auto bell = std::make_shared<Bell>();
  absl::StatusOr<std::shared_ptr<ResultStream>> stream =
      options_.scheduler->Submit({.plan = plan,
                                  .caller = options_.name,
                                  .deadline = options_.clock->Now() + patience,
                                  .wake = [bell] { bell->Ring(); }});
  if (!stream.ok()) return stream.status();
  ++counts_.accepted;
  return std::make_unique<Answer>(std::move(plan), std::move(bell),
                                  *std::move(stream));
}

void LoadCaller::CountRefusal(const absl::Status& status) {
  ++counts_.refused;
  EXPECT_TRUE(absl::IsUnavailable(status) ||
              absl::IsResourceExhausted(status) || absl::IsAborted(status))
      << status;
  refused_for_good_ = options_.scheduler->stopping();
  // Room is made by reading.
  ReadRest();
}

void LoadCaller::AskOnce() {
  const int whim = Below(8);
  auto answer =
      Ask(whim == 0 ? absl::Microseconds(Below(2000)) : absl::Hours(1));
  if (!answer.ok()) return CountRefusal(answer.status());
  if (whim == 1) {
    put_off_.push_back(*std::move(answer));
  } else if (whim <= 3) {
    bool ended = false;
    for (int events = Below(4); events > 0 && !ended; --events) {
      ended = IsLast((*answer)->Next());
    }
    (*answer)->GiveUp();
    ++counts_.left;
  } else {
    Read(**answer);
  }
}

void LoadCaller::ReadRest() {
  for (const std::unique_ptr<Answer>& answer : put_off_) Read(*answer);
  put_off_.clear();
}

void LoadCaller::Read(Answer& answer) {
  StreamEvent event = answer.Next();
  while (!IsLast(event)) event = answer.Next();
  if (const auto* finished = std::get_if<TraceFinished>(&event)) {
    ++counts_.finished;
    answer.ExpectWhole(*finished);
  } else {
    ++counts_.expired;
    EXPECT_EQ(std::get<TraceFailed>(event).status.code(),
              absl::StatusCode::kDeadlineExceeded);
  }
}

}  // namespace phitap
