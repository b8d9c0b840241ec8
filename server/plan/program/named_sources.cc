#include "server/plan/program/named_sources.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/host_tensor.h"
#include "server/base/status_macros.h"
#include "server/plan/program/inline_tensor.h"
#include "server/plan/program/nearest.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

absl::Status NoConstant(const v1::TraceRequest& request, absl::string_view name,
                        absl::string_view field) {
  std::vector<std::string> names;
  for (const auto& [known, tensor] : request.constants()) {
    names.push_back(known);
  }
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("no constant is named ", Quoted(name)),
       .valid = NearestQuoted(name, std::move(names), "constants")});
}

}  // namespace

absl::StatusOr<int> AddNamedConstant(const PlanParts& parts,
                                     absl::string_view name,
                                     absl::string_view field) {
  const std::string key = absl::StrCat("constant ", name);
  const int known = parts.builder.FindShared(key);
  if (known >= 0) return known;
  const auto found = parts.request.constants().find(std::string(name));
  if (found == parts.request.constants().end()) {
    return NoConstant(parts.request, name, field);
  }
  const std::string own = absl::StrCat("constants[", Quoted(name), "]");
  ASSIGN_OR_RETURN(HostTensor value, InlineTensor(found->second, own));
  ASSIGN_OR_RETURN(const int node,
                   parts.builder.AddConstant(std::move(value), own));
  parts.builder.Share(key, node);
  return node;
}

absl::Status AddConstants(const PlanParts& parts) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : parts.request.constants()) {
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    RETURN_IF_ERROR(AddNamedConstant(parts, name, "constants").status());
  }
  return absl::OkStatus();
}

absl::StatusOr<int> AddKeptTensor(const PlanParts& parts,
                                  absl::string_view name,
                                  absl::string_view field) {
  const std::string key = absl::StrCat("tensor ", name);
  const int known = parts.builder.FindShared(key);
  if (known >= 0) return known;
  if (!parts.context.find_tensor) {
    return InvalidField({.field = std::string(field),
                         .problem = absl::StrCat("tensor ", Quoted(name),
                                                 ": this server keeps none"),
                         .valid = "a tensor in the request"},
                        absl::StatusCode::kNotFound);
  }
  ASSIGN_OR_RETURN(HostTensor kept, parts.context.find_tensor(name, field));
  ASSIGN_OR_RETURN(HostTensor value, FloatingTensor(std::move(kept), field));
  if (ElementCount(value.shape) == 0) {
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat("tensor ", Quoted(name), " has no elements"),
         .valid = "sizes of 1 or more"});
  }
  ASSIGN_OR_RETURN(const int node,
                   parts.builder.AddKept(std::move(value), field));
  parts.builder.Share(key, node);
  return node;
}

absl::StatusOr<int> AddKeptTensorIfThere(const PlanParts& parts,
                                         absl::string_view name,
                                         absl::string_view field) {
  absl::StatusOr<int> node = AddKeptTensor(parts, name, field);
  if (absl::IsNotFound(node.status())) return -1;
  return node;
}

}  // namespace phitap
