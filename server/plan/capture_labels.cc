#include "server/plan/capture_labels.h"

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/plan_runs.h"
#include "server/spec/quote.h"

namespace phitap {

absl::Status CaptureLabels::AddGiven(const v1::TraceRequest& request,
                                     const Limits& limits) {
  for (int i = 0; i < request.captures_size(); ++i) {
    const std::string& label = request.captures(i).label();
    const std::string field = absl::StrCat("captures[", i, "].label");
    if (label.empty()) continue;
    RETURN_IF_ERROR(CheckLabel(label, limits, field));
    const auto [found, is_new] = given_.emplace(label, i);
    if (is_new) continue;
    return InvalidField(
        {.field = field,
         .problem = absl::StrCat(Quoted(label), " is the label of captures[",
                                 found->second, "] as well"),
         .valid = "a label of its own for each capture"});
  }
  return absl::OkStatus();
}

absl::Status CaptureLabels::AddDefault(int capture, HookPoint point, int run,
                                       absl::string_view run_label) {
  std::string name = FullName(point);
  const auto given = given_.find(name);
  if (given != given_.end()) {
    return InvalidField(
        {.field = absl::StrCat("captures[", given->second, "].label"),
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
