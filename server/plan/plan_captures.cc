#include "server/plan/plan_captures.h"

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/capture_labels.h"
#include "server/plan/plan_runs.h"
#include "server/plan/reach.h"
#include "server/plan/reduction.h"
#include "server/plan/saturating.h"
#include "server/plan/selection.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

// A capture as far as it is the same for every run.
struct CaptureRequest {
  int index = 0;
  std::string field;  // "captures[2]"
  const v1::Capture& capture;
  const HookEntry& entry;
  std::vector<HookPoint> points;
  std::vector<int> runs;
  CheckedSelection selection;
  Reduction reduction;
  std::optional<DType> wire_type;
};

// What a capture makes in one run, at each of its hook points.
struct RunValue {
  ResolvedSelection selection;
  std::vector<TensorPart> parts;
};

int64_t Product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         SaturatingMultiply);
}

absl::Status TooManyBytes(const std::string& field, absl::string_view what,
                          int64_t asked, int64_t allowed) {
  return InvalidField({.field = field,
                       .problem = absl::StrCat(what, " ", asked, " bytes"),
                       .valid = absl::StrCat("at most ", allowed, " bytes")},
                      absl::StatusCode::kResourceExhausted);
}

// Adds captures to a plan and holds the limits that they share.
class CapturePlanner {
 public:
  CapturePlanner(const v1::TraceRequest& request, const PlanContext& context,
                 TracePlan& plan)
      : request_(request), context_(context), plan_(plan) {}

  absl::Status PlanAll() {
    RETURN_IF_ERROR(CheckCount());
    RETURN_IF_ERROR(labels_.AddGiven(request_, context_.limits));
    ASSIGN_OR_RETURN(const RunIndex runs, IndexRuns(request_, context_.limits));
    for (int i = 0; i < request_.captures_size(); ++i) {
      RETURN_IF_ERROR(Plan(i, runs));
    }
    if (plan_.size_bytes <= context_.limits.max_response_bytes) {
      return absl::OkStatus();
    }
    return TooManyBytes("captures", "the answer would have", plan_.size_bytes,
                        context_.limits.max_response_bytes);
  }

 private:
  absl::Status CheckCount() const {
    if (request_.captures().empty()) {
      return InvalidField({.field = "captures",
                           .problem = "none given",
                           .valid = "at least one capture"});
    }
    if (request_.captures_size() <= context_.limits.max_captures) {
      return absl::OkStatus();
    }
    return InvalidField(
        {.field = "captures",
         .problem = absl::StrCat(request_.captures_size(), " captures"),
         .valid = absl::StrCat("at most ", context_.limits.max_captures)});
  }

