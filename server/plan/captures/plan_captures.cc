#include "server/plan/captures/plan_captures.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/base/tensor_name.h"
#include "server/plan/captures/capture_labels.h"
#include "server/plan/captures/node_capture.h"
#include "server/plan/captures/reduction.h"
#include "server/plan/captures/resolved_capture.h"
#include "server/plan/order/reach.h"
#include "server/plan/program/shapes.h"
#include "server/plan/saturating.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

std::string CaptureField(int index) {
  return absl::StrCat("captures[", index, "]");
}

// Adds captures to a plan and holds the limits that they share.
class CapturePlanner {
 public:
  CapturePlanner(const PlanParts& parts, const NodeIndex& nodes)
      : parts_(parts), limits_(parts.context.limits), nodes_(nodes) {}

  absl::Status PlanAll() {
    const v1::TraceRequest& request = parts_.request;
    if (request.captures_size() > limits_.max_captures) {
      return InvalidField(
          {.field = "captures",
           .problem = absl::StrCat(request.captures_size(), " captures"),
           .valid = absl::StrCat("at most ", limits_.max_captures)});
    }
    RETURN_IF_ERROR(labels_.AddGiven(request, limits_));
    for (int i = 0; i < request.captures_size(); ++i) {
      RETURN_IF_ERROR(Plan(i));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Plan(int index) {
    const v1::Capture& capture = parts_.request.captures(index);
    const size_t first_tensor = parts_.plan.tensors.size();
    if (!capture.node().empty()) {
      RETURN_IF_ERROR(CountTensors(index, 1));
      RETURN_IF_ERROR(AddNodeCapture(parts_, nodes_, index));
    } else {
      RETURN_IF_ERROR(PlanHookPoints(index));
    }
    if (capture.tensor_name().empty()) return absl::OkStatus();
    return CheckKept(index, parts_.plan.tensors.size() - first_tensor);
  }

  absl::Status PlanHookPoints(int index) {
    if (parts_.request.captures(index).hook_points().empty()) {
      return InvalidField({.field = CaptureField(index),
                           .problem = "names nothing to send back",
                           .valid = "hook_points or node"});
    }
    ASSIGN_OR_RETURN(const ResolvedCapture capture,
                     ResolveCapture(parts_, index));
    for (int run : capture.runs) {
      ASSIGN_OR_RETURN(const CapturedValue value,
                       ResolveValue(parts_, capture, run));
      const int64_t per_point = static_cast<int64_t>(value.steps.size()) *
                                PartCount(capture.reduction);
      RETURN_IF_ERROR(CountTensors(
          index, per_point * static_cast<int64_t>(capture.points.size())));
      for (HookPoint point : capture.points) {
        RETURN_IF_ERROR(AddPoint(capture, run, point, value));
      }
    }
    return absl::OkStatus();
  }

  // Before the tensors are made.
  absl::Status CountTensors(int index, int64_t count) {
    tensor_count_ += count;
    if (tensor_count_ <= limits_.max_tensors) return absl::OkStatus();
    return InvalidField(
        {.field = CaptureField(index),
         .problem =
             absl::StrCat("brings the answer to ", tensor_count_, " tensors"),
         .valid = absl::StrCat("at most ", limits_.max_tensors)});
  }

  absl::Status CheckKept(int index, size_t tensor_count) {
    const std::string& name = parts_.request.captures(index).tensor_name();
    const std::string field = CaptureField(index) + ".tensor_name";
    RETURN_IF_ERROR(CheckTensorName(name, field));
    if (!parts_.context.find_tensor) {
      return InvalidField({.field = field,
                           .problem = "this server keeps no tensors",
                           .valid = "unset"},
                          absl::StatusCode::kFailedPrecondition);
    }
    if (tensor_count != 1) {
      return InvalidField({.field = field,
                           .problem = absl::StrCat("the capture makes ",
                                                   tensor_count, " tensors"),
                           .valid = "one run, hook point, step and part"});
    }
    const DType dtype = parts_.plan.tensors.back().dtype;
    if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
      return InvalidField(
          {.field = field,
           .problem = absl::StrCat("the tensor is of ", Name(dtype)),
           .valid = "floating-point values"});
    }
    const auto [found, is_new] = kept_.emplace(name, index);
    if (is_new) return absl::OkStatus();
    return InvalidField(
        {.field = field,
         .problem = absl::StrCat(Quoted(name), " is kept by captures[",
                                 found->second, "] as well"),
         .valid = "a name of its own for each capture"});
  }

  absl::Status CountIndices(const ResolvedCapture& capture,
                            const SelectedPart& part) {
    index_count_ += IndexCount(part.selection) + IndexCount(capture.reduction) +
                    static_cast<int64_t>(part.steps.steps.size() +
                                         part.steps.token_ids.size());
    if (index_count_ <= limits_.max_selected_indices) return absl::OkStatus();
    return InvalidField(
        {.field = capture.field,
         .problem = absl::StrCat("brings the request to ", index_count_,
                                 " selected indices and token ids"),
         .valid = absl::StrCat("at most ", limits_.max_selected_indices)});
  }

  absl::Status AddPoint(const ResolvedCapture& capture, int run,
                        HookPoint point, const CapturedValue& value) {
    TracePlan& plan = parts_.plan;
    if (capture.capture.label().empty()) {
      RETURN_IF_ERROR(
          labels_.AddDefault(capture.index, point, run, plan.runs[run].label));
    }
    RETURN_IF_ERROR(CountIndices(capture, value.part));
    PlannedCapture planned = {
        .point = point,
        .read_at = ReadPoint(point),
        .run = run,
        .time = capture.time,
        .selection = value.part.selection,
        .steps = {},
        .step_token_ids = value.part.steps.token_ids,
        .reduction = capture.reduction,
        .first_tensor = static_cast<int>(plan.tensors.size())};
    for (const CapturedStep& step : value.steps) {
      planned.steps.push_back(step.step);
      for (const TensorPart& part : step.parts) {
        AddTensor(capture, part,
                  {.run = run, .point = point, .step = step.step});
      }
    }
    plan.captures.push_back(std::move(planned));
    return absl::OkStatus();
  }

  // `tensor` says already where the value comes from.
  void AddTensor(const ResolvedCapture& capture, const TensorPart& part,
                 PlannedTensor tensor) {
    const std::string& label = capture.capture.label();
    tensor.label = label.empty() ? FullName(tensor.point) : label;
    tensor.part = part.name;
    tensor.dtype = part.dtype;
    tensor.shape = part.shape;
    tensor.dimension_names = part.dimension_names;
    tensor.size_bytes = SaturatingMultiply(SaturatingElements(part.shape),
                                           SizeInBytes(part.dtype));
    tensor.kept_as = capture.capture.tensor_name();
    TracePlan& plan = parts_.plan;
    plan.size_bytes = SaturatingAdd(plan.size_bytes, tensor.size_bytes);
    plan.tensors.push_back(std::move(tensor));
  }

  const PlanParts& parts_;
  const Limits& limits_;
  const NodeIndex& nodes_;
  CaptureLabels labels_;
  // Captures by the name that they are kept under.
  absl::flat_hash_map<std::string, int> kept_;
  int64_t tensor_count_ = 0;
  int64_t index_count_ = 0;
};

}  // namespace

absl::Status PlanCaptures(const PlanParts& parts, const NodeIndex& nodes) {
  return CapturePlanner(parts, nodes).PlanAll();
}

absl::Status CheckAnswer(const PlanParts& parts) {
  const Limits& limits = parts.context.limits;
  const int64_t tensor_count = static_cast<int64_t>(parts.plan.tensors.size());
  if (tensor_count > limits.max_tensors) {
    return InvalidField(
        {.field = "TraceRequest",
         .problem =
             absl::StrCat("the answer would have ", tensor_count, " tensors"),
         .valid = absl::StrCat("at most ", limits.max_tensors)});
  }
  if (parts.plan.size_bytes <= limits.max_response_bytes) {
    return absl::OkStatus();
  }
  return InvalidField(
      {.field = "captures",
       .problem = absl::StrCat("the answer would have ", parts.plan.size_bytes,
                               " bytes"),
       .valid = absl::StrCat("at most ", limits.max_response_bytes, " bytes")},
      absl::StatusCode::kResourceExhausted);
}

}  // namespace phitap
