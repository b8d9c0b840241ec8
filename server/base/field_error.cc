#include "server/base/field_error.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace phitap {
namespace {

constexpr char kFieldPayload[] = "phitap/field";
// Longer names are no misspelt ones; comparing them would only take time.
constexpr size_t kComparedBytes = 64;

// Levenshtein distance.
int EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i));
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

absl::Status InvalidField(const FieldError& error, absl::StatusCode code) {
  std::string message = absl::StrCat(error.field, ": ", error.problem);
  if (!error.valid.empty()) absl::StrAppend(&message, "; valid: ", error.valid);
  absl::Status status(code, message);
  status.SetPayload(kFieldPayload, absl::Cord(error.field));
  return status;
}

std::string FieldOf(const absl::Status& status) {
  absl::optional<absl::Cord> field = status.GetPayload(kFieldPayload);
  return field.has_value() ? std::string(*field) : std::string();
}

std::vector<std::string> NearestNames(absl::string_view name,
                                      const std::vector<std::string>& choices,
                                      int count) {
  std::vector<std::pair<int, std::string>> ranked;
  ranked.reserve(choices.size());
  const absl::string_view compared = name.substr(0, kComparedBytes);
  for (const std::string& choice : choices) {
    ranked.emplace_back(EditDistance(compared, absl::string_view(choice).substr(
                                                   0, kComparedBytes)),
                        choice);
  }
  std::stable_sort(
      ranked.begin(), ranked.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (size_t i = 0; i < ranked.size() && i < static_cast<size_t>(count); ++i)
    nearest.push_back(ranked[i].second);
  return nearest;
}

}  // namespace phitap
