// Whether PEM files hold what they are meant to.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_IDENTITY_PEM_FILES_H_
#define PHITAP_SERVER_IDENTITY_PEM_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phitap {

// A certificate, the key that it is for, and what errors call their files.
struct KeyPairFiles {
  std::string certificate_path;
  std::string certificate_field;
  std::string key_path;
  std::string key_field;
};

// Whether the files can be read and belong together: see ReadPrivateFile for
// the key's. INVALID_ARGUMENT names the field, the file and what is wrong.
absl::Status CheckKeyPair(const KeyPairFiles& files);

// Whether the file holds one certificate or more. Errors as CheckKeyPair.
absl::Status CheckCertificates(const std::string& path,
                               absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_IDENTITY_PEM_FILES_H_
