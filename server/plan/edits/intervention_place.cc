#include "server/plan/edits/intervention_place.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

std::string ReadOnlyNames() {
  std::vector<absl::string_view> names;
  for (const HookEntry& entry : HookCatalogue()) {
    if (entry.access == Access::kRead) names.push_back(entry.name);
  }
  return absl::StrJoin(names, ", ");
}

// A skip takes what is in front of a module for what is behind it.
absl::Status CheckSkip(Hook hook, const std::string& field) {
  if (hook == Hook::kLayerOutput || hook == Hook::kAttentionOutput ||
      hook == Hook::kMlpOutput) {
    return absl::OkStatus();
  }
  return InvalidField(
      {.field = field + ".skip",
       .problem = absl::StrCat("skips no module at ", EntryOf(hook).name),
       .valid = "layer_output, attention_output, mlp_output"});
}

}  // namespace

absl::StatusOr<InterventionPlace> ResolvePlace(
    const v1::Intervention& intervention, const ModelSpec& spec,
    const std::string& field) {
  ASSIGN_OR_RETURN(std::vector<HookPoint> points,
                   ParseHookPoints(intervention.hook_points(), spec,
                                   field + ".hook_points"));
  const HookEntry& entry = EntryOf(points.front().hook);
  if (entry.access != Access::kReadWrite) {
    return InvalidField(
        {.field = field + ".hook_points",
         .problem = absl::StrCat(entry.name, " can be read alone"),
         .valid = absl::StrCat("any hook point but ", ReadOnlyNames())});
  }
  if (intervention.has_skip()) RETURN_IF_ERROR(CheckSkip(entry.hook, field));
  ASSIGN_OR_RETURN(CheckedSelection selection,
                   CheckedSelection::Create(intervention.selection(), entry,
                                            spec, field + ".selection"));
  return InterventionPlace{.points = std::move(points),
                           .selection = std::move(selection)};
}

}  // namespace phitap
