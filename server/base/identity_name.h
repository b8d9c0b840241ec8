// Names of those who may call.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_IDENTITY_NAME_H_
#define PHITAP_SERVER_BASE_IDENTITY_NAME_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phitap {

// INVALID_ARGUMENT against `field` unless `name` has 1 to 64 letters, digits
// and `_ - . @`, the first of them no `.`: it is safe as a folder's name and in
// a line of a log.
absl::Status CheckIdentityName(absl::string_view name, absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_BASE_IDENTITY_NAME_H_
