#include "tests/unit/model/cached_steps.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "absl/types/span.h"

namespace phitap {

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
  EXPECT_TRUE(shown.contains({row, Hook::kNextTokenProbs, -1}));
}

}  // namespace phitap
