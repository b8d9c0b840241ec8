#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/base/field_error.h"
#include "server/base/json.h"
#include "server/base/status_macros.h"
#include "server/identity/identity_table.h"

namespace phitap {
namespace {

using Json = nlohmann::json;

absl::Status Wrong(const std::string& path, std::string problem,
                   std::string valid) {
  return InvalidField({.field = path,
                       .problem = std::move(problem),
                       .valid = std::move(valid)});
}

// A name of the file in a message; not what may be a token that slipped.
std::string ShownName(const std::string& name) {
  return MayHoldSecret(name) ? "that (not shown: it might be a token)"
                             : QuotedName(name);
}

// `value` has no members but these. A name that is none may be a token that
// slipped: it is not shown.
absl::Status CheckMembers(const Json& value, const std::string& path,
                          const std::set<std::string>& names) {
  const std::string valid =
      absl::StrCat("an object with ", absl::StrJoin(names, ", "));
  if (!value.is_object()) return Wrong(path, "is no object", valid);
  size_t index = 0;
  for (const auto& [name, member] : value.items()) {
    if (names.count(name) == 0) {
      return Wrong(path,
                   absl::StrCat("its member ", index, " has a name of ",
                                name.size(), " bytes that is none of them"),
                   valid);
    }
    ++index;
  }
  return absl::OkStatus();
}

// The strings of an optional list.
absl::StatusOr<std::vector<std::string>> StringsOf(const Json& object,
                                                   const std::string& path,
                                                   const char* name) {
  const Json list = object.value(name, Json::array());
  const std::string field = absl::StrCat(path, ".", name);
  if (!list.is_array()) return Wrong(field, "is no list", "a list of strings");
  std::vector<std::string> strings;
  for (const Json& entry : list) {
    if (!entry.is_string() || entry.get_ref<const std::string&>().empty()) {
      return Wrong(absl::StrCat(field, "[", strings.size(), "]"),
                   "is no string, or an empty one", "a string");
    }
    strings.push_back(entry.get<std::string>());
  }
  return strings;
}

absl::StatusOr<std::set<Role>> RolesOf(const Json& object,
                                       const std::string& path) {
  constexpr char kValid[] = "trace, tensors, admin";
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   StringsOf(object, path, "roles"));
  std::set<Role> roles;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::optional<Role> role = RoleOf(names[i]);
    if (!role.has_value()) {
      return Wrong(absl::StrCat(path, ".roles[", i, "]"),
                   absl::StrCat("no role is called ", ShownName(names[i])),
                   kValid);
    }
    roles.insert(*role);
  }
  if (roles.empty()) return Wrong(path + ".roles", "none given", kValid);
  return roles;
}

absl::StatusOr<std::vector<TokenHash>> TokensOf(const Json& object,
                                                const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   StringsOf(object, path, "tokens"));
  std::vector<TokenHash> hashes;
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSIGN_OR_RETURN(
        TokenHash hash,
        TokenHash::Parse(texts[i], absl::StrCat(path, ".tokens[", i, "]")));
    hashes.push_back(std::move(hash));
  }
  return hashes;
}

// Sets `bound` where it is given.
absl::Status ReadBound(const Json& quotas, const std::string& path,
                       const char* name, int64_t& bound) {
  const auto given = quotas.find(name);
  if (given == quotas.end()) return absl::OkStatus();
  const std::string field = absl::StrCat(path, ".", name);
  const bool is_count =
      given->is_number_unsigned() &&
      given->get<uint64_t>() <= static_cast<uint64_t>(Quotas::kUnbounded);
  if (!is_count) {
    const std::string shown = given->is_number() ? Shown(*given) : "this";
    return Wrong(field, absl::StrCat(shown, " is no number of them"),
                 "0 or more, as a whole number; left out for no bound");
  }
  bound = given->get<int64_t>();
  return absl::OkStatus();
}

absl::StatusOr<Quotas> QuotasOf(const Json& object, const std::string& path) {
  Quotas quotas;
  const auto given = object.find("quotas");
  if (given == object.end()) return quotas;
  const std::string field = path + ".quotas";
  RETURN_IF_ERROR(CheckMembers(*given, field,
                               {"max_requests", "max_queued_bytes",
                                "max_tokens_per_minute", "max_tensor_bytes"}));
  const std::pair<const char*, int64_t*> bounds[] = {
      {"max_requests", &quotas.max_requests},
      {"max_queued_bytes", &quotas.max_queued_bytes},
      {"max_tokens_per_minute", &quotas.max_tokens_per_minute},
      {"max_tensor_bytes", &quotas.max_tensor_bytes}};
  for (const auto& [name, bound] : bounds) {
    RETURN_IF_ERROR(ReadBound(*given, field, name, *bound));
  }
  return quotas;
}

absl::StatusOr<Credentials> CredentialsOf(const Json& object,
                                          const std::string& path) {
  RETURN_IF_ERROR(CheckMembers(
      object, path, {"name", "roles", "tokens", "certificates", "quotas"}));
  const auto name = object.find("name");
  if (name == object.end() || !name->is_string()) {
    return Wrong(path + ".name", "is missing, or no string",
                 "what logs call the identity");
  }
  Credentials credentials = {.identity = {.name = name->get<std::string>()}};
  // Logs and messages show it from here on.
  if (MayHoldSecret(credentials.identity.name)) {
    return Wrong(path + ".name", "might be a token (not shown)",
                 "fewer hexadecimal digits in a row");
  }
  ASSIGN_OR_RETURN(credentials.identity.roles, RolesOf(object, path));
  ASSIGN_OR_RETURN(credentials.identity.quotas, QuotasOf(object, path));
  ASSIGN_OR_RETURN(credentials.tokens, TokensOf(object, path));
  ASSIGN_OR_RETURN(credentials.certificates,
                   StringsOf(object, path, "certificates"));
  return credentials;
}

}  // namespace

absl::StatusOr<IdentityTable> IdentityTable::Parse(absl::string_view text,
                                                   absl::string_view source) {
  const std::string name(source);
  const absl::StatusOr<Json> file = ParseJson(text, source);
  if (!file.ok()) {
    // Of the file it shows the name of a key that appears twice.
    const absl::string_view why = file.status().message();
    if (!MayHoldSecret(absl::StripPrefix(why, source))) {
      return absl::InvalidArgumentError(why);
    }
    return Wrong(name, "a key appears twice (not shown: it might be a token)",
                 "each key once");
  }
  RETURN_IF_ERROR(CheckMembers(*file, name, {"identities"}));
  const auto list = file->find("identities");
  if (list == file->end() || !list->is_array()) {
    return Wrong(name + ": identities", "is missing, or no list",
                 "a list of identities");
  }
  IdentityTable table;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = absl::StrCat(name, ": identities[", i, "]");
    ASSIGN_OR_RETURN(Credentials credentials, CredentialsOf((*list)[i], path));
    RETURN_IF_ERROR(table.Add(std::move(credentials), path));
  }
  return table;
}

}  // namespace phitap
