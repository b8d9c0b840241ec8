#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "server/base/field_error.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/request_id.h"
#include "server/rpc/stream_watch.h"
#include "server/rpc/worker_pool.h"
#include "tests/support/manual_clock.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(ToGrpc, KeepsCodesAndMessages) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  const grpc::Status status = ToGrpc(absl::NotFoundError("no model \"x\""));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no model \"x\"");
  EXPECT_EQ(ToGrpc(absl::UnauthenticatedError("")).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST(ToGrpc, CutsMessagesBetweenCharacters) {
  std::string text(1999, 'a');
  text += "éééé";
  const std::string cut =
      ToGrpc(absl::InvalidArgumentError(text)).error_message();
  EXPECT_EQ(cut, std::string(1999, 'a') + "…");
}

TEST(NewRequestId, IsSixteenHexadecimalDigitsAndAnotherEachTime) {
  EXPECT_THAT(NewRequestId(), MatchesRegex("[0-9a-f]{16}"));
  EXPECT_NE(NewRequestId(), NewRequestId());
}

TEST(WorkerPool, RunsEverythingThatWasPostedBeforeItEnds) {
  std::atomic<int> ran = 0;
  {
    WorkerPool pool({.thread_count = 3});
    for (int i = 0; i < 100; ++i) pool.Post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(WorkerPool, RefusesMoreThanItsBoundAndSaysHowManyWait) {
  std::promise<void> started;
  std::promise<void> release;
  WorkerPool pool({.thread_count = 1, .max_waiting = 2});
  ASSERT_TRUE(pool.TryPost([&] {
                    started.set_value();
                    release.get_future().wait();
                  })
                  .ok());
  started.get_future().wait();
  EXPECT_TRUE(pool.TryPost([] {}).ok());
  EXPECT_TRUE(pool.TryPost([] {}).ok());
  const absl::Status status = pool.TryPost([] {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 of at most 2"));
  release.set_value();
}

class CountingStream final : public WatchedStream {
 public:
  void Check(absl::Time now) override {
    checked_at = now;
    ++checks;
  }
  absl::Time checked_at;
  int checks = 0;
};

TEST(StreamWatch, ChecksWhatIsThere) {
  ManualClock clock;
  StreamWatch watch({.clock = &clock, .period = absl::InfiniteDuration()});
  auto kept = std::make_shared<CountingStream>();
  auto removed = std::make_shared<CountingStream>();
  ASSERT_TRUE(watch.Add(kept, kept.get()).ok());
  ASSERT_TRUE(watch.Add(removed, removed.get()).ok());
  watch.Remove(removed.get());
  clock.Advance(absl::Seconds(3));
  watch.CheckAll();
  EXPECT_EQ(kept->checks, 1);
  EXPECT_EQ(kept->checked_at, clock.Now());
  EXPECT_EQ(removed->checks, 0);
}

TEST(StreamWatch, WaitsForTheLastStream) {
  ManualClock clock;
  StreamWatch watch({.clock = &clock, .period = absl::InfiniteDuration()});
  auto stream = std::make_shared<CountingStream>();
  ASSERT_TRUE(watch.Add(stream, stream.get()).ok());
  std::atomic<bool> removing = false;
  std::thread remover([&] {
    removing = true;
    watch.Remove(stream.get());
  });
  watch.AwaitNone();
  EXPECT_TRUE(removing);
  remover.join();
}

TEST(StreamWatch, TakesNoneOnceItIsClosed) {
  ManualClock clock;
  StreamWatch watch({.clock = &clock, .period = absl::InfiniteDuration()});
  auto before = std::make_shared<CountingStream>();
  ASSERT_TRUE(watch.Add(before, before.get()).ok());
  watch.Close();
  auto after = std::make_shared<CountingStream>();
  EXPECT_EQ(watch.Add(after, after.get()).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(watch.AwaitNone(absl::ZeroDuration()), 1);
  watch.Remove(before.get());
  EXPECT_EQ(watch.AwaitNone(), 0);
}

}  // namespace
}  // namespace phitap
