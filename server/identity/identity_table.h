// Everybody who may call by name.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_IDENTITY_IDENTITY_TABLE_H_
#define PHITAP_SERVER_IDENTITY_IDENTITY_TABLE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/identity/identity.h"
#include "server/identity/token.h"

namespace phitap {

// An identity and how it shows that it is it.
struct Credentials {
  Identity identity;
  std::vector<TokenHash> tokens;
  // Names in client certificates: a subject alternative name or the common
  // name.
  std::vector<std::string> certificates;
};

// Immutable once it is filled.
class IdentityTable {
 public:
  // What a file of tokens holds, an object of JSON:
  //   {"identities": [{
  //     "name": "alice",                       see CheckIdentityName
  //     "roles": ["trace", "tensors"],         see Role
  //     "tokens": ["sha256:SALT:HASH"],        see TokenHash
  //     "certificates": ["alice.lab.example"],
  //     "quotas": {"max_requests": 8, "max_queued_bytes": 1073741824,
  //                "max_tokens_per_minute": 100000,
  //                "max_tensor_bytes": 1073741824}}]}
  // All but the name and the roles may be left out. INVALID_ARGUMENT names
  // `source`, the path within it, what is wrong and what would be valid; a
  // token or what might be one is never shown.
  static absl::StatusOr<IdentityTable> Parse(absl::string_view text,
                                             absl::string_view source);

  // INVALID_ARGUMENT against `field` if the name, a token or a certificate is
  // another's already.
  absl::Status Add(Credentials credentials, absl::string_view field);

  // Null where nobody has it.
  std::shared_ptr<const Identity> OfToken(absl::string_view token) const;
  std::shared_ptr<const Identity> OfCertificate(absl::string_view name) const;

  // By name.
  const std::map<std::string, std::shared_ptr<const Identity>>& all() const {
    return identities_;
  }

 private:
  struct KnownToken {
    TokenHash hash;
    std::shared_ptr<const Identity> identity;
  };

  std::map<std::string, std::shared_ptr<const Identity>> identities_;
  // By salt.
  std::map<std::string, KnownToken> tokens_;
  std::map<std::string, std::shared_ptr<const Identity>, std::less<>>
      certificates_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_IDENTITY_IDENTITY_TABLE_H_
