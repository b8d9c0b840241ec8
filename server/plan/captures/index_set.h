// Indices along one dimension, from how a request writes them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_CAPTURES_INDEX_SET_H_
#define PHITAP_SERVER_PLAN_CAPTURES_INDEX_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/selection.pb.h"

namespace phitap {

// A dimension of one value, and what to call it in a refusal.
struct Axis {
  int64_t size = 0;
  // "the 5 tokens of run \"a\"", "the 32 num_heads of attention_queries".
  std::string extent;
};

// The indices of `set`, from 0, in the order given: single ones, then ranges.
// INVALID_ARGUMENT against a field under `field` for an index outside the axis,
// a range that matches nothing, a repeated index, or an empty set.
absl::StatusOr<std::vector<int64_t>> ResolveIndices(const v1::IndexSet& set,
                                                    const Axis& axis,
                                                    absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_CAPTURES_INDEX_SET_H_
