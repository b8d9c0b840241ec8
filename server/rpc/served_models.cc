#include "server/rpc/served_models.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"

namespace phitap {
namespace {

constexpr int kNamesToOffer = 5;

}  // namespace

absl::StatusOr<const ServedModel*> ServedModels::Find(
    absl::string_view name, absl::string_view field) const {
  if (name.empty() && models_.size() == 1) return &models_.front();
  std::vector<std::string> names;
  for (const ServedModel& model : models_) {
    if (model.name == name) return &model;
    names.push_back(model.name);
  }
  const std::string nearest =
      absl::StrJoin(NearestNames(name, names, kNamesToOffer), ", ");
  if (name.empty()) {
    return InvalidField({.field = std::string(field),
                         .problem = absl::StrCat("empty, and the server holds ",
                                                 models_.size(), " models"),
                         .valid = nearest});
  }
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("no model \"", name, "\" is loaded"),
       .valid = nearest},
      absl::StatusCode::kNotFound);
}

}  // namespace phitap
