#include "server/base/refusal_reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "server/base/retry_hint.h"

namespace phitap {
namespace {

TEST(RefusalReason, IsToldByTheCodeWhereNothingElseWasSaid) {
  EXPECT_EQ(RefusalReasonOf(absl::InvalidArgumentError("")),
            RefusalReason::kInvalid);
  EXPECT_EQ(RefusalReasonOf(absl::NotFoundError("")),
            RefusalReason::kUnknownName);
  EXPECT_EQ(RefusalReasonOf(absl::ResourceExhaustedError("")),
            RefusalReason::kTooLarge);
  EXPECT_EQ(RefusalReasonOf(absl::UnauthenticatedError("")),
            RefusalReason::kUnauthenticated);
  EXPECT_EQ(RefusalReasonOf(absl::PermissionDeniedError("")),
            RefusalReason::kForbidden);
  EXPECT_EQ(RefusalReasonOf(absl::UnavailableError("")), RefusalReason::kOther);
}

TEST(RefusalReason, StaysWithTheErrorThroughARetryHint) {
  const absl::Status full = WithRefusalReason(absl::UnavailableError("full"),
                                              RefusalReason::kQueueFull);
  EXPECT_EQ(full.message(), "full");
  EXPECT_EQ(RefusalReasonOf(WithRetryHint(full, absl::Seconds(1))),
            RefusalReason::kQueueFull);
}

TEST(RefusalReason, HasAWordOfItsOwnForEach) {
  std::set<std::string> words;
  for (RefusalReason reason : kRefusalReasons) {
    words.insert(std::string(Name(reason)));
    EXPECT_EQ(
        RefusalReasonOf(WithRefusalReason(absl::UnavailableError(""), reason)),
        reason);
  }
  EXPECT_EQ(words.size(), kRefusalReasons.size());
  EXPECT_EQ(words.size(), static_cast<size_t>(RefusalReason::kOther) + 1);
}

}  // namespace
}  // namespace phitap
