#include "server/base/field_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phitap {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(InvalidField, SaysFieldProblemAndWhatWouldBeValid) {
  const absl::Status status = InvalidField({.field = "captures[0].layer",
                                            .problem = "40 is past the last",
                                            .valid = "0 to 31"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "captures[0].layer: 40 is past the last; valid: 0 to 31");
}

TEST(InvalidField, LeavesOutWhatTheProblemAlreadySays) {
  const absl::Status status =
      InvalidField({.field = "config.json", .problem = "is missing"},
                   absl::StatusCode::kNotFound);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "config.json: is missing");
}

TEST(InvalidField, CarriesTheFieldAlong) {
  EXPECT_EQ(FieldOf(InvalidField({.field = "--listen", .problem = "x"})),
            "--listen");
  EXPECT_EQ(FieldOf(absl::InternalError("--listen: x")), "");
  EXPECT_EQ(FieldOf(absl::OkStatus()), "");
}

TEST(NearestNames, RanksByEditsNeeded) {
  const std::vector<std::string> names = {"layer_input", "layer_output",
                                          "mlp_output", "logits"};
  EXPECT_THAT(NearestNames("layer_ouput", names, 2),
              ElementsAre("layer_output", "layer_input"));
  EXPECT_THAT(NearestNames("logit", names, 1), ElementsAre("logits"));
}

TEST(NearestNames, KeepsTheGivenOrderOfEquallyNearNames) {
  EXPECT_THAT(NearestNames("a", {"bb", "cc", "dd"}, 3),
              ElementsAre("bb", "cc", "dd"));
}

TEST(NearestNames, ComparesTheBeginningsOfLongNames) {
  // In full it would take hours.
  const std::string sent(1 << 24, 'x');
  const std::vector<std::string> names(1000, std::string(256, 'y'));
  EXPECT_EQ(NearestNames(sent, names, 3).size(), 3u);
  EXPECT_THAT(NearestNames("a" + sent, {"y", "b" + sent}, 1),
              ElementsAre("b" + sent));
}

TEST(NearestNames, OffersNoMoreThanThereAre) {
  EXPECT_THAT(NearestNames("", {"b"}, 3), ElementsAre("b"));
  EXPECT_THAT(NearestNames("a", {}, 3), IsEmpty());
}

}  // namespace
}  // namespace phitap
