#include "server/identity/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "server/base/field_error.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

// Made with `printf %s TOKEN | sha256sum`.
constexpr char kToken[] =
    "phitap_000102030405060708090a0b0c0d0e0f_"
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
constexpr char kHash[] =
    "sha256:000102030405060708090a0b0c0d0e0f:"
    "6327c19e3a6d8d33ea08eda2fa88d81e5dcb4ecca2c0b34b6ee1f22ef57b13f3";

TEST(NewToken, IsAnotherEachTimeAndKnownByItsHash) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(NewToken());
  EXPECT_EQ(tokens.size(), 100u);
  const std::string token = *tokens.begin();
  const std::optional<TokenHash> hash = TokenHash::Of(token);
  ASSERT_TRUE(hash.has_value());
  EXPECT_TRUE(hash->Matches(token));
  EXPECT_FALSE(hash->Matches(*tokens.rbegin()));
  EXPECT_THAT(hash->text(), Not(HasSubstr(token.substr(token.size() - 64))));
}

TEST(TokenHash, IsTheSha256OfTheWholeToken) {
  EXPECT_EQ(TokenHash::Of(kToken)->text(), kHash);
  const absl::StatusOr<TokenHash> read = TokenHash::Parse(kHash, "f");
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(read->Matches(kToken));
  EXPECT_EQ(read->salt(), "000102030405060708090a0b0c0d0e0f");
}

TEST(TokenHash, DiffersWhereAnyLetterOfTheTokenDoes) {
  const TokenHash hash = *TokenHash::Of(kToken);
  for (size_t i = 0; i < sizeof(kToken) - 1; ++i) {
    std::string other = kToken;
    other[i] = other[i] == '0' ? '1' : '0';
    EXPECT_FALSE(hash.Matches(other)) << i;
  }
}

TEST(TokenHash, RefusesOtherTextsWithoutShowingThem) {
  for (const std::string& text :
       {std::string(kToken), std::string("sha256:00:11"), std::string("secret"),
        std::string(kHash) + "0", "md5" + std::string(kHash).substr(6),
        std::string(kHash).replace(10, 1, "G")}) {
    const absl::Status status = TokenHash::Parse(text, "f").status();
    EXPECT_THAT(status, StatusIs(Code::kInvalidArgument, ::testing::_));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(text)));
    EXPECT_EQ(FieldOf(status), "f");
  }
}

TEST(SaltOf, IsNoneOfWhatIsNoToken) {
  EXPECT_EQ(SaltOf(kToken), "000102030405060708090a0b0c0d0e0f");
  for (const char* text : {"", "phitap", "phitap__", "phitap_00_11", "x_y_z"}) {
    EXPECT_EQ(SaltOf(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace phitap
