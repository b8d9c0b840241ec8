#include "server/readiness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::_;

TEST(Readiness, IsToldOnceItBegins) {
  Readiness readiness;
  EXPECT_FALSE(readiness.ready());
  EXPECT_THAT(readiness.Begin([&] {
    EXPECT_TRUE(readiness.ready());
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_TRUE(readiness.ready());
  readiness.End([&] { EXPECT_FALSE(readiness.ready()); });
  EXPECT_FALSE(readiness.ready());
}

TEST(Readiness, IsNeverToldOnceTheServerStops) {
  Readiness readiness;
  readiness.End([] {});
  EXPECT_THAT(readiness.Begin([]() -> absl::Status {
    ADD_FAILURE() << "told to be ready";
    return absl::OkStatus();
  }),
              StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_FALSE(readiness.ready());
}

TEST(Readiness, IsToldInFullBeforeTheStopIs) {
  Readiness readiness;
  std::vector<std::string> told;
  std::thread stopping;
  EXPECT_THAT(readiness.Begin([&] {
    stopping = std::thread(
        [&] { readiness.End([&] { told.push_back("stopping"); }); });
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    told.push_back("ready");
    return absl::OkStatus();
  }),
              IsOk());
  stopping.join();
  EXPECT_EQ(told, (std::vector<std::string>{"ready", "stopping"}));
}

TEST(Readiness, DoesNotBeginWhereItCannotBeTold) {
  Readiness readiness;
  EXPECT_THAT(readiness.Begin([] { return absl::UnavailableError("no disk"); }),
              StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_FALSE(readiness.ready());
}

}  // namespace
}  // namespace phitap
