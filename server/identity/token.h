// The secret by which a caller shows who it is.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_IDENTITY_TOKEN_H_
#define PHITAP_SERVER_IDENTITY_TOKEN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phitap {

// A token is `phitap_SALT_SECRET`, 16 and 32 random bytes in hexadecimal. What
// is kept of it is `sha256:SALT:HASH`, with the SHA-256 of the whole token. It
// carries its own salt, so that one hash tells whether it is known, however
// many there are, and nothing has to be remembered of those that came; its
// secret cannot be guessed, so that no slow hash is needed.
std::string NewToken();

// Whether a text holds a token, a hash or a good part of one, as far as can be
// told: more hexadecimal digits in a row than a number has. It is not shown.
bool MayHoldSecret(absl::string_view text);

// The salt of what looks like a token; it is no secret.
std::optional<std::string> SaltOf(absl::string_view token);

// What is kept of a token. Immutable.
class TokenHash {
 public:
  // Of what looks like a token: see SaltOf.
  static std::optional<TokenHash> Of(absl::string_view token);
  // INVALID_ARGUMENT against `field`, without the text: it might be a token.
  static absl::StatusOr<TokenHash> Parse(absl::string_view text,
                                         absl::string_view field);

  // Takes as long whatever differs.
  bool Matches(absl::string_view token) const;
  const std::string& salt() const { return salt_; }
  // As Parse takes it.
  std::string text() const;

 private:
  TokenHash(std::string salt, std::string digest)
      : salt_(std::move(salt)), digest_(std::move(digest)) {}

  // Both in lower-case hexadecimal.
  std::string salt_;
  std::string digest_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_IDENTITY_TOKEN_H_
