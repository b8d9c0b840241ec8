// Edits of a dictionary's features.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_LOWER_DICTIONARY_H_
#define PHITAP_SERVER_PLAN_EDITS_LOWER_DICTIONARY_H_

#include "absl/status/statusor.h"
#include "phitap/v1/intervention.pb.h"
#include "server/plan/edits/part_nodes.h"

namespace phitap {

// x + (f′ − f) W_dec, over the edited features E alone: f = encode(x)[E], f′
// its edited copy, W_dec the rows E; with drop_error decode(encode(x) with f′).
// Only the rows E of the encoder are computed unless its activation is TOP_K
// or drop_error is set. INVALID_ARGUMENT, NOT_FOUND for a tensor that is not
// kept, against a field under the part's.
absl::StatusOr<int> LowerDictionary(PartNodes& nodes,
                                    const v1::DictionaryEdit& edit);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_LOWER_DICTIONARY_H_
