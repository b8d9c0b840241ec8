// A run computed step by step from its cache has the bits of the run computed
// at once, however it is split and whoever its neighbours are.
#include "server/model/key_value_cache.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "server/base/dtype.h"
#include "tests/unit/model/forward_fixture.h"

namespace phitap {
namespace {

// Tokens [begin, end) of a run.
struct Step {
  int64_t begin = 0;
  int64_t end = 0;
};

ForwardRow RowOf(const Prompt& prompt, const Step& step, KeyValueCache* cache) {
  const auto part = [&](const auto& values) {
    return absl::MakeConstSpan(values).subspan(step.begin,
                                               step.end - step.begin);
  };
  return {.ids = part(prompt.ids),
          .first_position = step.begin,
          .cache = cache,
          .position_ids = part(prompt.position_ids),
          .has_position_ids = prompt.has_position_ids,
          .hidden_positions = prompt.hidden,
          .layer_count = prompt.layer_count,
          .tail_positions = part(prompt.tail),
          .norm_positions = part(prompt.norm),
          .head_positions = part(prompt.head)};
}

// A run and where it stands.
struct Course {
  Prompt prompt;
  std::vector<Step> steps;
  Records whole;
  KeyValueCache cache;
};

// What the step shows as row `row` of its wave is what the whole run shows
// there.
void ExpectPart(const Records& shown, int row, const Course& course,
                const Step& step) {
  const int64_t count = step.end - step.begin;
  size_t compared = 0;
  for (const auto& [key, record] : shown) {
    if (key.row != row || key.hook == Hook::kInputSize) continue;
    const bool last = step.end == course.prompt.token_count();
    if (key.hook == Hook::kNextTokenProbs && !last) continue;
    RecordingHooks::Key alone = key;
    alone.row = 0;
    at::Tensor expected = course.whole.at(alone).value;
    if (IsPattern(key.hook)) {
      expected = expected.narrow(1, step.begin, count).narrow(2, 0, step.end);
    } else if (key.hook != Hook::kNextTokenProbs) {
      expected = expected.narrow(0, step.begin, count);
      EXPECT_EQ(record.positions.front(), step.begin) << NameOf(key);
    }
    EXPECT_TRUE(SameBits(record.value, expected))
        << NameOf(key) << ", tokens [" << step.begin << ", " << step.end << ")";
    ++compared;
  }
  EXPECT_GT(compared, 20u);
}

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

struct Setting {
  DType dtype;
  int thread_count;
};

class Steps : public testing::TestWithParam<std::tuple<TinyKind, Setting>> {
 protected:
  Steps()
      : setting_(std::get<Setting>(GetParam())),
        model_(TinyModel(std::get<TinyKind>(GetParam()), setting_.dtype)),
        random_(static_cast<unsigned>(setting_.thread_count)) {
    at::set_num_threads(setting_.thread_count);
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

  const Setting setting_;
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

INSTANTIATE_TEST_SUITE_P(
    Kinds, Steps,
    testing::Combine(
        testing::ValuesIn(kTinyKinds),
        testing::Values(Setting{DType::kF32, 1}, Setting{DType::kF32, 2},
                        Setting{DType::kF32, 12}, Setting{DType::kBF16, 1},
                        Setting{DType::kBF16, 2}, Setting{DType::kBF16, 12},
                        Setting{DType::kF16, 1}, Setting{DType::kF16, 2},
                        Setting{DType::kF16, 12})),
    [](const auto& info) {
      const Setting& setting = std::get<Setting>(info.param);
      return Name(std::get<TinyKind>(info.param)) + "_" +
             std::string(Name(setting.dtype)) + "_" +
             std::to_string(setting.thread_count);
    });

}  // namespace
}  // namespace phitap
