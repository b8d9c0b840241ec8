// What a capture makes of its value, and the tensors that come of it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_CAPTURES_REDUCTION_H_
#define PHITAP_SERVER_PLAN_CAPTURES_REDUCTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/trace.pb.h"
#include "server/base/dtype.h"
#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

// A value after selection: what a reduction starts from.
struct SelectedValue {
  Hook hook;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

// A tensor before it has a place in an answer.
struct TensorPart {
  std::string name;  // "values"; empty for the only one
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::string> dimension_names;
};

// Element type of a hook point's values: integers for ids and sizes, float32
// for next_token_probs, else what the model computes in.
DType ValueType(Hook hook, DType compute_dtype);

// The reduction of `capture`, checked as far as it does not depend on a run.
// INVALID_ARGUMENT against a field under `field`, the capture's path.
absl::StatusOr<Reduction> PlanReduction(const v1::Capture& capture,
                                        const HookEntry& entry,
                                        const ModelSpec& spec,
                                        absl::string_view field);

// The element type that `capture` asks for; nothing means as computed.
// INVALID_ARGUMENT where its values cannot be converted to it.
absl::StatusOr<std::optional<DType>> PlanWireType(const v1::Capture& capture,
                                                  const HookEntry& entry,
                                                  absl::string_view field);

// How many tensors a reduction makes of one value.
int PartCount(const Reduction& reduction);
// How many token ids it holds in memory.
int64_t IndexCount(const Reduction& reduction);

// The tensors of one value, in the order of PlannedCapture::first_tensor.
// INVALID_ARGUMENT where top_k asks for more than the value has.
absl::StatusOr<std::vector<TensorPart>> ReducedParts(
    const Reduction& reduction, const SelectedValue& value,
    std::optional<DType> wire_type, absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_CAPTURES_REDUCTION_H_
