#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/schedule/request_queue_fixture.h"

namespace phitap {
namespace {

class WaveSizesTest : public RequestQueueTest {};

TEST_F(WaveSizesTest, TakesOnlyWhatIsSmallEnoughWhoseverItIs) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {50}}).ok());
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {5, 4}}).ok());
  caller_ = std::string("ben");
  ASSERT_TRUE(Push("c", {.tokens_of_runs = {3}}).ok());
  wave_ = queue_->TakeWave({.max_tokens = 100, .max_token_layers = 16});
  ASSERT_EQ(wave_.entries.size(), 2u);
  EXPECT_EQ(names_[wave_.entries[0].trace.get()], "b");
  EXPECT_EQ(names_[wave_.entries[1].trace.get()], "c");
  EXPECT_EQ(wave_.size.token_layers, 16);
  EXPECT_EQ(NextWave(100), "a0 b1");
}

TEST_F(WaveSizesTest, LeavesTheTokensOfARequestBeTakenBeforeItsPrompts) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {2, 50, 50}}).ok());
  EXPECT_EQ(NextWave(2), "a0");
  GenerateOn();
  wave_ = queue_->TakeWave({.max_token_layers = 2});
  ASSERT_EQ(wave_.entries.size(), 1u);
  EXPECT_EQ(wave_.entries[0].pass.phase, PassPhase::kToken);
}

TEST_F(WaveSizesTest, CountsOnceWhatRunsOfARequestShare) {
  ASSERT_TRUE(
      Push("a", {.tokens_of_runs = {10, 10, 10, 10}, .own_token_count = 1})
          .ok());
  EXPECT_EQ(NextWave(12), "a0 a1 a2");
  EXPECT_EQ(wave_.size.tokens, 12);
  EXPECT_EQ(NextWave(12), "a3");
}

TEST_F(WaveSizesTest, CountsWhatAWaveWorksIn) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {2, 2, 2},
                         .group_workspace_bytes = 10,
                         .common_workspace_bytes = 5})
                  .ok());
  ASSERT_TRUE(
      Push("b", {.tokens_of_runs = {2}, .group_workspace_bytes = 7}).ok());
  wave_ = queue_->TakeWave({.max_joined_bytes = 40});
  EXPECT_EQ(wave_.entries.size(), 3u);
  EXPECT_EQ(wave_.size.workspace_bytes, 5 + 10 + 7 + 10);
  // A single one may take more, but never more than there is.
  EXPECT_TRUE(queue_->TakeWave({.max_workspace_bytes = 14}).empty());
  wave_ = queue_->TakeWave({.max_joined_bytes = 1, .max_workspace_bytes = 15});
  EXPECT_EQ(wave_.size.workspace_bytes, 15);
}

TEST_F(WaveSizesTest, CountsLessForATokenThanForItsPrompt) {
  ASSERT_TRUE(
      Push("a", {.tokens_of_runs = {4}, .group_workspace_bytes = 80}).ok());
  NextWave(8);
  EXPECT_EQ(wave_.size.workspace_bytes, 80);
  GenerateOn();
  NextWave(8);
  EXPECT_EQ(wave_.size.workspace_bytes, 20);
}

}  // namespace
}  // namespace phitap
