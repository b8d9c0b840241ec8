#include "server/plan/program/node_walk.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace phitap {

std::vector<int> NodesBelow(const TracePlan& plan, int node) {
  std::vector<int> found = {node};
  absl::flat_hash_set<int> seen = {node};
  for (size_t i = 0; i < found.size(); ++i) {
    for (int input : plan.nodes[found[i]].inputs) {
      if (seen.insert(input).second) found.push_back(input);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace phitap
