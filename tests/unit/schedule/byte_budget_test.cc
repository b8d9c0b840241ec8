#include "server/schedule/byte_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "server/base/refusal_reason.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(ByteBudget, SplitsAReservation) {
  ByteBudget budget({.limit_bytes = 100, .purpose = "answers"});
  std::optional<ByteBudget::Reservation> whole = *budget.Reserve(60);
  ByteBudget::Reservation part = whole->Split(25);
  EXPECT_EQ(part.bytes(), 25);
  EXPECT_EQ(whole->bytes(), 35);
  whole.reset();
  EXPECT_EQ(budget.reserved_bytes(), 25);
}

TEST(ByteBudget, SaysWhatIsNeededAndNotWhatOthersHave) {
  ByteBudget budget({.limit_bytes = 100, .purpose = "answers"});
  absl::StatusOr<ByteBudget::Reservation> first = budget.Reserve(60, "x");
  ASSERT_TRUE(first.ok());
  const absl::Status status = budget.Reserve(50, "y").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(
      MessageOf(status),
      "the request needs 50 bytes, which are not free of the 100 that the "
      "server keeps for answers");
  first->Release(60);
  EXPECT_TRUE(budget.Reserve(50, "y").ok());
}

TEST(ByteBudget, SaysSoWhereARequestCanNeverFit) {
  ByteBudget budget(
      {.limit_bytes = 100, .caller_limit_bytes = 70, .purpose = "answers"});
  const absl::Status status = budget.Reserve(71).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(MessageOf(status),
            "the request needs 71 bytes, and one caller gets at most 70 of the "
            "100 that the server keeps for answers; ask for less");
  EXPECT_TRUE(budget.Reserve(70).ok());
}

TEST(ByteBudget, KeepsRoomThatOneCallerCannotTakeFromTheOthers) {
  ByteBudget budget(
      {.limit_bytes = 100, .caller_limit_bytes = 60, .purpose = "answers"});
  std::optional<ByteBudget::Reservation> first = *budget.Reserve(40, "x");
  const absl::Status status = budget.Reserve(30, "x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status), HasSubstr("20 of the 60"));
  EXPECT_EQ(RefusalReasonOf(status), RefusalReason::kCallerMemory);
  EXPECT_TRUE(budget.Reserve(60, "y").ok());
  first.reset();
  EXPECT_TRUE(budget.Reserve(60, "x").ok());
}

TEST(ByteBudget, GivesACallerWithABoundOfItsOwnNoMore) {
  ByteBudget budget(
      {.limit_bytes = 100, .caller_limit_bytes = 60, .purpose = "answers"});
  EXPECT_EQ(budget.Reserve(31, "x", 30).status().code(),
            absl::StatusCode::kResourceExhausted);
  const absl::StatusOr<ByteBudget::Reservation> first =
      budget.Reserve(20, "x", 30);
  ASSERT_TRUE(first.ok());
  const absl::Status status = budget.Reserve(20, "x", 30).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status), HasSubstr("10 of the 30"));
  EXPECT_EQ(RefusalReasonOf(status), RefusalReason::kByteQuota);
  // The server's own bound is the smaller one.
  EXPECT_EQ(budget.Reserve(61, "y", 90).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(ByteBudget, CountsWhatWasSplitOffForItsCaller) {
  ByteBudget budget(
      {.limit_bytes = 100, .caller_limit_bytes = 50, .purpose = "answers"});
  std::optional<ByteBudget::Reservation> whole = *budget.Reserve(50, "x");
  const ByteBudget::Reservation part = whole->Split(20);
  whole.reset();
  EXPECT_FALSE(budget.Reserve(31, "x").ok());
  EXPECT_TRUE(budget.Reserve(30, "x").ok());
}

}  // namespace
}  // namespace phitap
