#include "server/identity/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/field_error.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

TEST(RoleOf, FindsEachRoleByItsName) {
  for (const Role role : {Role::kTrace, Role::kTensors, Role::kAdmin}) {
    EXPECT_EQ(RoleOf(Name(role)), role);
  }
  EXPECT_EQ(RoleOf("root"), std::nullopt);
  EXPECT_EQ(RoleOf(""), std::nullopt);
}

TEST(CheckRole, TakesTheRolesThatTheIdentityHasAndNoOther) {
  const Identity alice = {.name = "alice", .roles = {Role::kTrace}};
  EXPECT_THAT(CheckRole(alice, Role::kTrace, ""), IsOk());
  EXPECT_THAT(CheckRole(alice, Role::kTensors, ""),
              StatusIs(Code::kPermissionDenied,
                       AllOf(HasSubstr("`tensors`"), HasSubstr("alice"))));
  const absl::Status against = CheckRole(alice, Role::kAdmin, "captures[0]");
  EXPECT_THAT(against, StatusIs(Code::kPermissionDenied, ::testing::_));
  EXPECT_EQ(FieldOf(against), "captures[0]");
}

}  // namespace
}  // namespace phitap
