// Files that the administrator keeps to himself.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_IDENTITY_PRIVATE_FILE_H_
#define PHITAP_SERVER_IDENTITY_PRIVATE_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace phitap {

// The file's text. What the system says where it cannot be read;
// FAILED_PRECONDITION for one that others on the machine may read or change, or
// its group change (its group may read it: so it is with mounted secrets);
// INVALID_ARGUMENT for one that is longer than 16 MiB or no regular file. Each
// names the file.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path);

}  // namespace phitap

#endif  // PHITAP_SERVER_IDENTITY_PRIVATE_FILE_H_
