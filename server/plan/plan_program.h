// The caller's program, its constants and the tensors kept on the server, as
// nodes of the plan.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PLAN_PROGRAM_H_
#define PHITAP_SERVER_PLAN_PLAN_PROGRAM_H_

#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/intervention.pb.h"
#include "phitap/v1/program.pb.h"
#include "phitap/v1/tensor.pb.h"
#include "phitap/v1/trace.pb.h"
#include "server/base/host_tensor.h"
#include "server/plan/plan_context.h"
#include "server/plan/plan_runs.h"
#include "server/plan/program_builder.h"

namespace phitap {

// What parts of one request share while it is planned; all outlive it.
struct PlanParts {
  const v1::TraceRequest& request;
  const PlanContext& context;
  const RunIndex& runs;
  TracePlan& plan;
  ProgramBuilder& builder;
};

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

// A small tensor of a request. INVALID_ARGUMENT where type, shape and bytes
// disagree or an element is not finite.
absl::StatusOr<HostTensor> InlineTensor(const v1::Tensor& tensor,
                                        absl::string_view field);
// One of the request's constants, by name.
absl::StatusOr<int> AddNamedConstant(const PlanParts& parts,
                                     absl::string_view name,
                                     absl::string_view field);
// A tensor kept on the server.
absl::StatusOr<int> AddKeptTensor(const PlanParts& parts,
                                  absl::string_view name,
                                  absl::string_view field);

// Where a value of a run is taken from if the message leaves it open.
struct RunValueDefaults {
  // −1: the run must be named.
  int run = -1;
  // Unset: the hook point must be named.
  std::optional<HookPoint> point;
  // Unset: all of it. Used as it is for the run that is named, if it has as
  // many tokens; a position past its end is an error.
  std::optional<ResolvedSelection> selection;
};
absl::StatusOr<RunRead> ResolveRunValue(const PlanParts& parts,
                                        const v1::RunValue& value,
                                        const RunValueDefaults& defaults,
                                        absl::string_view field);

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
