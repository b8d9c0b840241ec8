#include "server/identity/identity.h"

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"

namespace phitap {

absl::string_view Name(Role role) {
  switch (role) {
    case Role::kTrace:
      return "trace";
    case Role::kTensors:
      return "tensors";
    case Role::kAdmin:
      return "admin";
  }
  return "";
}

std::optional<Role> RoleOf(absl::string_view name) {
  for (const Role role : {Role::kTrace, Role::kTensors, Role::kAdmin}) {
    if (Name(role) == name) return role;
  }
  return std::nullopt;
}

absl::Status CheckRole(const Identity& identity, Role role,
                       absl::string_view field) {
  if (identity.roles.count(role) > 0) return absl::OkStatus();
  const std::string who = identity.name.empty()
                              ? "callers that do not say who they are"
                              : absl::StrCat("\"", identity.name, "\"");
  const std::string problem =
      absl::StrCat("needs the role `", Name(role), "`, which ", who, " lack",
                   identity.name.empty() ? "" : "s");
  if (field.empty()) {
    return absl::PermissionDeniedError(absl::StrCat("this call ", problem));
  }
  return InvalidField({.field = std::string(field), .problem = problem},
                      absl::StatusCode::kPermissionDenied);
}

}  // namespace phitap
