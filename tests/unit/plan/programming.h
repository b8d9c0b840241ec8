// Requests as text, planned as far as their runs, and a builder for the rest.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_PLAN_PROGRAMMING_H_
#define PHITAP_TESTS_UNIT_PLAN_PROGRAMMING_H_

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/plan/program/plan_program.h"
#include "server/plan/runs/plan_runs.h"
#include "tests/unit/plan/planning.h"

namespace phitap {

// Runs `a`, of five tokens, and `b`, of three.
constexpr char kTwoRuns[] =
    "runs { label: 'a' prompt { tokens { ids: [1,2,3,4,5] } } }"
    "runs { label: 'b' prompt { tokens { ids: [6,7,8] } } }";

class PlannedRuns {
 public:
  explicit PlannedRuns(const std::string& text,
                       PlanContext context = TinyContext())
      : request(RequestOf(text)),
        context(std::move(context)),
        builder(this->context, plan),
        parts{request, this->context, index, plan, builder} {
    auto runs = PlanRuns(request, this->context);
    EXPECT_TRUE(runs.ok()) << runs.status();
    if (runs.ok()) plan.runs = *std::move(runs);
    auto labels = IndexRuns(request, this->context.limits);
    if (labels.ok()) index = *std::move(labels);
  }
  PlannedRuns(const PlannedRuns&) = delete;

  v1::TraceRequest request;
  PlanContext context;
  RunIndex index;
  TracePlan plan;
  ProgramBuilder builder;
  PlanParts parts;
};

inline HostTensor Zeros(std::vector<int64_t> shape) {
  const std::vector<std::byte> bytes(ElementCount(shape) * 4);
  return CopyOf(DType::kF32, std::move(shape), bytes);
}

// A server that keeps tensors of zeros of these shapes.
inline TensorFinder Keeping(
    std::map<std::string, std::vector<int64_t>> shapes) {
  return [shapes = std::move(shapes)](
             absl::string_view name,
             absl::string_view field) -> absl::StatusOr<HostTensor> {
    const auto found = shapes.find(std::string(name));
    if (found != shapes.end()) return Zeros(found->second);
    return InvalidField({.field = std::string(field),
                         .problem = absl::StrCat("no tensor ", name)},
                        absl::StatusCode::kNotFound);
  };
}

// A read of a hook point's value of every position.
inline RunRead ReadOf(int run, HookPoint point,
                      ReadTime time = ReadTime::kAfter) {
  return {.run = run, .point = point, .read_at = point, .time = time};
}

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_PLAN_PROGRAMMING_H_
