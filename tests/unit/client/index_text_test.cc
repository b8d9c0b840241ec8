#include "client/cli/index_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/positions.h"
#include "tests/support/status_matchers.h"

namespace phitap::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What a text selects among ten.
std::vector<int64_t> Selected(const std::string& text) {
  const absl::StatusOr<v1::IndexSet> set = ParseIndices(text, "--positions");
  EXPECT_THAT(set, IsOk());
  return set.ok() ? client::ResolveIndices(*set, 10) : std::vector<int64_t>();
}

TEST(ParseIndices, ReadsIndicesAndRanges) {
  EXPECT_THAT(Selected("-1"), ElementsAre(9));
  EXPECT_THAT(Selected("3:5"), ElementsAre(3, 4));
  EXPECT_THAT(Selected(":2"), ElementsAre(0, 1));
  EXPECT_THAT(Selected("-2:"), ElementsAre(8, 9));
  EXPECT_THAT(Selected("1:8:3"), ElementsAre(1, 4, 7));
  EXPECT_THAT(Selected("5,0,-1"), ElementsAre(5, 0, 9));
}

TEST(ParseIndices, KeepsTheOrderOfIndicesAmongRanges) {
  EXPECT_THAT(Selected("3:5,0,-1,-3"), ElementsAre(3, 4, 0, 9, 7));
}

TEST(ParseIndices, RefusesWhatIsNoIndex) {
  for (const char* text : {"", "x", "1,", "1:2:3:4", "1..3", "99999999999"}) {
    EXPECT_THAT(ParseIndices(text, "--positions"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--positions: ")))
        << text;
  }
}

TEST(ParseIds, ReadsAList) {
  const absl::StatusOr<std::vector<int32_t>> ids =
      ParseIds("1,5,9", "--tokens");
  ASSERT_THAT(ids, IsOk());
  EXPECT_THAT(*ids, ElementsAre(1, 5, 9));
  EXPECT_THAT(ParseIds("1 5", "--tokens"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("`1 5` is no integer")));
}

}  // namespace
}  // namespace phitap::cli
