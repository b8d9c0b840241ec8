// The caller's program, its constants and the tensors kept on the server, as
// nodes of the plan.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PLAN_PROGRAM_H_
#define PHITAP_SERVER_PLAN_PLAN_PROGRAM_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/intervention.pb.h"
#include "phitap/v1/program.pb.h"
#include "server/plan/inline_tensor.h"
#include "server/plan/named_sources.h"
#include "server/plan/plan_parts.h"
#include "server/plan/run_value.h"

namespace phitap {

// Program nodes by the caller's name.
class NodeIndex {
 public:
  // INVALID_ARGUMENT against `field`, with the nearest names.
  absl::StatusOr<int> Find(absl::string_view name,
                           absl::string_view field) const;
  absl::flat_hash_map<std::string, int> nodes;
};

// Adds the request's program. Cycles are refused, naming the nodes.
absl::StatusOr<NodeIndex> PlanProgram(const PlanParts& parts);

// Encode, the features' activation and decode of a dictionary; see the message.
// `x` is a node [..., in]; the result [..., features].
absl::StatusOr<int> AddEncode(const PlanParts& parts,
                              const v1::Dictionary& dictionary, int x,
                              absl::string_view field);
// `features` [..., features]; the result [..., out].
absl::StatusOr<int> AddDecode(const PlanParts& parts,
                              const v1::Dictionary& dictionary, int features,
                              absl::string_view field);

// A metric of a run as a node of one element, shape []. `run` −1 takes the
// message's own.
absl::StatusOr<int> AddMetric(const PlanParts& parts, const NodeIndex& nodes,
                              const v1::Metric& metric, int run,
                              absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PLAN_PROGRAM_H_
