// Rows of earlier waves that later ones go on from.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_KEPT_ROOTS_H_
#define PHITAP_SERVER_TRACE_KEPT_ROOTS_H_

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/model/row_states.h"
#include "server/plan/executor.h"

namespace phitap {

// Not thread-safe.
class KeptRoots {
 public:
  // Null where there is none of that name.
  std::shared_ptr<const RowStates> Find(RootId root) const {
    const auto found = roots_.find(root);
    return found == roots_.end() ? nullptr : found->second;
  }
  void Keep(RootId root, std::shared_ptr<const RowStates> states) {
    roots_[root] = std::move(states);
  }
  // Whoever has found it may go on using it.
  void Forget(RootId root) { roots_.erase(root); }

 private:
  absl::flat_hash_map<RootId, std::shared_ptr<const RowStates>> roots_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_KEPT_ROOTS_H_
