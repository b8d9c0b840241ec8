#include "server/plan/edits/mean_of_runs.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/edits/edited_part.h"
#include "server/plan/program/shapes.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

// Reads of every run, and the hook that they are of.
struct Reads {
  std::vector<int> nodes;
  Hook hook = Hook::kLayerOutput;
};

absl::Status CheckRuns(const v1::MeanOfRuns& mean, const std::string& field) {
  if (mean.runs().empty()) {
    return InvalidField({.field = field + ".runs",
                         .problem = "none given",
                         .valid = "at least one run"});
  }
  absl::flat_hash_set<std::string> seen;
  for (int i = 0; i < mean.runs_size(); ++i) {
    if (mean.runs(i).empty()) {
      return InvalidField({.field = absl::StrCat(field, ".runs[", i, "]"),
                           .problem = "is empty",
                           .valid = "the label of a run"});
    }
    if (seen.insert(mean.runs(i)).second) continue;
    return InvalidField({.field = absl::StrCat(field, ".runs[", i, "]"),
                         .problem = absl::StrCat("run ", Quoted(mean.runs(i)),
                                                 " is named twice"),
                         .valid = "each run at most once"});
  }
  return absl::OkStatus();
}

absl::StatusOr<Reads> AddReads(const PlanParts& parts,
                               const v1::MeanOfRuns& mean,
                               const RunValueDefaults& defaults,
                               const std::string& field) {
  Reads reads;
  for (const std::string& run : mean.runs()) {
    v1::RunValue value;
    value.set_run(run);
    value.set_hook_point(mean.hook_point());
    if (mean.has_selection()) *value.mutable_selection() = mean.selection();
    ASSIGN_OR_RETURN(RunRead read,
                     ResolveRunValue(parts, value, defaults, field));
    reads.hook = read.point.hook;
    ASSIGN_OR_RETURN(const int node,
                     parts.builder.AddRead(std::move(read), field));
    reads.nodes.push_back(node);
  }
  return reads;
}

// INVALID_ARGUMENT unless all have one shape, dimension `free` aside.
absl::Status CheckShapes(const PlanParts& parts, const v1::MeanOfRuns& mean,
                         const Reads& reads, std::optional<size_t> free,
                         const std::string& field) {
  const Shape& first = parts.builder.ShapeOf(reads.nodes.front());
  for (size_t i = 1; i < reads.nodes.size(); ++i) {
    Shape shape = parts.builder.ShapeOf(reads.nodes[i]);
    const Shape own = shape;
    if (free.has_value()) shape[*free] = first[*free];
    if (shape == first) continue;
    return InvalidField(
        {.field = absl::StrCat(field, ".runs[", i, "]"),
         .problem = absl::StrCat("the part of run ",
                                 Quoted(mean.runs(static_cast<int>(i))), " is ",
                                 ShapeText(own)),
         .valid = absl::StrCat(ShapeText(first),
                               " as of the first, or "
                               "over_positions for prompts that differ in "
                               "length")});
  }
  return absl::OkStatus();
}

absl::StatusOr<int> AddMean(const PlanParts& parts, std::vector<int> nodes,
                            int64_t dimension, ReduceOp::Dimensions reduced,
                            const std::string& field) {
  int all = nodes.front();
  if (nodes.size() > 1) {
    ASSIGN_OR_RETURN(all,
                     parts.builder.Add(ConcatenateOp{.dimension = dimension},
                                       std::move(nodes), field));
  }
  return parts.builder.Add(ReduceOp{.kind = ReduceOp::Kind::kMean,
                                    .dimensions = {dimension},
                                    .reduced = reduced},
                           {all}, field);
}

// A mean over the same parts that the plan has already is not made again.
absl::StatusOr<int> AddShared(const PlanParts& parts, const Reads& reads,
                              std::optional<size_t> axis,
                              const std::string& field) {
  const std::string key = absl::StrCat("mean ", axis.has_value(), " ",
                                       absl::StrJoin(reads.nodes, ","));
  const int known = parts.builder.FindShared(key);
  if (known >= 0) return known;
  std::vector<int> nodes = reads.nodes;
  if (!axis.has_value()) {
    for (int& node : nodes) {
      Shape shape = parts.builder.ShapeOf(node);
      shape.insert(shape.begin(), 1);
      ASSIGN_OR_RETURN(node, parts.builder.AddReshape(node, shape, field));
    }
  }
  ASSIGN_OR_RETURN(
      const int mean,
      axis.has_value()
          ? AddMean(parts, std::move(nodes), static_cast<int64_t>(*axis),
                    ReduceOp::Dimensions::kKeep, field)
          : AddMean(parts, std::move(nodes), 0, ReduceOp::Dimensions::kDrop,
                    field));
  parts.builder.Share(key, mean);
  return mean;
}

}  // namespace

absl::StatusOr<int> AddMeanOfRuns(const PlanParts& parts,
                                  const v1::MeanOfRuns& mean,
                                  const RunValueDefaults& defaults,
                                  absl::string_view field) {
  const std::string path(field);
  RETURN_IF_ERROR(CheckRuns(mean, path));
  ASSIGN_OR_RETURN(const Reads reads, AddReads(parts, mean, defaults, path));
  std::optional<size_t> axis;
  if (mean.over_positions()) {
    if (!IsPattern(reads.hook)) axis = PositionAxis(reads.hook);
    if (!axis.has_value()) {
      return InvalidField({.field = path + ".over_positions",
                           .problem = absl::StrCat(EntryOf(reads.hook).name,
                                                   " has no seq dimension"),
                           .valid = "hook points with one"});
    }
  }
  RETURN_IF_ERROR(CheckShapes(parts, mean, reads, axis, path));
  return AddShared(parts, reads, axis, path);
}

}  // namespace phitap
