#include "client/cli/axis_text.h"
#include "client/cli/metric_text.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/proto_matchers.h"

namespace phitap::cli {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

// ` Mary` is 1 and ` John` 2.
absl::StatusOr<int32_t> Lookup(const std::string& text) {
  if (text == " Mary") return 1;
  if (text == " John") return 2;
  return absl::InvalidArgumentError(text + " is not one token");
}

absl::StatusOr<v1::Metric> Metric(const std::string& text) {
  const absl::StatusOr<TypedMetric> typed = ParseMetric(text);
  if (!typed.ok()) return typed.status();
  const absl::StatusOr<client::Metric> metric = ResolveMetric(*typed, Lookup);
  if (!metric.ok()) return metric.status();
  return client::ToMessage(*metric);
}

TEST(ParseMetric, ReadsEveryKind) {
  EXPECT_THAT(*Metric("logit: Mary"),
              EqualsProto("label: 'logit' logit { token_id: 1 }"));
  EXPECT_THAT(*Metric("logit-diff: Mary, John"),
              EqualsProto("label: 'logit-diff' logit_difference { token_id: 1 "
                          "baseline_token_id: 2 }"));
  EXPECT_THAT(*Metric("prob:#17"),
              EqualsProto("label: 'prob' probability { token_id: 17 }"));
  EXPECT_THAT(
      *Metric("log-prob: John"),
      EqualsProto("label: 'log-prob' probability { token_id: 2 log: true }"));
  EXPECT_THAT(*Metric("kl: clean"),
              EqualsProto("label: 'kl' kl { from_run: 'clean' }"));
}

TEST(ParseMetric, ReadsANameAndAPosition) {
  EXPECT_THAT(*Metric("mine=logit@position=-2: Mary"),
              EqualsProto("label: 'mine' position: -2 logit { token_id: 1 }"));
}

TEST(ParseMetric, PointsAtWhatIsWrong) {
  const auto refusal = [](const std::string& text) {
    return std::string(Metric(text).status().message());
  };
  EXPECT_THAT(refusal("logits: Mary"), EndsWith("\n  logits: Mary\n  ^^^^^^"));
  EXPECT_THAT(refusal("logit"), HasSubstr("what it is of is missing"));
  EXPECT_THAT(refusal("logit:"), HasSubstr("it needs 1 of them"));
  EXPECT_THAT(refusal("logit-diff: Mary"), HasSubstr("it needs 2 of them"));
  EXPECT_THAT(refusal("logit@at=1: Mary"),
              HasSubstr("`at=1` is not an option"));
  EXPECT_THAT(refusal("logit:Mary"), HasSubstr("Mary is not one token"));
}

TEST(ParseAxes, ReadsEveryKind) {
  const absl::StatusOr<std::vector<v1::SweepAxis>> axes =
      ParseAxes("layers:3,positions:0,3:8,heads,scales:-1,0.5");
  ASSERT_THAT(axes, IsOk());
  EXPECT_THAT(
      *axes,
      ElementsAre(EqualsProto("layers { window: 3 }"),
                  EqualsProto("positions { positions { ranges { start: 0 stop: "
                              "1 } ranges { start: 3 stop: 8 } } }"),
                  EqualsProto("heads {}"),
                  EqualsProto("scales { scales: [ -1, 0.5 ] }")));
}

TEST(ParseAxes, PointsAtWhatIsWrong) {
  const auto refusal = [](const std::string& text) {
    return std::string(ParseAxes(text).status().message());
  };
  EXPECT_THAT(refusal("layers,position"),
              EndsWith("\n  layers,position\n         ^^^^^^^^"));
  EXPECT_THAT(refusal("layers:0"), HasSubstr("`0` is not a number of layers"));
  EXPECT_THAT(refusal("scales"), HasSubstr("`scales` is not an axis"));
  EXPECT_THAT(refusal("scales:x"), HasSubstr("`x` is not a number"));
  EXPECT_THAT(refusal("heads:1:2:3:4"), HasSubstr("too many colons"));
}

TEST(NameAxis, CallsCellsByWhatTheyAre) {
  const client::TracedRun run = {.ids = {7, 8, 9},
                                 .texts = {"When", " Mary", "\n"}};
  const auto name = [&run](const std::string& axis, const std::string& hooks,
                           int64_t size) {
    return NameAxis(ParseAxes(axis)->front(), hooks, run, size);
  };
  EXPECT_THAT(name("layers", "layers.*.x", 2).labels,
              ElementsAre("layer 0", "layer 1"));
  EXPECT_THAT(name("layers", "layers.{5,1}.x", 2).values, ElementsAre(1, 5));
  EXPECT_THAT(name("layers", "layers.2-4.x", 3).values, ElementsAre(2, 3, 4));
  EXPECT_THAT(name("positions", "x", 3).labels,
              ElementsAre("When", "·Mary", "\\n"));
  EXPECT_THAT(name("positions:-1,0", "x", 2).values, ElementsAre(2, 0));
  EXPECT_THAT(name("heads:4,2", "x", 2).labels,
              ElementsAre("head 4", "head 2"));
  EXPECT_THAT(name("heads", "x", 2).values, ElementsAre(0, 1));
  EXPECT_THAT(name("scales:0.5,2", "x", 2).labels, ElementsAre("×0.5", "×2"));
}

}  // namespace
}  // namespace phitap::cli
