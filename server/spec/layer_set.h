// Sets of layers as they are written in hook-point names.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SPEC_LAYER_SET_H_
#define PHITAP_SERVER_SPEC_LAYER_SET_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phitap {

// Reads `5`, `-1` (the last), `8-15` (both ends), `*`, or several of these in
// braces, `{0,5,8-10}`: the layers, ascending, without repeats.
// INVALID_ARGUMENT against `field` for a layer that a model of `layer_count`
// layers lacks, an empty or descending range, or another form.
absl::StatusOr<std::vector<int>> ParseLayers(absl::string_view text,
                                             int64_t layer_count,
                                             absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_SPEC_LAYER_SET_H_
