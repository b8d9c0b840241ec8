// Constants of a request and tensors kept on the server, as nodes: one each,
// however many places name it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_NAMED_SOURCES_H_
#define PHITAP_SERVER_PLAN_PROGRAM_NAMED_SOURCES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/plan/program/plan_parts.h"

namespace phitap {

// One of the request's constants. INVALID_ARGUMENT against `field`, with the
// nearest names, or against the constant itself where it is no tensor.
absl::StatusOr<int> AddNamedConstant(const PlanParts& parts,
                                     absl::string_view name,
                                     absl::string_view field);

// Every constant, also those that nothing uses: one that is no tensor is an
// error.
absl::Status AddConstants(const PlanParts& parts);

// A tensor kept on the server. NOT_FOUND against `field`, with the nearest
// names.
absl::StatusOr<int> AddKeptTensor(const PlanParts& parts,
                                  absl::string_view name,
                                  absl::string_view field);

// The same, or −1 where the server keeps no tensor of this name.
absl::StatusOr<int> AddKeptTensorIfThere(const PlanParts& parts,
                                         absl::string_view name,
                                         absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_NAMED_SOURCES_H_
