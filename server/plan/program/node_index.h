// Program nodes by the caller's name.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_NODE_INDEX_H_
#define PHITAP_SERVER_PLAN_PROGRAM_NODE_INDEX_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phitap {

class NodeIndex {
 public:
  // INVALID_ARGUMENT against `field`, with the nearest names.
  absl::StatusOr<int> Find(absl::string_view name,
                           absl::string_view field) const;
  absl::flat_hash_map<std::string, int> nodes;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_NODE_INDEX_H_
