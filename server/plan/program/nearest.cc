#include "server/plan/program/nearest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

constexpr int kNearestCount = 3;

}  // namespace

std::string NearestQuoted(absl::string_view name,
                          std::vector<std::string> names,
                          absl::string_view kinds) {
  if (names.empty()) return absl::StrCat("the request has no ", kinds);
  std::sort(names.begin(), names.end());
  const std::vector<std::string> nearest =
      NearestNames(name, names, kNearestCount);
  return absl::StrCat(
      "nearest are ",
      absl::StrJoin(nearest, ", ",
                    [](std::string* out, const std::string& near) {
                      absl::StrAppend(out, Quoted(near));
                    }));
}

}  // namespace phitap
