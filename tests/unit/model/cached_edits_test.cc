// Edits of a run computed step by step from its cache.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "server/base/dtype.h"
#include "tests/unit/model/cached_steps.h"
#include "tests/unit/model/kind_settings.h"

namespace phitap {
namespace {

// Changes one place, wherever the rows have it, and records everything.
class EditingHooks final : public RecordingHooks {
 public:
  struct Place {
    HookPoint point;
    int64_t position = 0;  // of the query for scores and probabilities
    int64_t key = 0;       // there
    double value = 0.0;
  };
  EditingHooks(int64_t key_count, const Place& place)
      : RecordingHooks({key_count}, [](Hook) { return true; }), place_(place) {}

  at::Tensor Visit(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) override {
    const auto& positions = layout.rows[0].positions;
    const auto at =
        std::find(positions.begin(), positions.end(), place_.position);
    if (point == place_.point && at != positions.end()) {
      value = value.clone();
      value.select(0, at - positions.begin()).fill_(place_.value);
      ++edit_count;
    }
    return RecordingHooks::Visit(point, value, layout);
  }

  at::Tensor VisitPattern(HookPoint point, const PatternBlock& block,
                          at::Tensor value) override {
    const int64_t query = place_.position - block.first_query;
    if (point == place_.point && 0 <= query && query < block.query_count) {
      value = value.clone();
      value.select(1, query).select(1, place_.key).fill_(place_.value);
      ++edit_count;
    }
    return RecordingHooks::VisitPattern(point, block, value);
  }

  int edit_count = 0;

 private:
  const Place place_;
};

// The edited run at once and in steps; only an edit of what is hidden may
// change nothing.
void ExpectSameEdited(const Phi3& model, const Prompt& prompt,
                      const std::vector<Step>& steps,
                      const EditingHooks::Place& place,
                      const ForwardOptions& options) {
  EditingHooks whole(prompt.token_count(), place);
  const ForwardRow row = prompt.Row();
  model.Forward({&row, 1}, options, whole);
  EXPECT_EQ(whole.edit_count, 1);
  const RecordingHooks::Key changed{.hook = Hook::kAttentionOutput, .layer = 0};
  const auto output = [&](const Records& records) {
    return records.at(changed).value[place.position];
  };
  const bool hides = std::binary_search(prompt.hidden.begin(),
                                        prompt.hidden.end(), place.position);
  EXPECT_TRUE(hides || !SameBits(output(whole.records()),
                                 output(ForwardAll(model, {prompt}, options))));
  Course course{.prompt = prompt,
                .steps = steps,
                .whole = whole.records(),
                .cache = KeyValueCache(model.spec())};
  int edit_count = 0;
  for (const Step& step : steps) {
    EditingHooks hooks(step.end, place);
    const ForwardRow part = RowOf(prompt, step, &course.cache);
    model.Forward({&part, 1}, options, hooks);
    ExpectPart(hooks.records(), 0, course, step);
    edit_count += hooks.edit_count;
  }
  EXPECT_EQ(edit_count, 1);
}

class EditedSteps : public testing::TestWithParam<std::tuple<TinyKind, DType>> {
};
INSTANTIATE_TEST_SUITE_P(Kinds, EditedSteps,
                         testing::ValuesIn(KindsWith<DType>(
                             {DType::kF32, DType::kBF16, DType::kF16})),
                         [](const auto& info) {
                           return Name(std::get<TinyKind>(info.param)) + "_" +
                                  std::string(
                                      Name(std::get<DType>(info.param)));
                         });

TEST_P(EditedSteps, ShowTheBitsOfTheEditedRunAtOnce) {
  at::set_num_threads(2);
  const auto [kind, dtype] = GetParam();
  const auto model = TinyModel(kind, dtype);
  std::mt19937 random(static_cast<unsigned>(10 * static_cast<int>(kind) +
                                            static_cast<int>(dtype)));
  const auto draw = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % (to - from + 1));
  };
  const Prompt prompt = RandomPrompt(*model, 90, random);
  const std::vector<Step> steps = {{0, 35},  {35, 50}, {50, 51}, {51, 70},
                                   {70, 71}, {71, 72}, {72, 90}};
  for (const Hook hook : {Hook::kAttentionKeys, Hook::kAttentionValues}) {
    for (const double value : {0.5, std::nan(""), HUGE_VAL}) {
      const EditingHooks::Place place{
          .point = {hook, 0}, .position = draw(40, 89), .value = value};
      ExpectSameEdited(*model, prompt, steps, place, {});
      ExpectSameEdited(*model, prompt, steps, place,
                       {.attention = ForwardAttention::kEager});
    }
  }
  for (const Hook hook :
       {Hook::kAttentionScores, Hook::kAttentionProbabilities}) {
    for (int i = 0; i < 3; ++i) {
      const int64_t query = draw(36, 89);
      ExpectSameEdited(*model, prompt, steps,
                       {.point = {hook, 0},
                        .position = query,
                        .key = query - draw(0, 7),
                        .value = 0.75},
                       {.attention = ForwardAttention::kEager});
    }
  }
}

TEST(WindowedSteps, ShowTheBitsOfTheRunAtOnceAtEveryWidth) {
  at::set_num_threads(2);
  std::mt19937 random(5);
  for (const int64_t window : {1, 2, 31, 32, 33, 34, 40, 64, 65, 100}) {
    const auto model = ModelWithWindow(window, DType::kBF16);
    const Prompt prompt = RandomPrompt(*model, 240, random);
    std::vector<Step> steps = {{0, 1}};
    while (steps.back().end < 240) {
      const int64_t end = steps.back().end;
      const int64_t count = random() % 3 == 0 ? 1 + random() % 90 : 1;
      steps.push_back({end, std::min<int64_t>(240, end + count)});
    }
    for (const auto attention :
         {ForwardAttention::kSdpa, ForwardAttention::kEager}) {
      ExpectSameEdited(*model, prompt, steps,
                       {.point = {Hook::kAttentionKeys, 0},
                        .position = 130,
                        .value = std::nan("")},
                       {.attention = attention});
    }
    ExpectSameEdited(*model, prompt, steps,
                     {.point = {Hook::kAttentionProbabilities, 0},
                      .position = 201,
                      .key = 201,
                      .value = 0.25},
                     {.attention = ForwardAttention::kEager});
  }
}

}  // namespace
}  // namespace phitap
