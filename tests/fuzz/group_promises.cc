#include "tests/fuzz/group_promises.h"

#include <cstddef>
#include <set>
#include <variant>
#include <vector>

#include "tests/fuzz/ascending.h"
#include "tests/fuzz/expect.h"

namespace phitap {
namespace {

constexpr int kNoGroup = -1;

class OrderChecker {
 public:
  explicit OrderChecker(const TracePlan& plan)
      : plan_(plan),
        group_of_run_(plan.runs.size(), kNoGroup),
        group_of_pass_(plan.gradient_passes.size(), kNoGroup),
        pass_of_node_(plan.nodes.size(), kNoGroup),
        ended_before_(plan.groups.size()) {}

  void CheckAll() {
    for (size_t i = 0; i < plan_.groups.size(); ++i) {
      AddGroup(static_cast<int>(i));
    }
    for (const int group : group_of_run_) {
      Expect(group != kNoGroup, "a run is in a group");
    }
    for (size_t pass = 0; pass < group_of_pass_.size(); ++pass) {
      Expect(group_of_pass_[pass] != kNoGroup, "a gradient is in a group");
      AddPass(static_cast<int>(pass));
    }
    for (const PlannedWrite& write : plan_.writes) {
      const int group = group_of_run_[write.run];
      CheckKnown(write.value, group);
      if (write.condition >= 0) {
        CheckKnown(write.condition, group);
      }
    }
    for (size_t pass = 0; pass < group_of_pass_.size(); ++pass) {
      CheckKnown(plan_.gradient_passes[pass].metric, group_of_pass_[pass]);
    }
  }

 private:
  void AddGroup(int index) {
    const RunGroup& group = plan_.groups[index];
    Expect(!group.runs.empty(), "a group has runs");
    Expect(AscendsBefore(group.after, index), "groups come after earlier ones");
    std::set<int>& ended = ended_before_[index];
    for (const int before : group.after) {
      ended.insert(before);
      ended.insert(ended_before_[before].begin(), ended_before_[before].end());
    }
    if (group.gradient_pass >= 0) {
      Expect(group.gradient_pass < static_cast<int>(group_of_pass_.size()) &&
                 group_of_pass_[group.gradient_pass] == kNoGroup,
             "a gradient is in one group");
      group_of_pass_[group.gradient_pass] = index;
      return;
    }
    for (const int run : group.runs) {
      Expect(run >= 0 && run < static_cast<int>(group_of_run_.size()) &&
                 group_of_run_[run] == kNoGroup,
             "a run is in one group");
      group_of_run_[run] = index;
    }
  }

  void AddPass(int index) {
    const GradientPass& pass = plan_.gradient_passes[index];
    const RunGroup& group = plan_.groups[group_of_pass_[index]];
    Expect(group.runs == std::vector<int>{pass.run},
           "a gradient's group has its run");
    for (const int node : pass.gradients) {
      Expect(node >= 0 && node < static_cast<int>(plan_.nodes.size()) &&
                 std::holds_alternative<GradientValue>(
                     plan_.nodes[node].operation) &&
                 pass_of_node_[node] == kNoGroup,
             "a gradient is filled in by one pass");
      pass_of_node_[node] = index;
    }
  }

  // Every value below `node` is there when `group` needs it.
  void CheckKnown(int node, int group) {
    std::vector<bool> seen(plan_.nodes.size(), false);
    std::vector<int> open = {node};
    while (!open.empty()) {
      const int next = open.back();
      open.pop_back();
      if (seen[next]) continue;
      seen[next] = true;
      const ProgramNode& known = plan_.nodes[next];
      open.insert(open.end(), known.inputs.begin(), known.inputs.end());
      if (const auto* read = std::get_if<RunRead>(&known.operation)) {
        const int made = group_of_run_[read->run];
        Expect(made == group || ended_before_[group].count(made) > 0,
               "a value that is read is there before");
      } else if (std::holds_alternative<GradientValue>(known.operation)) {
        Expect(pass_of_node_[next] != kNoGroup, "a gradient has a pass");
        const int made = group_of_pass_[pass_of_node_[next]];
        Expect(ended_before_[group].count(made) > 0,
               "a gradient that is used is there before");
      }
    }
  }

  const TracePlan& plan_;
  std::vector<int> group_of_run_;
  std::vector<int> group_of_pass_;
  std::vector<int> pass_of_node_;
  // Of each group: all that have ended before it begins.
  std::vector<std::set<int>> ended_before_;
};

}  // namespace

void ExpectOrder(const TracePlan& plan) { OrderChecker(plan).CheckAll(); }

}  // namespace phitap
