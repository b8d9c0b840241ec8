// Selections as people type them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_INDEX_TEXT_H_
#define PHITAP_CLIENT_CLI_INDEX_TEXT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/selection.pb.h"

namespace phitap::cli {

// Indices and ranges between commas: `-1`, `3:8`, `0,4:10:2,-1`, `:5`, `7:`.
// Negative ones count from the end, a range ends before its second number; the
// order is kept. INVALID_ARGUMENT against `field` otherwise.
absl::StatusOr<v1::IndexSet> ParseIndices(absl::string_view text,
                                          absl::string_view field);

// Token ids between commas: `1,5,9`.
absl::StatusOr<std::vector<int32_t>> ParseIds(absl::string_view text,
                                              absl::string_view field);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_INDEX_TEXT_H_
