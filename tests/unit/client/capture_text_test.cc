#include "client/cli/capture_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace phitap::cli {
namespace {

using client::Read;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseCapture, TakesAHookPointAsItIs) {
  const absl::StatusOr<Read> read =
      ParseCapture("layers.{0,5,31}.layer_output", Read());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->hook_points, "layers.{0,5,31}.layer_output");
  EXPECT_EQ(read->label, "");
}

TEST(ParseCapture, TakesANameAndOptions) {
  const absl::StatusOr<Read> read = ParseCapture(
      "end=layers.*.x@positions=-1@lens=5:7,8@dtype=f16@runs=0,2", Read());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->label, "end");
  EXPECT_EQ(read->hook_points, "layers.*.x");
  EXPECT_THAT(read->selection.positions->indices(), ElementsAre(-1));
  const auto& lens = std::get<client::Lens>(*read->reduce);
  EXPECT_EQ(lens.k, 5);
  EXPECT_THAT(lens.token_ids, ElementsAre(7, 8));
  EXPECT_FALSE(lens.value_is_normed);
  EXPECT_EQ(read->dtype, v1::DATA_TYPE_F16);
  EXPECT_THAT(read->runs, ElementsAre("0", "2"));
}

TEST(ParseCapture, ReplacesDefaultsOneByOne) {
  Read defaults;
  ASSERT_THAT(SetCaptureOption("heads", "1", "--heads", &defaults), IsOk());
  ASSERT_THAT(SetCaptureOption("positions", "2", "--positions", &defaults),
              IsOk());
  const absl::StatusOr<Read> read =
      ParseCapture("x@token-ids=9@reduce=norm", defaults);
  ASSERT_THAT(read, IsOk());
  EXPECT_THAT(read->selection.heads->indices(), ElementsAre(1));
  EXPECT_FALSE(read->selection.positions.has_value());
  EXPECT_THAT(read->selection.token_ids, ElementsAre(9));
  EXPECT_TRUE(std::holds_alternative<client::LastDimensionNorm>(*read->reduce));
}

TEST(ParseCapture, ReadsEveryReduction) {
  const auto reduce = [](const std::string& option) {
    absl::StatusOr<Read> read = ParseCapture("x@" + option, Read());
    EXPECT_THAT(read, IsOk());
    return *read->reduce;
  };
  EXPECT_TRUE(
      std::holds_alternative<client::PositionMean>(reduce("reduce=mean")));
  EXPECT_EQ(std::get<client::Largest>(reduce("reduce=topk:7")).k, 7);
  EXPECT_TRUE(std::get<client::Lens>(reduce("lens-normed=1")).value_is_normed);
}

TEST(ParseCapture, TakesStepsAndWhenAndWhereItIsKept) {
  const absl::StatusOr<Read> read =
      ParseCapture("x@steps=1:3@read=before@keep=mine", Read());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->selection.steps->ranges(0).stop(), 3);
  EXPECT_EQ(read->read_time, v1::READ_TIME_BEFORE);
  EXPECT_EQ(read->keep_as, "mine");
}

TEST(ParseCapture, NamesWhatItCannotRead) {
  const auto refusal = [](const std::string& text) {
    return std::string(ParseCapture(text, Read()).status().message());
  };
  EXPECT_EQ(refusal("x@position=1").substr(0, 70),
            "--capture x@position=1: `position` is not an option of a capture; "
            "vali");
  EXPECT_THAT(refusal("x@positions=a"), HasSubstr("`a` is no integer"));
  EXPECT_THAT(refusal("x@reduce=sum"), HasSubstr("mean, norm or topk:K"));
  EXPECT_THAT(refusal("x@reduce=topk:0"), HasSubstr("`0` is not valid"));
  EXPECT_THAT(refusal("x@lens=0"), HasSubstr("`0` is not valid"));
  EXPECT_THAT(refusal("x@dtype=f64"), HasSubstr("f32, f16 or bf16"));
  EXPECT_THAT(refusal("x@read=now"), HasSubstr("before or after"));
  EXPECT_THAT(refusal("x@keep="), HasSubstr("a name to keep it under"));
  EXPECT_THAT(refusal("name="), HasSubstr("a hook point"));
  EXPECT_THAT(refusal("x@"), HasSubstr("`` is not an option"));
}

}  // namespace
}  // namespace phitap::cli
