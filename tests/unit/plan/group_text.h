// Requests of runs that read each other, as text, and the groups that they are
// planned in.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_PLAN_GROUP_TEXT_H_
#define PHITAP_TESTS_UNIT_PLAN_GROUP_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/plan/programming.h"

namespace phitap {

// Sets a hook point's value to that of a run elsewhere.
struct Patch {
  std::string from_run;
  std::string from;
  std::string into;
  std::string time = "READ_TIME_AFTER";
};

inline std::string RunOf(const std::string& label,
                         const std::vector<Patch>& patches) {
  std::string text = absl::StrCat("runs { label: '", label,
                                  "' prompt { tokens { ids: [1,2,3] } }");
  for (const Patch& patch : patches) {
    absl::StrAppend(&text, " interventions { hook_points: '", patch.into,
                    "' set { value { run { run: '", patch.from_run,
                    "' hook_point: '", patch.from, "' read_time: ", patch.time,
                    " } } } }");
  }
  return text + " }";
}

// `0 1 | 2 (0)`: runs of the groups, and what each comes after; passes in <>.
inline std::string Groups(const TracePlan& plan) {
  return absl::StrJoin(
      plan.groups, " | ", [](std::string* out, const RunGroup& group) {
        std::string runs = absl::StrJoin(group.runs, " ");
        if (group.gradient_pass >= 0) runs = absl::StrCat("<", runs, ">");
        absl::StrAppend(out, runs);
        if (group.after.empty()) return;
        absl::StrAppend(out, " (", absl::StrJoin(group.after, " "), ")");
      });
}

inline std::string GroupsOf(const std::string& text,
                            const PlanContext& context = TinyContext()) {
  const auto plan = Plan(text, context);
  return plan.ok() ? Groups(**plan) : std::string(plan.status().message());
}

// Both point at the same place.
inline Patch From(const std::string& run, const std::string& point) {
  return {.from_run = run, .from = point, .into = point};
}

inline constexpr char kTransformers[] =
    "options { numerics: NUMERICS_TRANSFORMERS } captures { hook_points: "
    "'logits' }";

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_PLAN_GROUP_TEXT_H_
