#include "server/plan/memory/working_bytes.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/captures/reduction.h"
#include "server/plan/edits/edited_part.h"
#include "server/plan/memory/forward_bytes.h"
#include "server/plan/memory/node_bytes.h"
#include "server/plan/program/shapes.h"
#include "server/plan/saturating.h"
#include "server/plan/sharing/own_tokens.h"

namespace phitap {
namespace {

// A kind of bytes: what it is called in a refusal, and how many.
struct Part {
  std::string name;
  int64_t size_bytes = 0;
};

int64_t TotalOf(const std::vector<Part>& parts) {
  int64_t total = 0;
  for (const Part& part : parts) total = SaturatingAdd(total, part.size_bytes);
  return total;
}

int64_t TokenCount(const PlannedRun& run) {
  return static_cast<int64_t>(run.ids.size());
}

int64_t HeadPositions(const PlannedRun& run) {
  return static_cast<int64_t>(run.reach.norm_positions.size());
}

class WorkspaceCounter {
 public:
  WorkspaceCounter(const PlanContext& context, TracePlan& plan)
      : context_(context),
        plan_(plan),
        forward_(context.spec, context.compute_dtype, plan.numerics),
        nodes_(CountNodeBytes(plan, context.compute_dtype)) {}

  // Held from the first wave to the last.
  std::vector<Part> Held() const {
    Part keys = {.name = "keys and values of runs that generate"};
    for (const PlannedRun& run : plan_.runs) {
      if (!run.generation.has_value()) continue;
      Add(forward_.KeysAndValues(TokenCount(run) + run.generation->max_tokens),
          keys.size_bytes);
    }
    return {
        {.name = "constants and kept tensors", .size_bytes = nodes_.constants},
        {.name = "values read for programs, edits and metrics",
         .size_bytes = nodes_.held},
        std::move(keys)};
  }

  // Of a wave with the largest group; fills in those of all groups.
  std::vector<Part> OfWave() {
    CountPatterns();
    Part largest = {.name = "what a group's tokens need on their way"};
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      RunGroup& group = plan_.groups[g];
      group.workspace_bytes = OfGroup(group);
      Add(nodes_.of_group[g], group.workspace_bytes);
      largest.size_bytes = std::max(largest.size_bytes, group.workspace_bytes);
    }
    return {std::move(largest),
            {.name = "what prompts have in common", .size_bytes = CommonRows()},
            {.name = "one step of attention, a program or a reduction",
             .size_bytes = LargestStep()}};
  }

 private:
  static void Add(int64_t more, int64_t& sum) {
    sum = SaturatingAdd(sum, more);
  }

  int64_t OfGroup(const RunGroup& group) const {
    if (group.gradient_pass >= 0) {
      const int64_t count = TokenCount(plan_.runs[group.runs.front()]);
      const ForwardBytes library(context_.spec, context_.compute_dtype,
                                 Numerics::kTransformers);
      return SaturatingAdd(library.Graph(count, plan_.attention),
                           Lines(library, count, count));
    }
    int64_t size_bytes = 0;
    for (const int run : group.runs) Add(OfRun(run), size_bytes);
    return size_bytes;
  }

  static int64_t Lines(const ForwardBytes& forward, int64_t token_count,
                       int64_t head_positions) {
    return SaturatingAdd(
        SaturatingMultiply(token_count, forward.Token()),
        SaturatingMultiply(head_positions, forward.HeadPosition()));
  }

  int64_t OfRun(int index) const {
    const PlannedRun& run = plan_.runs[index];
    int64_t size_bytes =
        Lines(forward_, run.own_token_count, HeadPositions(run));
    if (!run.hidden_positions.empty()) {
      Add(forward_.HidingMasks(TokenCount(run)), size_bytes);
    }
    const auto patterns = largest_pattern_.find(index);
    if (patterns != largest_pattern_.end()) Add(patterns->second, size_bytes);
    return size_bytes;
  }

  // Rows that nobody asked for, of what runs of other waves than their first
  // have in common with it; and what their children ask of them.
  int64_t CommonRows() const {
    std::vector<int> group_of(plan_.runs.size());
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      for (const int run : plan_.groups[g].runs) {
        group_of[run] = static_cast<int>(g);
      }
    }
    int64_t size_bytes = 0;
    if (plan_.runs.size() < 2) return size_bytes;
    for (const std::vector<int>& alike : AlikeRuns(plan_)) {
      if (alike.size() < 2) continue;
      bool together = true;
      int64_t head_positions = 0;
      for (const int run : alike) {
        together &= group_of[run] == group_of[alike.front()];
        head_positions =
            std::max(head_positions, HeadPositions(plan_.runs[run]));
      }
      const int64_t token_count = TokenCount(plan_.runs[alike.front()]);
      Add(Lines(forward_, together ? 0 : token_count, head_positions),
          size_bytes);
    }
    return size_bytes;
  }

