// JSON that nobody vouches for: parsed strictly, or refused in one sentence.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_JSON_H_
#define PHITAP_SERVER_BASE_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phitap {

// `source` names the text in errors, e.g. `config.json`. DATA_LOSS for what is
// not JSON, a key that appears twice, a number out of range, nesting or a
// number of values beyond what a checkpoint or a list of identities needs.
// Never throws.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text,
                                         absl::string_view source);

// A value as messages show it: JSON on one line, long ones cut.
std::string Shown(const nlohmann::json& value);

// A name from a file as messages show it: quoted, unprintable bytes escaped,
// long ones cut.
std::string QuotedName(absl::string_view name);

}  // namespace phitap

#endif  // PHITAP_SERVER_BASE_JSON_H_
