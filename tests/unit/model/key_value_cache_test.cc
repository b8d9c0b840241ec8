// A run computed step by step from its cache has the bits of the run computed
// at once, however it is split and whoever its neighbours are.
#include "server/model/key_value_cache.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "server/base/dtype.h"
#include "tests/unit/model/cached_steps.h"
#include "tests/unit/model/kind_settings.h"

namespace phitap {
namespace {

// Runs the rows together and compares each with its run.
void Advance(const Phi3& model, std::vector<Course*> courses, size_t step,
             const ForwardOptions& options) {
  std::vector<ForwardRow> rows;
  std::vector<int64_t> key_counts;
  std::erase_if(courses,
                [&](const Course* c) { return step >= c->steps.size(); });
  for (Course* course : courses) {
    rows.push_back(RowOf(course->prompt, course->steps[step], &course->cache));
    key_counts.push_back(course->steps[step].end);
  }
  RecordingHooks hooks(key_counts, [](Hook) { return true; });
  model.Forward(rows, options, hooks);
  for (size_t i = 0; i < courses.size(); ++i) {
    ExpectPart(hooks.records(), static_cast<int>(i), *courses[i],
               courses[i]->steps[step]);
    EXPECT_EQ(courses[i]->cache.length(), courses[i]->steps[step].end);
  }
}

class Steps
    : public testing::TestWithParam<std::tuple<TinyKind, ComputeSetting>> {
 protected:
  Steps()
      : setting_(std::get<ComputeSetting>(GetParam())),
        model_(TinyModel(std::get<TinyKind>(GetParam()), setting_.dtype)),
        random_(static_cast<unsigned>(
            100 * static_cast<int>(std::get<TinyKind>(GetParam())) +
            10 * static_cast<int>(setting_.dtype) + setting_.thread_count)) {
    at::set_num_threads(setting_.thread_count);
    model_->MeasureRowRule();
  }

  int64_t Draw(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random_() % (to - from + 1));
  }

  // On a longrope checkpoint the run's side of the boundary is that of its
  // first step.
  std::vector<Step> Split(const Prompt& prompt) {
    const int64_t count = prompt.token_count();
    const int64_t longest = std::vector<int64_t>{1, 3, 40, 100}[Draw(0, 3)];
    int64_t end = Draw(1, count);
    const auto& longrope = model_->spec().longrope;
    if (longrope &&
        prompt.position_ids.back() >= longrope->original_max_positions) {
      while (prompt.position_ids[end - 1] < longrope->original_max_positions) {
        ++end;
      }
    }
    std::vector<Step> steps = {{.begin = 0, .end = end}};
    // Token by token is many forwards: the prompt leaves but some to it.
    if (longest == 1 && count - end > 40) steps[0].end = end = count - 40;
    while (end < count) {
      const int64_t begin = end;
      end = std::min(count, begin + Draw(1, longest));
      steps.push_back({.begin = begin, .end = end});
    }
    return steps;
  }

  Course MakeCourse(int64_t token_count, const ForwardOptions& options) {
    Prompt prompt = RandomPrompt(*model_, token_count, random_);
    std::vector<Step> steps = Split(prompt);
    Records whole = ForwardAll(*model_, {prompt}, options);
    return {std::move(prompt), std::move(steps), std::move(whole),
            KeyValueCache(model_->spec())};
  }

