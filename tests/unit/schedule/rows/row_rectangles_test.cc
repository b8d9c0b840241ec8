// Which rectangles of layers and positions are computed for runs that have much
// in common.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/unit/schedule/rows/plan_rows.h"

namespace phitap {
namespace {

struct RowsCase {
  std::string name;
  std::vector<MadeRun> runs;
  std::vector<std::string> rows;
};
void PrintTo(const RowsCase& rows_case, std::ostream* os) {
  *os << rows_case.name;
}

class RowsTest : public ::testing::TestWithParam<RowsCase> {};

TEST_P(RowsTest, AreTheRectanglesOfDifference) {
  EXPECT_EQ(RowsOf(PlanOf(GetParam().runs)), GetParam().rows);
}

MadeRun Generating(MadeRun run) {
  run.generates = true;
  return run;
}

MadeWrite Mixing(MadeWrite write) {
  write.mixes_positions = true;
  return write;
}

std::vector<RowsCase> RowsCases() {
  const std::vector<int32_t> ids = Tokens(64);
  const MadeRun plain = RunOf(ids);
  const MadeWrite steer = WriteAt(Output(1), AllPositions(64), 1);
  const MadeWrite late = WriteAt(Output(4), {40}, 2);
  const MadeWrite other_late = WriteAt(Output(5), {50}, 3);
  const MadeWrite dynamic = WriteAt(Output(4), {40}, 0);
  return {
      {"one run", {plain}, {"0-8 x 0-64: 0"}},
      {"runs that are alike have one row", {plain, plain}, {"0-8 x 0-64: 0,1"}},
      {"alike with the same writes",
       {RunOf(ids, {late}), RunOf(ids, {late})},
       {"0-8 x 0-64: 0,1"}},
      {"but each that generates has its own last position",
       {Generating(plain), Generating(plain), plain, Generating(plain)},
       {"0-8 x 0-64: 0,2", "8-8 x 63-64 under 0: 1", "8-8 x 63-64 under 0: 3"}},
      {"not with writes that need values of runs",
       {plain, RunOf(ids, {dynamic}), RunOf(ids, {dynamic})},
       {"0-8 x 0-64: 0", "5-8 x 40-64 under 0: 1", "5-8 x 40-64 under 0: 2"}},
      {"a write at layer_output is felt from the next layer on",
       {plain, RunOf(ids, {late})},
       {"0-8 x 0-64: 0", "5-8 x 40-64 under 0: 1"}},
      {"a write inside a layer is felt in it",
       {plain, RunOf(ids, {WriteAt({Hook::kMlpOutput, 4}, {40}, 2)})},
       {"0-8 x 0-64: 0", "4-8 x 40-64 under 0: 1"}},
      {"a write at the embeddings is felt from position to end",
       {plain, RunOf(ids, {WriteAt({Hook::kTokenEmbeddings}, {40}, 2)})},
       {"0-8 x 0-64: 0", "0-8 x 40-64 under 0: 1"}},
      {"a write at the logits has the head alone",
       {plain, RunOf(ids, {WriteAt({Hook::kLogits}, {63}, 2)})},
       {"0-8 x 0-64: 0", "8-8 x 63-64 under 0: 1"}},
      {"several writes: from the first layer and position of any",
       {plain, RunOf(ids, {late, other_late})},
       {"0-8 x 0-64: 0", "5-8 x 40-64 under 0: 1"}},
      {"writes that all have in common do not count",
       {RunOf(ids, {steer}), RunOf(ids, {steer, late})},
       {"0-8 x 0-64: 0", "5-8 x 40-64 under 0: 1"}},
      {"with writes in common before and after their own",
       {RunOf(ids, {steer, other_late}), RunOf(ids, {steer, late, other_late})},
       {"0-8 x 0-64: 0", "5-8 x 40-64 under 0: 1"}},
      {"nobody asked for the base that several share",
       {RunOf(ids, {dynamic}), RunOf(ids, {WriteAt(Output(5), {50}, 0)}),
        RunOf(ids, {steer, dynamic})},
       {"0-8 x 0-64: ", "5-8 x 40-64 under 0: 0", "6-8 x 50-64 under 0: 1",
        "2-8 x 0-64 under 0: 2"}},
      {"a base that does not pay is left out",
       {RunOf(ids, {WriteAt({Hook::kTokenEmbeddings}, {0}, 0)}),
        RunOf(ids, {WriteAt({Hook::kTokenEmbeddings}, {1}, 0)})},
       {"0-8 x 0-64: 0", "0-8 x 0-64: 1"}},
      {"a common base below the base",
       {plain, RunOf(ids, {steer, late}), RunOf(ids, {steer, other_late}),
        RunOf(ids, {steer, dynamic})},
       {"0-8 x 0-64: 0", "2-8 x 0-64 under 0: ", "5-8 x 40-64 under 1: 1",
        "6-8 x 50-64 under 1: 2", "5-8 x 40-64 under 1: 3"}},
      {"prompts with a common beginning",
       {plain, RunOf(Leaving(ids, 50, 1000))},
       {"0-8 x 0-64: 0", "0-8 x 50-64 under 0: 1"}},
      {"and beginnings of these",
       {plain, RunOf(Leaving(ids, 20, 1000)),
        RunOf(Leaving(Leaving(ids, 20, 1000), 60, 2000)),
        RunOf(Leaving(ids, 20, 3000))},
       {"0-8 x 0-64: 0", "0-8 x 20-64 under 0: 1", "0-8 x 60-64 under 1: 2",
        "0-8 x 20-64 under 0: 3"}},
      {"a beginning too short to be looked up",
       {plain, RunOf(Leaving(ids, 3, 1000))},
       {"0-8 x 0-64: 0", "0-8 x 0-64: 1"}},
      {"a longer prompt goes on from a shorter one",
       {RunOf(Tokens(40)), plain},
       {"0-8 x 0-40: 0", "0-8 x 40-64 under 0: 1"}},
      {"a shorter prompt has nothing of its own",
       {plain, RunOf(Tokens(40))},
       {"0-8 x 0-64: 0", "8-8 x 40-40 under 0: 1"}},
      {"but for the last position of one that generates",
       {plain, Generating(RunOf(Tokens(40)))},
       {"0-8 x 0-64: 0", "8-8 x 39-40 under 0: 1"}},
      {"a common beginning that is no prompt",
       {RunOf(Leaving(ids, 50, 1000), {WriteAt(Output(0), {55}, 0)}),
        RunOf(Leaving(ids, 50, 2000), {WriteAt(Output(0), {50}, 0)}),
        RunOf(Leaving(ids, 50, 3000), {WriteAt(Output(0), {60}, 0)})},
       {"0-8 x 0-50: ", "0-8 x 50-64 under 0: 1", "0-8 x 50-64 under 0: 2",
        "0-8 x 50-64 under 0: 0"}},
      {"other position ids",
       {plain, With(plain,
                    [](MadeRun& r) {
                      r.position_ids = AllPositions(64);
                      r.position_ids[30] = 99;
                    })},
       {"0-8 x 0-64: 0", "0-8 x 30-64 under 0: 1"}},
      {"another hidden position",
       {plain, With(plain, [](MadeRun& r) { r.hidden_positions = {30}; })},
       {"0-8 x 0-64: 0", "0-8 x 30-64 under 0: 1"}},
      {"a write that mixes positions stands on one side",
       {RunOf(ids, {Mixing(WriteAt(Output(6), {20, 63}, 9))}),
        RunOf(ids, {late, Mixing(WriteAt(Output(6), {20, 63}, 9))})},
       {"0-8 x 0-64: 0", "5-8 x 20-64 under 0: 1"}},
      {"but not one that has been before the difference",
       {RunOf(ids, {Mixing(WriteAt(Output(2), {20, 63}, 9))}),
        RunOf(ids, {Mixing(WriteAt(Output(2), {20, 63}, 9)), late})},
       {"0-8 x 0-64: 0", "5-8 x 40-64 under 0: 1"}},
      {"a write behind all that is asked for does not count",
       {plain, With(RunOf(ids, {late}),
                    [](MadeRun& r) {
                      r.asks = {{Output(2), {63}}};
                    })},
       {"0-8 x 0-64: 0,1"}},
      {"a run that asks for the layer before its write's has no layer",
       {plain, With(RunOf(ids, {late}),
                    [](MadeRun& r) {
                      r.asks = {{Output(4), {63}}};
                    })},
       {"0-8 x 0-64: 0", "5-5 x 40-64 under 0: 1"}},
      {"a request in waves of its own",
       {plain, With(plain, [](MadeRun& r) { r.allowed = false; })},
       {"0-8 x 0-64: 0"}},
      {"other rotary factors",
       {plain, With(plain, [](MadeRun& r) { r.long_factors = true; })},
       {"0-8 x 0-64: 0", "0-8 x 0-64: 1"}},
      {"another attention",
       {plain,
        With(plain, [](MadeRun& r) { r.attention = Attention::kEager; })},
       {"0-8 x 0-64: 0", "0-8 x 0-64: 1"}},
      {"another caller",
       {plain, With(plain, [](MadeRun& r) { r.caller = "bob"; })},
       {"0-8 x 0-64: 0", "0-8 x 0-64: 1"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Cases, RowsTest, ::testing::ValuesIn(RowsCases()));

}  // namespace
}  // namespace phitap
