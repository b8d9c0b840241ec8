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
#include "server/rpc/served_models.h"
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

TEST(ServedModels, FindsByNameAndOffersTheNearest) {
  const ServedModels models({{.name = "phi-3-mini"}, {.name = "phi-4"}});
  EXPECT_EQ((*models.Find("phi-4"))->name, "phi-4");
  const absl::Status unknown = models.Find("phi-3-mni").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("model: no model \"phi-3-mni\" is loaded; valid: "
                        "phi-3-mini"));
}

TEST(ServedModels, TakesNoNameOnlyWhereThereIsOneModel) {
  const ServedModels one({{.name = "phi"}});
  EXPECT_EQ((*one.Find(""))->name, "phi");
  const ServedModels two({{.name = "a"}, {.name = "b"}});
  const absl::Status status = two.Find("").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 models"));
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
  watch.Add(kept, kept.get());
  watch.Add(removed, removed.get());
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
  watch.Add(stream, stream.get());
  std::atomic<bool> removing = false;
  std::thread remover([&] {
    removing = true;
    watch.Remove(stream.get());
  });
  watch.AwaitNone();
  EXPECT_TRUE(removing);
  remover.join();
}

}  // namespace
}  // namespace phitap