  int64_t BytesOf(const PlannedCapture& capture) const {
    const std::vector<int64_t> shape =
        SelectedShape(capture.point.hook, capture.selection, context_.spec,
                      TokenCount(plan_.runs[capture.run]));
    return SaturatingMultiply(
        SaturatingElements(shape),
        SizeInBytes(ValueType(capture.point.hook, context_.compute_dtype)));
  }

  // Of each run, in the layer where they are most: gathered query by query.
  void CountPatterns() {
    absl::flat_hash_map<std::pair<int, int>, int64_t> by_layer;
    for (const PlannedCapture& capture : plan_.captures) {
      if (!IsPattern(capture.point.hook)) continue;
      int64_t& sum = by_layer[{capture.run, capture.point.layer}];
      Add(BytesOf(capture), sum);
      int64_t& largest = largest_pattern_[capture.run];
      largest = std::max(largest, sum);
    }
  }

  bool ComputesPatterns() const {
    if (plan_.attention == Attention::kEager || !largest_pattern_.empty()) {
      return true;
    }
    return std::any_of(
        plan_.nodes.begin(), plan_.nodes.end(), [](const ProgramNode& node) {
          const auto* read = std::get_if<RunRead>(&node.operation);
          return read != nullptr && IsPattern(read->point.hook);
        });
  }

  int64_t LargestStep() const {
    int64_t token_count = 0;
    for (const PlannedRun& run : plan_.runs) {
      token_count = std::max(
          token_count,
          TokenCount(run) +
              (run.generation.has_value() ? run.generation->max_tokens : 0));
    }
    const int64_t call = forward_.AttentionCall(
        token_count, ComputesPatterns() ? ForwardBytes::Pattern::kComputed
                                        : ForwardBytes::Pattern::kNone);
    // A value on its own, in float32 and as it is sorted or summed.
    int64_t reduction = 0;
    for (const PlannedCapture& capture : plan_.captures) {
      reduction = std::max(reduction, SaturatingMultiply(6, BytesOf(capture)));
      if (std::holds_alternative<LogitLensReduction>(capture.reduction)) {
        reduction = std::max(reduction, forward_.LensBlock());
      }
    }
    return SaturatingAdd(
        forward_.Padding(),
        SaturatingAdd(call, std::max(reduction, nodes_.largest_step)));
  }

  const PlanContext& context_;
  TracePlan& plan_;
  const ForwardBytes forward_;
  const NodeBytes nodes_;
  absl::flat_hash_map<int, int64_t> largest_pattern_;
};

// A value that is sent as it is may be a view (see TracePlan::storage_bytes);
// what is reduced, cast, gathered or computed is not.
int64_t StorageBytes(const PlanContext& context, const TracePlan& plan) {
  int64_t size_bytes = plan.size_bytes;
  for (const PlannedCapture& capture : plan.captures) {
    const Hook hook = capture.point.hook;
    if (IsPattern(hook) ||
        !std::holds_alternative<std::monostate>(capture.reduction)) {
      continue;
    }
    for (size_t i = 0; i < capture.steps.size(); ++i) {
      const PlannedTensor& tensor =
          plan.tensors[capture.first_tensor + static_cast<int>(i)];
      if (tensor.dtype != ValueType(hook, context.compute_dtype)) continue;
      size_bytes = SaturatingAdd(size_bytes, tensor.size_bytes);
    }
  }
  return size_bytes;
}

// OK where the parts are no more than `allowed`.
absl::Status CheckParts(std::vector<Part> parts, absl::string_view when,
                        int64_t allowed) {
  const int64_t total = TotalOf(parts);
  if (total <= allowed) return absl::OkStatus();
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.size_bytes > b.size_bytes;
  });
  return InvalidField(
      {.field = "runs",
       .problem = absl::StrCat("the server would hold ", total,
                               " bytes besides the answer ", when, ", ",
                               parts[0].size_bytes, " of them ", parts[0].name),
       .valid = absl::StrCat("at most ", allowed, " bytes")},
      absl::StatusCode::kResourceExhausted);
}

}  // namespace

absl::Status CountWorkingBytes(const PlanContext& context, TracePlan& plan) {
  WorkspaceCounter counter(context, plan);
  const std::vector<Part> held = counter.Held();
  const std::vector<Part> of_wave = counter.OfWave();
  plan.storage_bytes = StorageBytes(context, plan);
  plan.working_bytes = TotalOf(held);
  plan.workspace_bytes = TotalOf({of_wave.begin() + 1, of_wave.end()});
  RETURN_IF_ERROR(
      CheckParts(held, "from wave to wave", context.limits.max_working_bytes));
  return CheckParts(of_wave, "in one wave", context.limits.max_wave_bytes);
}

}  // namespace phitap
