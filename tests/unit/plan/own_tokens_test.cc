#include "server/plan/sharing/own_tokens.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> OwnTokensOf(const std::string& request) {
  const auto plan = Plan(request + kLogits);
  EXPECT_THAT(plan, IsOk());
  std::vector<int64_t> counts;
  if (!plan.ok()) return counts;
  for (const PlannedRun& run : (*plan)->runs) {
    counts.push_back(run.own_token_count);
  }
  return counts;
}

std::string Tokens(const std::string& label, const std::string& text,
                   const std::string& more = "") {
  return absl::StrCat("runs { label: '", label, "' prompt { text: '", text,
                      "' } ", more, " }");
}

std::string Edit(int position, const std::string& number = "2") {
  return absl::StrCat(
      "interventions { hook_points: 'layers.1.layer_output' selection { "
      "positions { indices: ",
      position, " } } add { value { number: ", number, " } } }");
}

TEST(OwnTokens, AreAllOfARunThatIsLikeNoOther) {
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde")), ElementsAre(5));
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde") + Tokens("b", "bcd")),
              ElementsAre(5, 3));
}

TEST(OwnTokens, FollowTheLongestPrefixThatAnotherRunHasToo) {
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde") + Tokens("b", "abxyz") +
                          Tokens("c", "abxyw") + Tokens("d", "q")),
              ElementsAre(5, 1, 3, 1));
  // Another position or a hidden token is another token.
  EXPECT_THAT(
      OwnTokensOf(
          "runs { prompt { text: 'abcde' position_ids: [0,1,2,3,4] } } runs { "
          "label: 'b' prompt { text: 'abcde' position_ids: [0,1,2,9,10] } }"),
      ElementsAre(5, 2));
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde") +
                          "runs { label: 'b' prompt { text: 'abcde' "
                          "hidden_positions { indices: [4, 1] } } }"),
              ElementsAre(5, 4));
}

TEST(OwnTokens, AreAllBesideAPromptThatTakesOtherRotaryFactors) {
  ModelSpec spec = TinySpec();
  spec.longrope = LongRope{.original_max_positions = 5};
  const auto plan =
      Plan(Tokens("a", "abcde") + Tokens("b", "abcdef") + kLogits,
           {.model = "tiny", .spec = spec, .encode = EncodeLetters});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->runs[0].own_token_count, 5);
  EXPECT_EQ((*plan)->runs[1].own_token_count, 6);
}

TEST(OwnTokens, BeginWhereTwinsAreEditedOtherwise) {
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde") + Tokens("b", "abcde")),
              ElementsAre(5, 1));
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde") + Tokens("b", "abcde", Edit(2))),
              ElementsAre(5, 3));
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde", Edit(2)) + Tokens("b", "abcde")),
              ElementsAre(5, 3));
  // The nearer of two counts.
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde") +
                          Tokens("b", "abcde", Edit(1) + Edit(3)) +
                          Tokens("c", "abcde", Edit(1) + Edit(4))),
              ElementsAre(5, 4, 2));
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde", Edit(1)) +
                          Tokens("b", "abcde", Edit(1, "3"))),
              ElementsAre(5, 4));
}

TEST(OwnTokens, BeginWhereAnEditCutsIntoACommonPrefix) {
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde") + Tokens("b", "abcdx", Edit(1))),
              ElementsAre(5, 4));
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde", Edit(1)) +
                          Tokens("b", "abcdx", Edit(1))),
              ElementsAre(5, 1));
}

TEST(OwnTokens, AreAllWhereNothingIsShared) {
  EXPECT_THAT(OwnTokensOf(Tokens("a", "abcde") + Tokens("b", "abcde") +
                          "options { isolate: true }"),
              ElementsAre(5, 5));
}

TEST(OwnTokens, BeginAtTheFirstValueOfOtherRuns) {
  const std::string patch =
      "interventions { hook_points: 'layers.1.layer_output' selection { "
      "positions { indices: 3 } } set { value { run { run: 'a' } } } }";
  EXPECT_THAT(
      OwnTokensOf(Tokens("a", "vwxyz") + Tokens("b", "abcde") +
                  Tokens("c", "abcde", patch) + Tokens("d", "abcde", patch)),
      ElementsAre(5, 5, 2, 2));
  // The row of what twins have in common is without such values.
  EXPECT_THAT(OwnTokensOf(Tokens("a", "vwxyz") + Tokens("b", "abcde", patch) +
                          Tokens("c", "abcde")),
              ElementsAre(5, 5, 1));
}

}  // namespace
}  // namespace phitap
