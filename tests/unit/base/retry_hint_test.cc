#include "server/base/retry_hint.h"

#include <gtest/gtest.h>

#include "server/base/field_error.h"

namespace phitap {
namespace {

TEST(RetryHint, IsSaidAndCarriedInWholeMilliseconds) {
  const absl::Status hinted = WithRetryHint(
      absl::UnavailableError("the queue is full"), absl::Microseconds(1500500));
  EXPECT_EQ(hinted.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(hinted.message(), "the queue is full; try again in 1.501s");
  EXPECT_EQ(RetryHintOf(hinted), absl::Milliseconds(1501));
}

TEST(RetryHint, KeepsTheFieldOfAnError) {
  const absl::Status status = InvalidField({.field = "x", .problem = "taken"},
                                           absl::StatusCode::kUnavailable);
  EXPECT_EQ(FieldOf(WithRetryHint(status, absl::Seconds(1))), "x");
}

TEST(RetryHint, IsGivenOnlyWhereItHelps) {
  const absl::Status status = absl::ResourceExhaustedError("too much");
  EXPECT_EQ(WithRetryHint(status, absl::Seconds(1)), status);
  EXPECT_EQ(RetryHintOf(status), std::nullopt);
}

}  // namespace
}  // namespace phitap