  const ComputeSetting setting_;
  const std::unique_ptr<Phi3> model_;
  std::mt19937 random_;
};

TEST_P(Steps, ShowTheBitsOfTheRunAtOnce) {
  for (const auto attention :
       {ForwardAttention::kSdpa, ForwardAttention::kEager}) {
    const ForwardOptions options{.attention = attention};
    std::vector<Course> courses;
    for (const int64_t most : {12, 70, 200}) {
      courses.push_back(MakeCourse(Draw(1, most), options));
    }
    size_t most_steps = 0;
    std::vector<Course*> all;
    for (Course& course : courses) {
      all.push_back(&course);
      most_steps = std::max(most_steps, course.steps.size());
    }
    for (size_t step = 0; step < most_steps; ++step) {
      Advance(*model_, all, step, options);
    }
  }
}

TEST_P(Steps, ShareAWaveWithPromptsAndAskForLess) {
  const Prompt neighbour = RandomPrompt(*model_, 45, random_);
  const Records alone = ForwardAll(*model_, {neighbour});
  Course course = MakeCourse(50, {});
  for (const Step& step : course.steps) {
    ForwardRow row = RowOf(course.prompt, step, &course.cache);
    // Logits of the last token are all that generation asks for.
    const std::vector<int64_t> last = {step.end - 1};
    row.tail_positions = row.norm_positions = row.head_positions = last;
    const std::vector<ForwardRow> rows = {neighbour.Row(), row};
    RecordingHooks hooks({neighbour.token_count(), step.end},
                         [](Hook hook) { return hook == Hook::kLogits; });
    model_->Forward(rows, {}, hooks);
    const auto logits = [&](const Records& records, int row) {
      return records.at({row, Hook::kLogits, -1}).value;
    };
    EXPECT_TRUE(SameBits(logits(hooks.records(), 0), logits(alone, 0)));
    EXPECT_TRUE(SameBits(logits(hooks.records(), 1)[0],
                         logits(course.whole, 0)[step.end - 1]));
  }
}

TEST(WindowedSteps, KeepNoMoreThanTheWindowNeeds) {
  constexpr int64_t kWindow = 70;
  const auto model = ModelWithWindow(kWindow, DType::kF32);
  const ModelSpec& spec = model->spec();
  const int64_t position_bytes =
      spec.num_layers * 2 * spec.num_kv_heads * spec.head_dim * 4;
  std::mt19937 random(3);
  const Prompt prompt = RandomPrompt(*model, 500, random);
  KeyValueCache cache(spec);
  NoHooks hooks;
  for (int64_t begin = 0; begin < 500;) {
    const int64_t end = begin == 0 ? 300 : begin + 1;
    const ForwardRow row = RowOf(prompt, {begin, end}, &cache);
    model->Forward({&row, 1}, {}, hooks);
    EXPECT_LE(cache.size_bytes(), (kWindow + 62) * position_bytes) << end;
    begin = end;
  }
  EXPECT_EQ(cache.length(), 500);
}

TEST(KeyValueCache, BelongsToARunAsFarAsItHasCome) {
  const auto model = TinyModel(TinyKind::kGroupedQueries, DType::kF32);
  std::mt19937 random(1);
  const Prompt prompt = RandomPrompt(*model, 20, random);
  KeyValueCache cache(model->spec());
  EXPECT_EQ(cache.size_bytes(), 0);
  NoHooks hooks;
  for (const auto numerics :
       {ForwardNumerics::kCausal, ForwardNumerics::kTransformers}) {
    const ForwardOptions options{.numerics = numerics};
    const auto forward = [&](const Step& step) {
      const ForwardRow row = RowOf(prompt, step, &cache);
      model->Forward({&row, 1}, options, hooks);
    };
    forward({0, 12});
    EXPECT_EQ(cache.length(), 12);
    EXPECT_GT(cache.size_bytes(), 0);
    EXPECT_THROW(forward({11, 14}), c10::Error);
    EXPECT_THROW(forward({13, 14}), c10::Error);
    EXPECT_THROW(forward({0, 12}), c10::Error);
    EXPECT_EQ(cache.length(), 12);
    cache.Clear();
    EXPECT_EQ(cache.length(), 0);
    EXPECT_EQ(cache.size_bytes(), 0);
    forward({0, 3});
    EXPECT_EQ(cache.length(), 3);
    cache.Clear();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Steps,
                         testing::ValuesIn(KindsWith(ComputeSettings(
                             {DType::kF32, DType::kBF16, DType::kF16},
                             {1, 2, 12}))),
                         [](const auto& info) {
                           return Name(std::get<TinyKind>(info.param)) + "_" +
                                  NameOf(std::get<ComputeSetting>(info.param));
                         });

}  // namespace
}  // namespace phitap
