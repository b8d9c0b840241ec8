#include "server/identity/identity_table.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/identity_name.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

absl::Status IsTaken(absl::string_view field, absl::string_view what,
                     const std::string& owner) {
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat(what, " is \"", owner, "\"'s already"),
       .valid = "each once"});
}

}  // namespace

absl::Status IdentityTable::Add(Credentials credentials,
                                absl::string_view field) {
  const auto identity =
      std::make_shared<const Identity>(std::move(credentials.identity));
  RETURN_IF_ERROR(
      CheckIdentityName(identity->name, absl::StrCat(field, ".name")));
  if (!identities_.emplace(identity->name, identity).second) {
    return IsTaken(absl::StrCat(field, ".name"), "the name", identity->name);
  }
  for (size_t i = 0; i < credentials.tokens.size(); ++i) {
    const TokenHash& hash = credentials.tokens[i];
    const auto [known, is_new] = tokens_.try_emplace(
        hash.salt(), KnownToken{.hash = hash, .identity = identity});
    if (is_new) continue;
    return IsTaken(absl::StrCat(field, ".tokens[", i, "]"), "the token",
                   known->second.identity->name);
  }
  for (size_t i = 0; i < credentials.certificates.size(); ++i) {
    const auto [known, is_new] =
        certificates_.try_emplace(credentials.certificates[i], identity);
    if (is_new) continue;
    return IsTaken(absl::StrCat(field, ".certificates[", i, "]"),
                   "the certificate", known->second->name);
  }
  return absl::OkStatus();
}

std::shared_ptr<const Identity> IdentityTable::OfToken(
    absl::string_view token) const {
  const std::optional<std::string> salt = SaltOf(token);
  if (!salt.has_value()) return nullptr;
  const auto known = tokens_.find(*salt);
  if (known == tokens_.end() || !known->second.hash.Matches(token)) {
    return nullptr;
  }
  return known->second.identity;
}

std::shared_ptr<const Identity> IdentityTable::OfCertificate(
    absl::string_view name) const {
  const auto known = certificates_.find(std::string(name));
  return known == certificates_.end() ? nullptr : known->second;
}

}  // namespace phitap
