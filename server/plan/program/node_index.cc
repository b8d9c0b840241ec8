#include "server/plan/program/node_index.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/plan/program/nearest.h"
#include "server/spec/quote.h"

namespace phitap {

absl::StatusOr<int> NodeIndex::Find(absl::string_view name,
                                    absl::string_view field) const {
  const auto found = nodes.find(name);
  if (found != nodes.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, node] : nodes) names.push_back(known);
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("no node is named ", Quoted(name)),
       .valid = NearestQuoted(name, std::move(names), "nodes")});
}

}  // namespace phitap
