#include "server/base/status_macros.h"

#include <gtest/gtest.h>

#include <memory>

namespace phitap {
namespace {

absl::Status PassOn(const absl::Status& status, bool& passed) {
  RETURN_IF_ERROR(status);
  passed = true;
  return absl::OkStatus();
}

TEST(ReturnIfError, StopsAtAnErrorAndGoesOnOtherwise) {
  bool passed = false;
  EXPECT_EQ(PassOn(absl::DataLossError("x"), passed), absl::DataLossError("x"));
  EXPECT_FALSE(passed);
  EXPECT_EQ(PassOn(absl::OkStatus(), passed), absl::OkStatus());
  EXPECT_TRUE(passed);
}

// Two of them on neighbouring lines must not name the same variable.
absl::StatusOr<int> Sum(absl::StatusOr<std::unique_ptr<int>> a,
                        absl::StatusOr<int> b) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> first, std::move(a));
  ASSIGN_OR_RETURN(const int second, b);
  return *first + second;
}

TEST(AssignOrReturn, MovesTheValueOut) {
  EXPECT_EQ(*Sum(std::make_unique<int>(2), 3), 5);
}

TEST(AssignOrReturn, ReturnsTheFirstError) {
  EXPECT_EQ(Sum(absl::NotFoundError("a"), absl::DataLossError("b")).status(),
            absl::NotFoundError("a"));
  EXPECT_EQ(Sum(std::make_unique<int>(2), absl::DataLossError("b")).status(),
            absl::DataLossError("b"));
}

}  // namespace
}  // namespace phitap
