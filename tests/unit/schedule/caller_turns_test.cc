#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/schedule/request_queue_fixture.h"

namespace phitap {
namespace {

class CallerTurnsTest : public RequestQueueTest {};

TEST_F(CallerTurnsTest, LetsNoCallerHaveMoreThanItsPartOfTheQueue) {
  queue_.emplace(RequestQueueLimits{.max_requests = 4});
  ASSERT_TRUE(Push("a", {}).ok());
  ASSERT_TRUE(Push("b", {}).ok());
  const absl::Status status = Push("c", {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("2 of at most 2"));
  caller_ = std::string("ben");
  EXPECT_TRUE(Push("d", {}).ok());
  caller_ = std::string("ann");
  EXPECT_EQ(NextWave(100), "a0 b0 d0");
  EXPECT_TRUE(Push("e", {}).ok());
}

TEST_F(CallerTurnsTest, LetsHigherPrioritiesOfACallerGoFirst) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {4, 4, 4}}).ok());
  EXPECT_EQ(NextWave(4), "a0");
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {4, 4}, .priority = 3}).ok());
  ASSERT_TRUE(Push("c", {.tokens_of_runs = {4}, .priority = 7}).ok());
  EXPECT_EQ(NextWave(4), "c0");
  EXPECT_EQ(NextWave(4), "b0");
  EXPECT_EQ(NextWave(4), "b1");
  EXPECT_EQ(NextWave(8), "a1 a2");
}

TEST_F(CallerTurnsTest, LetsNoPriorityGoBeforeOtherCallers) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {4, 4, 4}, .priority = 10}).ok());
  caller_ = std::string("ben");
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {4}}).ok());
  EXPECT_EQ(NextWave(4), "a0");
  EXPECT_EQ(NextWave(4), "b0");
  EXPECT_EQ(NextWave(4), "a1");
}

TEST_F(CallerTurnsTest, SharesAWaveEquallyAmongCallersThatFillIt) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = std::vector<int>(99, 4096)}).ok());
  caller_ = std::string("ben");
  ASSERT_TRUE(Push("b", {.tokens_of_runs = std::vector<int>(999, 1024)}).ok());
  NextWave(16384);
  std::map<std::string, int64_t> tokens;
  for (const WaveEntry& entry : wave_.entries) {
    tokens[entry.trace->caller] +=
        static_cast<int64_t>(entry.trace->plan->runs[0].ids.size());
  }
  EXPECT_EQ(tokens["ann"], 8192);
  EXPECT_EQ(tokens["ben"], 8192);
}

TEST_F(CallerTurnsTest, OwesNobodyMoreForHavingSentLargerRuns) {
  // In waves of their own, so that callers alternate wave by wave.
  const Numerics alone = Numerics::kTransformers;
  ASSERT_TRUE(Push("a", {.tokens_of_runs = std::vector<int>(200, 80000),
                         .numerics = alone})
                  .ok());
  caller_ = std::string("ben");
  ASSERT_TRUE(Push("b", {.tokens_of_runs = std::vector<int>(900, 20000),
                         .numerics = alone})
                  .ok());
  std::map<std::string, int64_t> tokens;
  for (int wave = 0; wave < 250; ++wave) {
    NextWave(8192);
    ASSERT_EQ(wave_.entries.size(), 1u);
    tokens[wave_.entries[0].trace->caller] += wave_.size.tokens;
  }
  EXPECT_LE(std::abs(tokens["ann"] - tokens["ben"]), 8192 * 32 + 80000);
}

}  // namespace
}  // namespace phitap
