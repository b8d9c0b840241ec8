#include "server/base/identity_name.h"

#include <gtest/gtest.h>

#include <string>

#include "server/base/field_error.h"

namespace phitap {
namespace {

TEST(CheckIdentityName, TakesLettersDigitsAndAFewMarks) {
  for (const char* name : {"a", "9", "_", "-x", "alice@lab.org", "a..b"}) {
    EXPECT_TRUE(CheckIdentityName(name, "f").ok()) << name;
  }
  EXPECT_TRUE(CheckIdentityName(std::string(64, 'x'), "f").ok());
}

TEST(CheckIdentityName, RefusesWhatCouldLeaveAFolderOrSplitALine) {
  for (const char* name :
       {"", ".", "..", ".a", "/a", "a/b", "../a", "a b", "a\nb", "a%", "ä"}) {
    const absl::Status status = CheckIdentityName(name, "f");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(FieldOf(status), "f");
  }
  EXPECT_FALSE(CheckIdentityName(std::string(65, 'x'), "f").ok());
}

}  // namespace
}  // namespace phitap
