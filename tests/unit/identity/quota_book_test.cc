#include "server/identity/quota_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "server/base/refusal_reason.h"
#include "server/base/retry_hint.h"
#include "tests/support/manual_clock.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Place = QuotaBook::Place;

class QuotaBookTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Identity> Named(const std::string& name,
                                        Quotas quotas) {
    return std::make_shared<const Identity>(
        Identity{.name = name, .quotas = quotas});
  }

  ManualClock clock_;
  QuotaBook book_{&clock_};
};

TEST_F(QuotaBookTest, GivesNoMorePlacesThanTheIdentityMayHave) {
  const auto alice = Named("alice", {.max_requests = 2});
  std::optional<Place> first = *book_.TakePlace(alice);
  const Place second = *book_.TakePlace(alice);
  EXPECT_THAT(book_.TakePlace(alice),
              StatusIs(Code::kUnavailable, HasSubstr("2 of at most 2")));
  EXPECT_EQ(RefusalReasonOf(book_.TakePlace(alice).status()),
            RefusalReason::kRequestQuota);
  EXPECT_THAT(book_.TakePlace(Named("bob", {.max_requests = 1})), IsOk());
  first.reset();
  EXPECT_THAT(book_.TakePlace(alice), IsOk());
}

TEST_F(QuotaBookTest, FreesAPlaceOnceHoweverItMoves) {
  const auto alice = Named("alice", {.max_requests = 1});
  Place kept;
  {
    Place place = *book_.TakePlace(alice);
    kept = std::move(place);
  }
  EXPECT_THAT(book_.TakePlace(alice),
              StatusIs(Code::kUnavailable, ::testing::_));
  kept = Place();
  EXPECT_THAT(book_.TakePlace(alice), IsOk());
}

TEST_F(QuotaBookTest, GivesNoMoreTokensAMinuteThanTheIdentityMayHave) {
  const auto alice = Named("alice", {.max_tokens_per_minute = 600});
  Place place = *book_.TakePlace(alice);
  EXPECT_THAT(place.TakeTokens(500), IsOk());
  Place other = *book_.TakePlace(alice);
  const absl::Status refused = other.TakeTokens(200);
  EXPECT_THAT(refused, StatusIs(Code::kUnavailable,
                                AllOf(HasSubstr("has 200 tokens"),
                                      HasSubstr("your 600 a minute 100"))));
  EXPECT_EQ(RetryHintOf(refused), absl::Seconds(10));
  EXPECT_EQ(RefusalReasonOf(refused), RefusalReason::kTokenQuota);
  clock_.Advance(absl::Seconds(9));
  EXPECT_THAT(other.TakeTokens(200),
              StatusIs(Code::kUnavailable, ::testing::_));
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(other.TakeTokens(200), IsOk());
}

TEST_F(QuotaBookTest, SavesUpNoMoreThanAMinute) {
  const auto alice = Named("alice", {.max_tokens_per_minute = 600});
  clock_.Advance(absl::Hours(10));
  Place place = *book_.TakePlace(alice);
  EXPECT_THAT(place.TakeTokens(601),
              StatusIs(Code::kResourceExhausted, HasSubstr("600 a minute")));
  EXPECT_THAT(place.TakeTokens(600), IsOk());
  EXPECT_THAT(place.TakeTokens(1), StatusIs(Code::kUnavailable, ::testing::_));
}

TEST_F(QuotaBookTest, TakesBackWhatARefusedRequestWasChargedWith) {
  const auto alice = Named("alice", {.max_tokens_per_minute = 600});
  Place place = *book_.TakePlace(alice);
  ASSERT_THAT(place.TakeTokens(600), IsOk());
  place.GiveBackTokens();
  EXPECT_THAT(place.TakeTokens(600), IsOk());
}

TEST_F(QuotaBookTest, GivesNothingForAClockThatIsSetBack) {
  const auto alice = Named("alice", {.max_tokens_per_minute = 600});
  Place place = *book_.TakePlace(alice);
  ASSERT_THAT(place.TakeTokens(600), IsOk());
  clock_.Advance(absl::Hours(-1));
  EXPECT_THAT(place.TakeTokens(1), StatusIs(Code::kUnavailable, ::testing::_));
  clock_.Advance(absl::Minutes(1));
  EXPECT_THAT(place.TakeTokens(600), IsOk());
}

TEST_F(QuotaBookTest, DoesNotCountCallersWithoutAName) {
  const auto anonymous = Named("", {.max_requests = 0});
  Place place = *book_.TakePlace(anonymous);
  EXPECT_THAT(place.TakeTokens(int64_t{1} << 60), IsOk());
}

}  // namespace
}  // namespace phitap
