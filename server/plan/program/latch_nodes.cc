#include "server/plan/program/latch_nodes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/program/node_walk.h"
#include "server/plan/wire_type.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

absl::Status Refuse(absl::string_view field, std::string problem,
                    std::string valid) {
  return InvalidField({.field = std::string(field),
                       .problem = std::move(problem),
                       .valid = std::move(valid)});
}

// Whether the read is of the prompt's last position and can be of a later
// token's as well.
bool IsOfLastPosition(const RunRead& read, int64_t token_count) {
  const std::vector<Dimension>& dimensions =
      EntryOf(read.point.hook).dimensions;
  const auto has = [&](Dimension dimension) {
    return std::find(dimensions.begin(), dimensions.end(), dimension) !=
           dimensions.end();
  };
  if (has(Dimension::kQuery)) return false;
  if (!has(Dimension::kSeq)) return true;
  if (!read.selection.positions.has_value()) return token_count == 1;
  return *read.selection.positions == std::vector{token_count - 1};
}

// Makes one latch.
class LatchMaker {
 public:
  LatchMaker(const PlanParts& parts, absl::string_view field)
      : parts_(parts), field_(field) {}

  absl::StatusOr<int> Make(int input) {
    for (int node : NodesBelow(parts_.plan, input)) {
      RETURN_IF_ERROR(Copy(node));
    }
    if (run_ < 0) {
      return Refuse(field_, "the latch looks at no run",
                    "an input that depends on a run that generates");
    }
    RETURN_IF_ERROR(CheckRun());
    return parts_.builder.Add(LatchOp{.run = run_}, {CopyOfNode(input)},
                              field_);
  }

 private:
  int CopyOfNode(int node) const {
    const auto found = copies_.find(node);
    return found == copies_.end() ? node : found->second;
  }

  absl::Status Copy(int index) {
    // By value: adding nodes moves them.
    const ProgramNode node = parts_.plan.nodes[index];
    if (const auto* read = std::get_if<RunRead>(&node.operation)) {
      ASSIGN_OR_RETURN(copies_[index], CopyRead(*read, node.field));
      return absl::OkStatus();
    }
    if (std::holds_alternative<GradientValue>(node.operation) ||
        std::holds_alternative<NoiseValue>(node.operation) ||
        std::holds_alternative<LatchOp>(node.operation)) {
      return Refuse(field_,
                    absl::StrCat("the latch depends on ", node.field,
                                 ", which is a gradient, noise or a latch"),
                    "values of one run and constants");
    }
    std::vector<int> inputs;
    bool is_same = true;
    for (int input : node.inputs) {
      inputs.push_back(CopyOfNode(input));
      is_same &= inputs.back() == input;
    }
    if (is_same) return absl::OkStatus();
    if (std::holds_alternative<ReshapeOp>(node.operation)) {
      ASSIGN_OR_RETURN(copies_[index], parts_.builder.AddReshape(
                                           inputs[0], node.shape, node.field));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(
        copies_[index],
        parts_.builder.Add(node.operation, std::move(inputs), node.field));
    return absl::OkStatus();
  }

  absl::StatusOr<int> CopyRead(RunRead read, absl::string_view read_field) {
    if (run_ >= 0 && read.run != run_) {
      return Refuse(
          field_,
          absl::StrCat("the latch looks at runs ", Quoted(LabelOf(run_)),
                       " and ", Quoted(LabelOf(read.run))),
          "one run");
    }
    run_ = read.run;
    const int64_t token_count =
        static_cast<int64_t>(parts_.plan.runs[run_].ids.size());
    if (!IsOfLastPosition(read, token_count)) {
      return Refuse(field_,
                    absl::StrCat("the latch depends on ", read_field, ", ",
                                 FullName(read.point),
                                 " of other positions than the "
                                 "last"),
                    "values of the last position (-1), which every pass has");
    }
    read.passes = RunRead::Passes::kEvery;
    return parts_.builder.AddRead(std::move(read), read_field);
  }

  const std::string& LabelOf(int run) const {
    return parts_.plan.runs[run].label;
  }

  absl::Status CheckRun() const {
    const PlannedRun& run = parts_.plan.runs[run_];
    if (!run.generation.has_value()) {
      return Refuse(field_,
                    absl::StrCat("run ", Quoted(run.label),
                                 ", which the latch looks at, does not "
                                 "generate"),
                    "a run with generation");
    }
    const std::optional<LongRope>& longrope = parts_.context.spec.longrope;
    const bool keeps =
        parts_.request.options().longrope_cache() == v1::LONGROPE_CACHE_KEEP;
    if (!longrope.has_value() || keeps) return absl::OkStatus();
    const int64_t token_count = static_cast<int64_t>(run.ids.size());
    const int64_t boundary = longrope->original_max_positions;
    if (token_count > boundary ||
        token_count + run.generation->max_tokens <= boundary) {
      return absl::OkStatus();
    }
    return Refuse(
        field_,
        absl::StrCat("run ", Quoted(run.label), " may pass position ", boundary,
                     ", where all is computed again, and the latch would not "
                     "know what held at each token"),
        "options.longrope_cache LONGROPE_CACHE_KEEP, or fewer tokens");
  }

  const PlanParts& parts_;
  const absl::string_view field_;
  int run_ = -1;
  absl::flat_hash_map<int, int> copies_;
};

constexpr int kNoRun = -1;
constexpr int kSeveralRuns = -2;

// For every node the run of the latches below it.
std::vector<int> LatchRuns(const TracePlan& plan) {
  std::vector<int> runs(plan.nodes.size(), kNoRun);
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const ProgramNode& node = plan.nodes[i];
    if (!node.every_pass) continue;
    if (const auto* latch = std::get_if<LatchOp>(&node.operation)) {
      runs[i] = latch->run;
      continue;
    }
    for (int input : node.inputs) {
      if (runs[input] == kNoRun) continue;
      const bool agrees = runs[i] == kNoRun || runs[i] == runs[input];
      runs[i] = agrees ? runs[input] : kSeveralRuns;
    }
  }
  return runs;
}

absl::Status RefuseOutside(const TracePlan& plan, int node) {
  return Refuse(plan.nodes[node].field,
                "depends on a latch, which has a value in each pass of a run",
                "latches in edits of their own run, as `when` or as values");
}

}  // namespace

absl::StatusOr<int> AddLatch(const PlanParts& parts, int input,
                             absl::string_view field) {
  return LatchMaker(parts, field).Make(input);
}

absl::Status CheckLatches(const TracePlan& plan) {
  const std::vector<int> runs = LatchRuns(plan);
  for (const PlannedWrite& write : plan.writes) {
    for (int node : {write.value, write.condition}) {
      if (node < 0 || runs[node] == kNoRun || runs[node] == write.run) continue;
      return Refuse(write.field,
                    absl::StrCat("depends on a latch of another run than ",
                                 Quoted(plan.runs[write.run].label)),
                    "latches of the run that is edited");
    }
  }
  for (const PlannedOutput& output : plan.outputs) {
    if (runs[output.node] != kNoRun) return RefuseOutside(plan, output.node);
  }
  for (const GradientPass& pass : plan.gradient_passes) {
    if (runs[pass.metric] != kNoRun) return RefuseOutside(plan, pass.metric);
  }
  return absl::OkStatus();
}

}  // namespace phitap
