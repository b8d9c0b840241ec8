#include "server/identity/token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/field_error.h"

namespace phitap {
namespace {

constexpr char kPrefix[] = "phitap";
constexpr char kAlgorithm[] = "sha256";
constexpr size_t kSaltBytes = 16;
constexpr size_t kSecretBytes = 32;
constexpr size_t kDigestBytes = 32;
constexpr size_t kDigitsOfANumber = 20;

std::string Random(size_t bytes) {
  std::string random(bytes, '\0');
  // Without randomness nothing can be kept secret.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()),
                 static_cast<int>(bytes)) != 1) {
    std::abort();
  }
  return absl::BytesToHexString(random);
}

std::string DigestOf(absl::string_view token) {
  std::string digest(kDigestBytes, '\0');
  EVP_Digest(token.data(), token.size(),
             reinterpret_cast<unsigned char*>(digest.data()), nullptr,
             EVP_sha256(), nullptr);
  return absl::BytesToHexString(digest);
}

bool IsHex(absl::string_view text, size_t bytes) {
  return text.size() == 2 * bytes &&
         std::all_of(text.begin(), text.end(), [](char letter) {
           return (letter >= '0' && letter <= '9') ||
                  (letter >= 'a' && letter <= 'f');
         });
}

}  // namespace

std::string NewToken() {
  return absl::StrCat(kPrefix, "_", Random(kSaltBytes), "_",
                      Random(kSecretBytes));
}

bool MayHoldSecret(absl::string_view text) {
  size_t digits = 0;
  for (const char letter : text) {
    digits = absl::ascii_isxdigit(letter) ? digits + 1 : 0;
    if (digits > kDigitsOfANumber) return true;
  }
  return false;
}

std::optional<std::string> SaltOf(absl::string_view token) {
  const std::vector<std::string> parts = absl::StrSplit(token, '_');
  const bool is_token = parts.size() == 3 && parts[0] == kPrefix &&
                        IsHex(parts[1], kSaltBytes) &&
                        IsHex(parts[2], kSecretBytes);
  if (!is_token) return std::nullopt;
  return parts[1];
}

std::optional<TokenHash> TokenHash::Of(absl::string_view token) {
  std::optional<std::string> salt = SaltOf(token);
  if (!salt.has_value()) return std::nullopt;
  return TokenHash(*std::move(salt), DigestOf(token));
}

absl::StatusOr<TokenHash> TokenHash::Parse(absl::string_view text,
                                           absl::string_view field) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() == 3 && parts[0] == kAlgorithm &&
      IsHex(parts[1], kSaltBytes) && IsHex(parts[2], kDigestBytes)) {
    return TokenHash(parts[1], parts[2]);
  }
  return InvalidField({.field = std::string(field),
                       .problem = "is no hash of a token (not shown: it might "
                                  "be a token itself)",
                       .valid = "sha256:SALT:HASH as `phitap token new` prints "
                                "it"});
}

bool TokenHash::Matches(absl::string_view token) const {
  const std::string digest = DigestOf(token);
  return CRYPTO_memcmp(digest.data(), digest_.data(), digest.size()) == 0;
}

std::string TokenHash::text() const {
  return absl::StrCat(kAlgorithm, ":", salt_, ":", digest_);
}

}  // namespace phitap
