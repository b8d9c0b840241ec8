#include "server/plan/captures/capture_labels.h"

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/runs/plan_runs.h"
#include "server/plan/sweeps/expand_sweeps.h"
#include "server/spec/quote.h"

namespace phitap {

std::string GradientLabel(const v1::TraceRequest& request, int index) {
  const std::string& label = request.gradients(index).label();
  return label.empty() ? absl::StrCat("gradient", index) : label;
}

absl::Status CaptureLabels::Take(const std::string& label,
                                 const std::string& given,
                                 const std::string& owner,
                                 const Limits& limits) {
  const std::string field = owner + ".label";
  RETURN_IF_ERROR(CheckLabel(given, limits, field));
  const auto [found, is_new] = given_.emplace(label, owner);
  if (is_new) return absl::OkStatus();
  return InvalidField(
      {.field = field,
       .problem = absl::StrCat(Quoted(label), " is the label of ",
                               found->second, " as well"),
       .valid = "a label of its own for each capture, gradient and sweep"});
}

absl::Status CaptureLabels::AddGiven(const v1::TraceRequest& request,
                                     const Limits& limits) {
  for (int i = 0; i < request.captures_size(); ++i) {
    const v1::Capture& capture = request.captures(i);
    const std::string& label =
        capture.label().empty() ? capture.node() : capture.label();
    if (label.empty()) continue;
    RETURN_IF_ERROR(Take(label, capture.label(),
                         absl::StrCat("captures[", i, "]"), limits));
  }
  for (int i = 0; i < request.gradients_size(); ++i) {
    RETURN_IF_ERROR(Take(GradientLabel(request, i),
                         request.gradients(i).label(),
                         absl::StrCat("gradients[", i, "]"), limits));
  }
  for (int i = 0; i < request.sweeps_size(); ++i) {
    RETURN_IF_ERROR(Take(SweepLabel(request, i), request.sweeps(i).label(),
                         absl::StrCat("sweeps[", i, "]"), limits));
  }
  return absl::OkStatus();
}

absl::Status CaptureLabels::AddDefault(int capture, HookPoint point, int run,
                                       absl::string_view run_label) {
  std::string name = FullName(point);
  const auto given = given_.find(name);
  if (given != given_.end()) {
    return InvalidField(
        {.field = given->second + ".label",
         .problem = absl::StrCat(
             Quoted(name), " is the default label of captures[", capture, "]"),
         .valid = "a label that is no other capture's hook point"});
  }
  const auto [found, is_new] =
      defaults_.emplace(std::make_pair(std::move(name), run), capture);
  if (is_new) return absl::OkStatus();
  return InvalidField(
      {.field = absl::StrCat("captures[", capture, "].hook_points"),
       .problem =
           absl::StrCat(found->first.first, " of run ", Quoted(run_label),
                        " is read by captures[", found->second, "] too"),
       .valid = "a label for one of them"});
}

}  // namespace phitap
