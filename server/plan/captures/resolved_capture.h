// A capture of hook points, checked as far as it is the same for every run.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_CAPTURES_RESOLVED_CAPTURE_H_
#define PHITAP_SERVER_PLAN_CAPTURES_RESOLVED_CAPTURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "phitap/v1/trace.pb.h"
#include "server/plan/captures/reduction.h"
#include "server/plan/captures/selection.h"
#include "server/plan/program/plan_parts.h"
#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"

namespace phitap {

// The message must outlive it.
struct ResolvedCapture {
  int index = 0;
  std::string field;  // "captures[2]"
  const v1::Capture& capture;
  const HookEntry& entry;
  std::vector<HookPoint> points;
  // The caller's own runs that it reads.
  std::vector<int> runs;
  CheckedSelection selection;
  ReadTime time = ReadTime::kAfter;
  Reduction reduction;
  // Nothing means as computed.
  std::optional<DType> wire_type;
};

// INVALID_ARGUMENT against a field under `captures[index]`.
absl::StatusOr<ResolvedCapture> ResolveCapture(const PlanParts& parts,
                                               int index);

// What a capture makes of one value in one pass.
struct CapturedStep {
  int step = 0;
  std::vector<TensorPart> parts;
};
// What a capture makes in one run, at each of its hook points.
struct CapturedValue {
  SelectedPart part;
  std::vector<CapturedStep> steps;
};
// INVALID_ARGUMENT where the selection or reduction does not fit the run's
// value; RESOURCE_EXHAUSTED where the value is too large.
absl::StatusOr<CapturedValue> ResolveValue(const PlanParts& parts,
                                           const ResolvedCapture& capture,
                                           int run);

// The passes of the part, ascending: the prompt's is 0.
std::vector<int> StepsOf(const StepSelection& steps, const PlannedRun& run);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_CAPTURES_RESOLVED_CAPTURE_H_
