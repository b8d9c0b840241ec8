// Dictionaries (sparse autoencoders, transcoders) as nodes.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_DICTIONARY_NODES_H_
#define PHITAP_SERVER_PLAN_PROGRAM_DICTIONARY_NODES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/intervention.pb.h"
#include "server/plan/program/plan_parts.h"

namespace phitap {

// `field` is the dictionary's own path, e.g. `program.nodes[2].encode
// .dictionary`. NOT_FOUND where the server keeps no tensor of a name that is
// needed; INVALID_ARGUMENT, naming the tensor, where shapes do not fit.

// `x` is a node [..., in]; the result, activation included, [..., features].
absl::StatusOr<int> AddEncode(const PlanParts& parts,
                              const v1::Dictionary& dictionary, int x,
                              absl::string_view field);
// `features` is a node [..., features]; the result [..., out].
absl::StatusOr<int> AddDecode(const PlanParts& parts,
                              const v1::Dictionary& dictionary, int features,
                              absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_DICTIONARY_NODES_H_
