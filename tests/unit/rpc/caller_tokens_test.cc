#include "server/rpc/caller_tokens.h"

#include <gtest/gtest.h>

#include <string>

namespace phitap {
namespace {

TEST(CallerTokens, AddsUpOverACallersTraces) {
  CallerTokens tokens;
  tokens.Add("ada", 5);
  tokens.Add("bob", 1);
  tokens.Add("ada", 7);
  EXPECT_EQ(tokens.Of("ada"), 12);
  EXPECT_EQ(tokens.Of("bob"), 1);
  EXPECT_EQ(tokens.Of("nobody"), 0);
}

TEST(CallerTokens, ForgetsWhoeverWasAnsweredLongestAgo) {
  CallerTokens tokens;
  tokens.Add("first", 1);
  tokens.Add("second", 1);
  for (size_t i = 2; i < CallerTokens::kMaxCallers; ++i) {
    tokens.Add(std::to_string(i), 1);
  }
  tokens.Add("first", 1);
  tokens.Add("one more", 1);
  EXPECT_EQ(tokens.Of("first"), 2);
  EXPECT_EQ(tokens.Of("second"), 0);
  EXPECT_EQ(tokens.Of("2"), 1);
}

}  // namespace
}  // namespace phitap
