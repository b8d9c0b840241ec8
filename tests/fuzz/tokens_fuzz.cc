// What says who calls: a file of identities, a token, and the trace that a call
// belongs to.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "server/base/identity_name.h"
#include "server/identity/identity_table.h"
#include "server/rpc/trace_context.h"
#include "tests/fuzz/file_parts.h"
#include "tests/fuzz/refusal.h"

namespace phitap {
namespace {

using Json = nlohmann::json;

const std::vector<std::string>& PartNames() {
  static const auto& names = *new std::vector<std::string>(
      {"tokens.json", "token", "certificate", "traceparent"});
  return names;
}

// More hexadecimal digits in a row than any number has: a salt, a hash or a
// secret, or part of one.
constexpr size_t kSecretDigits = 21;

void ExpectNoSecret(absl::string_view shown) {
  size_t digits = 0;
  for (const char letter : shown) {
    digits = absl::ascii_isxdigit(letter) ? digits + 1 : 0;
    Expect(digits < kSecretDigits, "nothing that may be a secret is shown");
  }
}

// Bounds as the file gives them.
void ExpectQuotas(const Quotas& quotas, const Json& entry) {
  const Json given = entry.value("quotas", Json::object());
  const std::pair<const char*, int64_t> bounds[] = {
      {"max_requests", quotas.max_requests},
      {"max_queued_bytes", quotas.max_queued_bytes},
      {"max_tokens_per_minute", quotas.max_tokens_per_minute},
      {"max_tensor_bytes", quotas.max_tensor_bytes}};
  for (const auto& [name, bound] : bounds) {
    Expect(bound >= 0, "a bound is not negative");
    const auto asked = given.find(name);
    Expect(bound == (asked == given.end() ? Quotas::kUnbounded
                                          : asked->get<int64_t>()),
           "a bound is what the file says, or none");
  }
}

void ExpectEntry(const IdentityTable& table, const Json& entry,
                 const std::string& token) {
  const auto known = table.all().find(entry["name"].get<std::string>());
  Expect(known != table.all().end(), "everybody in the file is known");
  const Identity& identity = *known->second;
  Expect(identity.name == known->first &&
             CheckIdentityName(identity.name, "name").ok(),
         "under a name that logs can take");
  std::set<std::string> roles;
  for (const Role role : identity.roles) roles.emplace(Name(role));
  Expect(!roles.empty() && roles == entry["roles"].get<std::set<std::string>>(),
         "with the roles that the file gives");
  ExpectQuotas(identity.quotas, entry);
  for (const Json& name : entry.value("certificates", Json::array())) {
    Expect(table.OfCertificate(name.get<std::string>()) == known->second,
           "by each certificate");
  }
  const auto hash = TokenHash::Of(token);
  for (const Json& text : entry.value("tokens", Json::array())) {
    const auto parsed = TokenHash::Parse(text.get<std::string>(), "tokens");
    Expect(parsed.ok() && parsed->text() == text.get<std::string>(),
           "hashes are read as they are written");
    if (!hash.has_value() || parsed->text() != hash->text()) continue;
    Expect(table.OfToken(token) == known->second, "and by each token");
  }
}

// Nobody is known by what the file does not have.
void ExpectNobodyElse(const IdentityTable& table, const Json& entries,
                      const std::string& token,
                      const std::string& certificate) {
  const auto hash = TokenHash::Of(token);
  if (table.OfToken(token) != nullptr) {
    Expect(hash.has_value() &&
               entries.dump().find(hash->text()) != std::string::npos,
           "a token is known if its hash is in the file");
  }
  if (table.OfCertificate(certificate) == nullptr) return;
  bool is_there = false;
  for (const Json& entry : entries) {
    for (const Json& name : entry.value("certificates", Json::array())) {
      is_there |= name == certificate;
    }
  }
  Expect(is_there, "a certificate is known if it is in the file");
}

void Parse(const std::string& file, const std::string& token,
           const std::string& certificate) {
  const auto table = IdentityTable::Parse(file, "tokens.json");
  if (!table.ok()) {
    ExpectRefusal(table.status());
    ExpectLine(table.status().message());
    Expect(absl::StartsWith(table.status().message(), "tokens.json"),
           "the file is named");
    ExpectNoSecret(table.status().message());
    return;
  }
  const Json entries = Json::parse(file)["identities"];
  Expect(entries.size() == table->all().size(), "nobody is left out");
  for (const Json& entry : entries) ExpectEntry(*table, entry, token);
  ExpectNobodyElse(*table, entries, token, certificate);
}

// A context that was read is told so that it can be read again.
void ParseTrace(const std::string& traceparent) {
  const auto context = ParseTraceparent(traceparent);
  if (!context.has_value()) return;
  const auto again =
      ParseTraceparent(TraceResponse(*context, "0123456789abcdef"));
  Expect(again.has_value() && again->trace_id == context->trace_id &&
             again->flags == context->flags,
         "an answer names the trace that was sent");
  Expect(context->trace_id.size() == 32 && context->flags.size() == 2,
         "and is as long as the standard has it");
  ExpectLine(context->trace_id + context->flags);
}

}  // namespace
}  // namespace phitap

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  const auto parts = phitap::FileParts(input, size, phitap::PartNames());
  const auto line = [&](const char* name) {
    const auto part = parts.find(name);
    return part == parts.end()
               ? std::string()
               : std::string(absl::StripSuffix(part->second, "\n"));
  };
  phitap::Parse(line("tokens.json"), line("token"), line("certificate"));
  phitap::ParseTrace(line("traceparent"));
  return 0;
}
