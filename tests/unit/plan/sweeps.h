// Requests that sweep.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_PLAN_SWEEPS_H_
#define PHITAP_TESTS_UNIT_PLAN_SWEEPS_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/plan/planning.h"

namespace phitap {

constexpr char kRuns[] =
    "runs { label: 'clean' prompt { text: 'abcde' } }"
    "runs { label: 'corrupt' prompt { text: 'vwxyz' } interventions { "
    "hook_points: 'layers.0.layer_mid' scale { value { number: 2 } } } }";
constexpr char kMetric[] = "metrics { label: 'm' logit { token_id: 7 } }";
constexpr char kPatch[] =
    "interventions { hook_points: 'layers.*.layer_output' set { value { run { "
    "run: 'clean' } } } }";

inline std::string Swept(const std::string& sweep) {
  return absl::StrCat(kRuns, "sweeps { run: 'corrupt' ", sweep, " }");
}

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_PLAN_SWEEPS_H_
