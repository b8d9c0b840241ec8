#include "server/plan/captures/index_set.h"

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

// Gathers the indices of one set.
class IndexCollector {
 public:
  explicit IndexCollector(const Axis& axis) : axis_(axis), seen_(axis.size) {}

  absl::Status AddIndex(int64_t index, const std::string& field) {
    ASSIGN_OR_RETURN(const int64_t resolved,
                     Resolve(index, axis_.size - 1, field));
    return Add(resolved, field);
  }

  absl::Status AddRange(const v1::IndexRange& range, const std::string& field) {
    ASSIGN_OR_RETURN(const int64_t start,
                     Resolve(range.start(), axis_.size - 1, field + ".start"));
    int64_t stop = axis_.size;
    if (range.has_stop()) {
      ASSIGN_OR_RETURN(stop,
                       Resolve(range.stop(), axis_.size, field + ".stop"));
    }
    const int64_t step = range.has_step() ? range.step() : 1;
    if (step < 1) {
      return InvalidField({.field = field + ".step",
                           .problem = absl::StrCat(step, " is no distance"),
                           .valid = "1 or more"});
    }
    if (stop <= start) {
      return InvalidField(
          {.field = field,
           .problem = absl::StrCat("from ", start, " to before ", stop,
                                   " there is no index"),
           .valid = "a stop past the start"});
    }
    for (int64_t index = start; index < stop; index += step) {
      RETURN_IF_ERROR(Add(index, field));
    }
    return absl::OkStatus();
  }

  std::vector<int64_t> Take() { return std::move(indices_); }

 private:
  // Counts a negative index from the end.
  absl::StatusOr<int64_t> Resolve(int64_t index, int64_t last,
                                  const std::string& field) const {
    if (index > last || index < -axis_.size) {
      return InvalidField(
          {.field = field,
           .problem = absl::StrCat(index, " is outside ", axis_.extent),
           .valid = absl::StrCat(-axis_.size, " to ", last)});
    }
    return index < 0 ? index + axis_.size : index;
  }

  absl::Status Add(int64_t index, const std::string& field) {
    if (seen_[index]) {
      return InvalidField(
          {.field = field,
           .problem = absl::StrCat("index ", index, " is named twice"),
           .valid = "each index at most once"});
    }
    seen_[index] = true;
    indices_.push_back(index);
    return absl::OkStatus();
  }

  const Axis& axis_;
  std::vector<bool> seen_;
  std::vector<int64_t> indices_;
};

}  // namespace

absl::StatusOr<std::vector<int64_t>> ResolveIndices(const v1::IndexSet& set,
                                                    const Axis& axis,
                                                    absl::string_view field) {
  if (set.indices().empty() && set.ranges().empty()) {
    return InvalidField({.field = std::string(field),
                         .problem = "is set but selects nothing",
                         .valid = "indices or ranges; unset for all"});
  }
  IndexCollector collector(axis);
  for (int i = 0; i < set.indices_size(); ++i) {
    RETURN_IF_ERROR(collector.AddIndex(
        set.indices(i), absl::StrCat(field, ".indices[", i, "]")));
  }
  for (int i = 0; i < set.ranges_size(); ++i) {
    RETURN_IF_ERROR(collector.AddRange(
        set.ranges(i), absl::StrCat(field, ".ranges[", i, "]")));
  }
  return collector.Take();
}

}  // namespace phitap
