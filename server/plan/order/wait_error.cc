#include "server/plan/order/wait_error.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/plan/program/node_walk.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

// A message stays small however long a chain is.
constexpr size_t kMostLinks = 8;

std::string RunName(const TracePlan& plan, int run) {
  return absl::StrCat("run ", Quoted(plan.runs[run].label));
}

// The first write of the run that needs `vertex` at once.
const PlannedWrite* WriteThatNeeds(const TracePlan& plan,
                                   const WaitGraph& graph, int run,
                                   int vertex) {
  for (int index : graph.WritesOf(run)) {
    const PlannedWrite& write = plan.writes[index];
    const bool has_condition = write.condition >= 0;
    if (graph.VertexOfNode(write.value) == vertex ||
        (has_condition && graph.VertexOfNode(write.condition) == vertex)) {
      return &write;
    }
  }
  return nullptr;
}

// `run "a" (runs[0].interventions[1], layers.2.mlp_output) -> run "b"`: the
// runs and gradients of a way through the graph.
std::string Describe(const TracePlan& plan, const WaitGraph& graph,
                     const std::vector<int>& path) {
  std::vector<std::string> links;
  for (size_t i = 0; i < path.size(); ++i) {
    if (graph.IsPass(path[i])) {
      const GradientPass& pass = plan.gradient_passes[graph.PassOf(path[i])];
      links.push_back(absl::StrCat("a gradient of ", RunName(plan, pass.run)));
    }
    if (!graph.IsRun(path[i])) continue;
    links.push_back(RunName(plan, path[i]));
    if (i + 1 == path.size()) continue;
    const PlannedWrite* write =
        WriteThatNeeds(plan, graph, path[i], path[i + 1]);
    if (write == nullptr) continue;
    absl::StrAppend(&links.back(), " (", write->field, ", ",
                    FullName(write->point), ")");
  }
  if (links.size() > kMostLinks) {
    std::string last = std::move(links.back());
    links.resize(kMostLinks);
    links.push_back("...");
    links.push_back(std::move(last));
  }
  return absl::StrJoin(links, " -> ");
}

// A read below the write that is ready too late, in a run that the write's own
// run and that need each other.
const RunRead* LateRead(const TracePlan& plan, const ModelSpec& spec,
                        const LateWrite& late) {
  const PlannedWrite& write = late.write;
  std::vector<int> below = NodesBelow(plan, write.value);
  if (write.condition >= 0) {
    const std::vector<int> more = NodesBelow(plan, write.condition);
    below.insert(below.end(), more.begin(), more.end());
  }
  for (int node : below) {
    const auto* read = std::get_if<RunRead>(&plan.nodes[node].operation);
    if (read == nullptr || ReadyMoment(*read, spec) <= late.need) continue;
    if (std::binary_search(late.component.begin(), late.component.end(),
                           read->run)) {
      return read;
    }
  }
  return nullptr;
}

}  // namespace

absl::Status ComesTooLate(const TracePlan& plan, const WaitGraph& graph,
                          const ModelSpec& spec, const LateWrite& late) {
  const PlannedWrite& write = late.write;
  const RunRead* read = LateRead(plan, spec, late);
  if (read == nullptr) {
    return absl::InternalError(
        absl::StrCat(write.field, ": no read is ready too late"));
  }
  const std::string problem = absl::StrCat(
      "the edit of ", FullName(write.point), " needs ", FullName(read->point),
      " of ", read->run == write.run ? "its own " : "",
      RunName(plan, read->run), ", which comes later");
  if (read->run == write.run) {
    return InvalidField({.field = write.field,
                         .problem = problem,
                         .valid = "what comes earlier in the run, or a value "
                                  "of another run"});
  }
  return InvalidField(
      {.field = write.field,
       .problem = absl::StrCat(
           problem, " and waits in turn: ",
           Describe(plan, graph, graph.Path(read->run, write.run))),
       .valid = "runs that need only what comes earlier of each other"});
}

absl::Status WaitForEachOther(const TracePlan& plan, const WaitGraph& graph,
                              const std::vector<int>& component) {
  // Away from the first run or pass and back to it.
  const int first = component.front();
  std::vector<int> path = {first};
  for (int need : graph.Needs(first)) {
    if (!std::binary_search(component.begin(), component.end(), need)) continue;
    const std::vector<int> back = graph.Path(need, first);
    path.insert(path.end(), back.begin(), back.end());
    break;
  }
  std::string field = "runs";
  if (graph.IsRun(first)) {
    const PlannedWrite* write = WriteThatNeeds(plan, graph, first, path[1]);
    if (write != nullptr) field = write->field;
  }
  return InvalidField(
      {.field = field,
       .problem = absl::StrCat("runs wait for each other, and cannot share a "
                               "pass: ",
                               Describe(plan, graph, path)),
       .valid = "runs and gradients that do not need each other"});
}

absl::Status WaitAtOnePoint(const TracePlan& plan,
                            const std::vector<const PlannedWrite*>& writes) {
  std::vector<std::string> links;
  for (const PlannedWrite* write : writes) {
    if (links.size() == kMostLinks) {
      links.push_back("...");
      break;
    }
    links.push_back(
        absl::StrCat(RunName(plan, write->run), " (", write->field, ")"));
  }
  links.push_back(RunName(plan, writes.front()->run));
  return InvalidField(
      {.field = writes.front()->field,
       .problem = absl::StrCat(
           "the edits of ", FullName(writes[0]->point),
           " need each other's result: ", absl::StrJoin(links, " -> ")),
       .valid = "values from before the edits (READ_TIME_BEFORE), or from an "
                "earlier hook point"});
}

}  // namespace phitap
