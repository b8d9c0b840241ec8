// Names that a caller may have meant.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_NEAREST_H_
#define PHITAP_SERVER_PLAN_PROGRAM_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace phitap {

// What to offer in place of `name`: `nearest are "a", "b", "c"`, or `the
// request has no KINDS` where there are no names. Long names are compared by
// their first 64 bytes.
std::string NearestQuoted(absl::string_view name,
                          std::vector<std::string> names,
                          absl::string_view kinds);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_NEAREST_H_
