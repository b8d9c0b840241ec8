#include "server/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using testing::HasSubstr;

TEST(ParseJson, KeepsEveryKindOfValue) {
  const auto value =
      ParseJson(R"({"a": [1, -2, 0.5, true, null, "é"], "b": {}})", "x.json");
  ASSERT_THAT(value, IsOk());
  EXPECT_EQ(value->dump(), R"({"a":[1,-2,0.5,true,null,"é"],"b":{}})");
}

TEST(ParseJson, KeepsIntegersPast53Bits) {
  const auto value = ParseJson("18446744073709551615", "x.json");
  ASSERT_THAT(value, IsOk());
  EXPECT_EQ(value->get<uint64_t>(), UINT64_MAX);
}

struct BadText {
  std::string text;
  std::string problem;
};

class ParseJsonRefuses : public testing::TestWithParam<BadText> {};

TEST_P(ParseJsonRefuses, NamesTheSourceAndTheFault) {
  EXPECT_THAT(ParseJson(GetParam().text, "x.json"),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("x.json: " + GetParam().problem)));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, ParseJsonRefuses,
    testing::Values(
        BadText{"", "is not JSON from byte 1"},
        BadText{"{\"a\": 1", "is not JSON from byte 8"},
        BadText{"{\"a\": 1}}", "is not JSON from byte 9"},
        BadText{"{a: 1}", "is not JSON"}, BadText{"[1,]", "is not JSON"},
        BadText{"NaN", "is not JSON"}, BadText{"[Infinity]", "is not JSON"},
        BadText{"1e999", "holds a number out of range"},
        BadText{"\"\xFF\"", "is not JSON"}, BadText{"// c\n1", "is not JSON"},
        BadText{R"({"a": 1, "b": 2, "a": 1})", R"(key "a" appears twice)"},
        BadText{R"({"x": {"k": 1, "k": {}}})", R"(key "k" appears twice)"},
        BadText{std::string(1'000'000, '['), "is nested deeper than 32"},
        BadText{absl::StrCat("[0", std::string(8'000'002, ','), "]"),
                "is not JSON"}));

TEST(ParseJson, RefusesMoreValuesThanACheckpointNeeds) {
  std::string text = "[0";
  for (int i = 0; i < 4'000'000; ++i) text += ",0";
  EXPECT_THAT(ParseJson(text + "]", "x.json"),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("x.json: holds more than 4000000 values")));
}

TEST(QuotedName, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(QuotedName("a\"\n\x1B[31m"), "\"a\\\"\\n\\033[31m\"");
}

TEST(QuotedName, CutsLongNamesBetweenCharacters) {
  std::string name;
  for (int i = 0; i < 99; ++i) name += "é";
  const std::string quoted = QuotedName(name);
  EXPECT_LT(quoted.size(), 110u);
  EXPECT_THAT(quoted, testing::EndsWith("é…\""));
}

}  // namespace
}  // namespace phitap