  absl::Status Plan(int index, const RunIndex& runs) {
    ASSIGN_OR_RETURN(const CaptureRequest capture, Resolve(index, runs));
    RETURN_IF_ERROR(CheckTensorCount(capture));
    for (int run : capture.runs) {
      ASSIGN_OR_RETURN(const RunValue value, PlanValue(capture, run));
      for (HookPoint point : capture.points) {
        RETURN_IF_ERROR(AddPoint(capture, run, point, value));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CaptureRequest> Resolve(int index,
                                         const RunIndex& runs) const {
    const v1::Capture& capture = request_.captures(index);
    const std::string field = absl::StrCat("captures[", index, "]");
    ASSIGN_OR_RETURN(std::vector<HookPoint> points,
                     ParseHookPoints(capture.hook_points(), context_.spec,
                                     absl::StrCat(field, ".hook_points")));
    const HookEntry& entry = EntryOf(points.front().hook);
    ASSIGN_OR_RETURN(std::vector<int> read, RunsOf(capture, runs, field));
    ASSIGN_OR_RETURN(
        CheckedSelection selection,
        CheckedSelection::Create(capture.selection(), entry, context_.spec,
                                 absl::StrCat(field, ".selection")));
    ASSIGN_OR_RETURN(Reduction reduction,
                     PlanReduction(capture, entry, context_.spec, field));
    ASSIGN_OR_RETURN(const std::optional<DType> wire_type,
                     PlanWireType(capture, entry, field));
    return CaptureRequest{.index = index,
                          .field = field,
                          .capture = capture,
                          .entry = entry,
                          .points = std::move(points),
                          .runs = std::move(read),
                          .selection = std::move(selection),
                          .reduction = std::move(reduction),
                          .wire_type = wire_type};
  }

  absl::StatusOr<std::vector<int>> RunsOf(const v1::Capture& capture,
                                          const RunIndex& runs,
                                          const std::string& field) const {
    std::vector<int> read;
    if (capture.runs().empty()) {
      read.resize(plan_.runs.size());
      std::iota(read.begin(), read.end(), 0);
    }
    absl::flat_hash_set<int> seen;
    for (int i = 0; i < capture.runs_size(); ++i) {
      const std::string path = absl::StrCat(field, ".runs[", i, "]");
      ASSIGN_OR_RETURN(const int run, FindRun(runs, capture.runs(i), path));
      if (!seen.insert(run).second) {
        return InvalidField(
            {.field = path,
             .problem = absl::StrCat("run ", Quoted(capture.runs(i)),
                                     " is named twice"),
             .valid = "each run at most once"});
      }
      read.push_back(run);
    }
    return read;
  }

  // Before the tensors are made.
  absl::Status CheckTensorCount(const CaptureRequest& capture) {
    tensor_count_ += static_cast<int64_t>(capture.points.size()) *
                     static_cast<int64_t>(capture.runs.size()) *
                     PartCount(capture.reduction);
    if (tensor_count_ <= context_.limits.max_tensors) return absl::OkStatus();
    return InvalidField(
        {.field = capture.field,
         .problem =
             absl::StrCat("brings the answer to ", tensor_count_, " tensors"),
         .valid = absl::StrCat("at most ", context_.limits.max_tensors)});
  }

  absl::StatusOr<RunValue> PlanValue(const CaptureRequest& capture, int run) {
    const PlannedRun& planned = plan_.runs[run];
    RunValue value;
    ASSIGN_OR_RETURN(value.selection, capture.selection.ResolveFor(planned));
    const SelectedValue selected = {
        .hook = capture.entry.hook,
        .dtype = ValueType(capture.entry.hook, context_.compute_dtype),
        .shape = ShapeOf(capture.entry, value.selection, planned)};
    RETURN_IF_ERROR(CheckValueBytes(capture, selected, planned));
    ASSIGN_OR_RETURN(value.parts, PlanParts(capture.reduction, selected,
                                            capture.wire_type, capture.field));
    return value;
  }

  int64_t SizeIn(const PlannedRun& run, Dimension dimension) const {
    return SizeOf(dimension, context_.spec,
                  static_cast<int64_t>(run.ids.size()));
  }

  std::vector<int64_t> ShapeOf(const HookEntry& entry,
                               const ResolvedSelection& selection,
                               const PlannedRun& run) const {
    std::vector<int64_t> shape;
    for (size_t axis = 0; axis < entry.dimensions.size(); ++axis) {
      const std::vector<int64_t>* kept = KeptIndices(selection, entry, axis);
      shape.push_back(kept == nullptr ? SizeIn(run, entry.dimensions[axis])
                                      : static_cast<int64_t>(kept->size()));
    }
    return shape;
  }

  absl::Status CheckValueBytes(const CaptureRequest& capture,
                               const SelectedValue& selected,
                               const PlannedRun& run) const {
    // Columns are made whether they are selected or not.
    std::vector<int64_t> made = selected.shape;
    made.back() = SizeIn(run, capture.entry.dimensions.back());
    const int64_t made_bytes =
        SaturatingMultiply(Product(made), SizeInBytes(selected.dtype));
    const int64_t allowed = context_.limits.max_value_bytes;
    if (made_bytes <= allowed) return absl::OkStatus();
    return TooManyBytes(
        capture.field,
        absl::StrCat(capture.entry.name, " of run ", Quoted(run.label),
                     " has, before selection of columns and reduction,"),
        made_bytes, allowed);
  }

  absl::Status AddPoint(const CaptureRequest& capture, int run, HookPoint point,
                        const RunValue& value) {
    if (capture.capture.label().empty()) {
      RETURN_IF_ERROR(
          labels_.AddDefault(capture.index, point, run, plan_.runs[run].label));
    }
    index_count_ += IndexCount(value.selection) + IndexCount(capture.reduction);
    if (index_count_ > context_.limits.max_selected_indices) {
      return InvalidField(
          {.field = capture.field,
           .problem = absl::StrCat("brings the request to ", index_count_,
                                   " selected indices and token ids"),
           .valid =
               absl::StrCat("at most ", context_.limits.max_selected_indices)});
    }
    plan_.captures.push_back(
        {.point = point,
         .read_at = ReadPoint(point),
         .run = run,
         .selection = value.selection,
         .reduction = capture.reduction,
         .first_tensor = static_cast<int>(plan_.tensors.size())});
    for (const TensorPart& part : value.parts) {
      AddTensor(capture, run, point, part);
    }
    return absl::OkStatus();
  }

  void AddTensor(const CaptureRequest& capture, int run, HookPoint point,
                 const TensorPart& part) {
    const std::string& label = capture.capture.label();
    const int64_t size_bytes =
        SaturatingMultiply(Product(part.shape), SizeInBytes(part.dtype));
    plan_.tensors.push_back({.label = label.empty() ? FullName(point) : label,
                             .run = run,
                             .point = point,
                             .part = part.name,
                             .dtype = part.dtype,
                             .shape = part.shape,
                             .dimension_names = part.dimension_names,
                             .size_bytes = size_bytes});
    plan_.size_bytes = SaturatingAdd(plan_.size_bytes, size_bytes);
  }

  const v1::TraceRequest& request_;
  const PlanContext& context_;
  TracePlan& plan_;
  CaptureLabels labels_;
  int64_t tensor_count_ = 0;
  int64_t index_count_ = 0;
};

}  // namespace

absl::Status PlanCaptures(const v1::TraceRequest& request,
                          const PlanContext& context, TracePlan& plan) {
  return CapturePlanner(request, context, plan).PlanAll();
}

}  // namespace phitap
