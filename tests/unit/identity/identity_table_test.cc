#include "server/identity/identity_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

std::string HashOf(const std::string& token) {
  return TokenHash::Of(token)->text();
}

TEST(IdentityTable, KnowsWhoHasATokenOrACertificate) {
  const std::string first = NewToken();
  const std::string second = NewToken();
  const absl::StatusOr<IdentityTable> table =
      IdentityTable::Parse(absl::Substitute(R"({"identities": [
        {"name": "alice", "roles": ["trace", "tensors"],
         "tokens": ["$0", "$1"], "certificates": ["alice.lab"],
         "quotas": {"max_requests": 8, "max_tensor_bytes": 0}},
        {"name": "bob", "roles": ["admin"]}]})",
                                            HashOf(first), HashOf(second)),
                           "tokens.json");
  ASSERT_THAT(table, IsOk());
  for (const std::string& token : {first, second}) {
    const std::shared_ptr<const Identity> alice = table->OfToken(token);
    ASSERT_NE(alice, nullptr);
    EXPECT_EQ(alice->name, "alice");
    EXPECT_THAT(alice->roles, ElementsAre(Role::kTrace, Role::kTensors));
    EXPECT_EQ(alice->quotas.max_requests, 8);
    EXPECT_EQ(alice->quotas.max_tensor_bytes, 0);
    EXPECT_EQ(alice->quotas.max_queued_bytes, Quotas::kUnbounded);
  }
  EXPECT_EQ(table->OfCertificate("alice.lab"), table->OfToken(first));
  EXPECT_EQ(table->all().size(), 2u);
}

TEST(IdentityTable, KnowsNobodyElse) {
  const std::string token = NewToken();
  const IdentityTable table = *IdentityTable::Parse(
      absl::Substitute(R"({"identities": [{"name": "a", "roles": ["trace"],
                           "tokens": ["$0"], "certificates": ["a.lab"]}]})",
                       HashOf(token)),
      "x");
  std::string forged = token;  // With the salt of one that is known.
  forged.back() = forged.back() == '0' ? '1' : '0';
  for (const std::string& other :
       {NewToken(), forged, HashOf(token), std::string()}) {
    EXPECT_EQ(table.OfToken(other), nullptr) << other;
  }
  for (const char* other : {"", "a", "A.lab", "a.lab.evil"}) {
    EXPECT_EQ(table.OfCertificate(other), nullptr) << other;
  }
}

struct BadFile {
  std::string text;
  std::string problem;
};

class ParseRefuses : public ::testing::TestWithParam<BadFile> {};

TEST_P(ParseRefuses, WithThePathAndTheProblem) {
  EXPECT_THAT(
      IdentityTable::Parse(GetParam().text, "t.json"),
      StatusIs(Code::kInvalidArgument,
               AllOf(HasSubstr("t.json"), HasSubstr(GetParam().problem))));
}

std::string One(const std::string& members) {
  return absl::StrCat(R"({"identities": [{)", members, "}]}");
}

INSTANTIATE_TEST_SUITE_P(
    Files, ParseRefuses,
    ::testing::Values(
        BadFile{"", "is not JSON"}, BadFile{"{\n\"identities\":\n]", "line 3"},
        BadFile{"[]", "is no object"}, BadFile{"{}", "identities: is missing"},
        BadFile{R"({"identities": {}})", "identities: is missing, or no list"},
        BadFile{R"({"identities": [], "x": 1})", "is none of them"},
        BadFile{R"({"identities": [7]})", "identities[0]: is no object"},
        BadFile{One(R"("roles": ["trace"])"), "identities[0].name"},
        BadFile{One(R"("name": "a/b", "roles": ["trace"])"),
                R"(identities[0].name: "a/b" is no name)"},
        BadFile{One(R"("name": "a")"), "identities[0].roles: none given"},
        BadFile{One(R"("name": "a", "roles": ["root"])"),
                R"(identities[0].roles[0]: no role is called "root")"},
        BadFile{One(R"("name": "a", "roles": "trace")"),
                "identities[0].roles: is no list"},
        BadFile{One(R"("name": "a", "roles": ["trace"], "role": 1)"),
                "identities[0]: its member"},
        BadFile{One(R"("name": "a", "roles": ["trace"], "tokens": ["x"])"),
                "identities[0].tokens[0]: is no hash"},
        BadFile{One(R"("name": "a", "roles": ["trace"], "tokens": [5])"),
                "identities[0].tokens[0]: is no string"},
        BadFile{One(R"("name": "a", "roles": ["trace"], "certificates": [""])"),
                "identities[0].certificates[0]"},
        BadFile{One(R"("name": "a", "roles": ["trace"],
                       "quotas": {"max_requests": -1})"),
                "quotas.max_requests: -1"},
        BadFile{One(R"("name": "a", "roles": ["trace"],
                       "quotas": {"max_requests": 1e3})"),
                "quotas.max_requests: 1000.0"},
        BadFile{One(R"("name": "a", "roles": ["trace"], "quotas": {"n": 1})"),
                "quotas: its member"},
        BadFile{One(R"("name": "a", "name": "b", "roles": ["trace"])"),
                R"(key "name" appears twice)"},
        BadFile{R"({"identities": [{"name": "a", "roles": ["trace"]},
                                   {"name": "a", "roles": ["admin"]}]})",
                "identities[1].name"},
        BadFile{R"({"identities": [
                    {"name": "a", "roles": ["trace"], "certificates": ["x"]},
                    {"name": "b", "roles": ["admin"], "certificates": ["x"]}]})",
                R"(identities[1].certificates[0]: the certificate is "a"'s)"}));

TEST(IdentityTable, GivesATokenToOneIdentityAlone) {
  const std::string hash = HashOf(NewToken());
  EXPECT_THAT(IdentityTable::Parse(absl::Substitute(
                                       R"({"identities": [
                          {"name": "a", "roles": ["trace"], "tokens": ["$0"]},
                          {"name": "b", "roles": ["admin"], "tokens": ["$0"]}
                         ]})",
                                       hash),
                                   "t.json"),
              StatusIs(Code::kInvalidArgument,
                       HasSubstr("identities[1].tokens[0]: the token is "
                                 "\"a\"'s already")));
}

TEST(IdentityTable, NeverShowsATokenThatSlippedIntoTheFile) {
  const std::string token = NewToken();
  for (const std::string& members :
       {absl::StrCat(R"("name": "a", "roles": ["trace"], "tokens": [")", token,
                     R"("])"),
        absl::StrCat(R"("name": "a", "roles": ["trace"], ")", token, R"(": 1)"),
        absl::StrCat(R"("name": "a", "roles": [")", token, R"("])"),
        absl::StrCat(R"("name": ")", token, R"(", "roles": ["trace"])"),
        absl::StrCat(R"("name": "a", "roles": ["trace"],
                         "quotas": {"max_requests": ")",
                     token, R"("})"),
        absl::StrCat(R"(")", token, R"(": 1, ")", token, R"(": 2)"),
        absl::StrCat(R"("name": ")", token.substr(40),
                     R"(", "roles": ["trace"])")}) {
    const absl::Status status =
        IdentityTable::Parse(One(members), "t.json").status();
    EXPECT_THAT(status, StatusIs(Code::kInvalidArgument, ::testing::_));
    EXPECT_THAT(status.ToString(), Not(HasSubstr(token.substr(40, 32))));
  }
}

}  // namespace
}  // namespace phitap
