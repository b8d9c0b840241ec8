// Errors about a caller's input: one sentence that names the field, the value
// and what would be valid. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_FIELD_ERROR_H_
#define PHITAP_SERVER_BASE_FIELD_ERROR_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phitap {

struct FieldError {
  // Path of the offending field, e.g. `runs[2].prompt.tokens.ids[3]` or
  // `--listen` or `config.json: rope_scaling.type`.
  std::string field;
  // The value and what is wrong with it, e.g. `layer 40 is past the last`.
  std::string problem;
  // What would be valid, e.g. `0 to 31`; empty where the problem says it.
  std::string valid;
};

// "FIELD: PROBLEM; valid: VALID" as INVALID_ARGUMENT, or as `code`. The field
// travels along as a payload, see FieldOf.
absl::Status InvalidField(
    const FieldError& error,
    absl::StatusCode code = absl::StatusCode::kInvalidArgument);

// The field of a status made by InvalidField, else "".
std::string FieldOf(const absl::Status& status);

// Up to `count` of `choices` nearest to `name` by edit distance, best first.
std::vector<std::string> NearestNames(absl::string_view name,
                                      const std::vector<std::string>& choices,
                                      int count);

}  // namespace phitap

#endif  // PHITAP_SERVER_BASE_FIELD_ERROR_H_
