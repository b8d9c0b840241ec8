// Runs computed step by step from their caches, for tests.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_MODEL_CACHED_STEPS_H_
#define PHITAP_TESTS_UNIT_MODEL_CACHED_STEPS_H_

#include <cstdint>
#include <vector>

#include "server/model/forward.h"
#include "server/model/key_value_cache.h"
#include "tests/unit/model/forward_fixture.h"

namespace phitap {

// Tokens [begin, end) of a run.
struct Step {
  int64_t begin = 0;
  int64_t end = 0;
};

// Asks for everything of the step.
ForwardRow RowOf(const Prompt& prompt, const Step& step, KeyValueCache* cache);

// A run and where it stands.
struct Course {
  Prompt prompt;
  std::vector<Step> steps;
  Records whole;  // of the run at once
  KeyValueCache cache;
};

// What the step shows as row `row` of its wave is what the whole run shows
// there.
void ExpectPart(const Records& shown, int row, const Course& course,
                const Step& step);

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_MODEL_CACHED_STEPS_H_
