#include "server/rpc/generated_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/tokenizer/utf8.h"
#include "tests/unit/tokenizer/tokenizer_folder.h"

namespace phitap {
namespace {

// SentencePiece-style as Phi-3's: the words " hi" and " ho" (6, 7), and every
// byte b as 10 + b.
std::unique_ptr<Tokenizer> LoadBytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte == 0x0A) continue;
    absl::StrAppend(&bytes,
                    absl::StrFormat("\"<0x%02X>\": %d, ", byte, 10 + byte));
  }
  std::string json = kTinyTokenizerJson;
  const std::string place = "\"<0x0A>\": 8";
  json.replace(json.find(place), place.size(),
               bytes + "\"<0x0A>\": 20, \"<|end|>\": 9");
  TokenizerFolder folder;
  folder.Write("tokenizer.json", json);
  return folder.Load().value();
}

class GeneratedTextTest : public ::testing::Test {
 protected:
  std::string Decode(const std::vector<int32_t>& ids) {
    return tokenizer_->Decode(ids, SpecialTokens::kKeep).value();
  }
  // The pieces of `ids` after `prompt`; the last with the rest.
  std::vector<std::string> Pieces(const std::vector<int32_t>& prompt,
                                  const std::vector<int32_t>& ids) {
    GeneratedText text(*tokenizer_, prompt);
    std::vector<std::string> pieces;
    for (int32_t id : ids) pieces.push_back(text.Next(id));
    pieces.back() += text.Rest();
    return pieces;
  }
  static std::vector<int32_t> Bytes(const std::string& text) {
    std::vector<int32_t> ids;
    for (unsigned char byte : text) ids.push_back(10 + byte);
    return ids;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = LoadBytes();
};

using Texts = std::vector<std::string>;

TEST_F(GeneratedTextTest, KeepsTheSpaceOfTheFirstWord) {
  EXPECT_EQ(Pieces({6}, {7, 6}), (Texts{" ho", " hi"}));
}

TEST_F(GeneratedTextTest, WaitsForTheWholeCharacter) {
  EXPECT_EQ(Pieces({6}, Bytes("é€😀")),
            (Texts{"", "é", "", "", "€", "", "", "", "😀"}));
}

TEST_F(GeneratedTextTest, CompletesACharacterThatThePromptBegan) {
  EXPECT_EQ(Pieces({6, 10 + 0xC3}, {10 + 0xA9, 7}), (Texts{"é", " ho"}));
}

TEST_F(GeneratedTextTest, TellsAtTheEndWhatWillNeverBeACharacter) {
  EXPECT_EQ(Pieces({6}, {7, 10 + 0xE2}), (Texts{" ho", "\xEF\xBF\xBD"}));
}

TEST_F(GeneratedTextTest, GoesOnAfterBytesThatAreNoCharacter) {
  EXPECT_EQ(Pieces({6}, {10 + 0xE2, 7}), (Texts{"", "\xEF\xBF\xBD ho"}));
}

TEST_F(GeneratedTextTest, DoesNotWaitForEver) {
  GeneratedText text(*tokenizer_, std::vector<int32_t>{6});
  std::string told;
  for (int i = 0; i < 20; ++i) told += text.Next(10 + 0xFF);
  EXPECT_FALSE(told.empty());
}

TEST_F(GeneratedTextTest, TellsSpecialTokensAndNothingForIdsWithoutText) {
  EXPECT_EQ(Pieces({6}, {9, 5000, 7}), (Texts{"<|end|>", "", " ho"}));
}

TEST_F(GeneratedTextTest, AddsUpToWhatAllIdsDecodeTo) {
  std::mt19937 random(7);
  const std::vector<std::vector<int32_t>> words = {
      {6},  {7},    {9},        {2},        {1},         {1, 3},
      {20}, {4000}, Bytes("a"), Bytes("é"), Bytes("語"), Bytes("😀")};
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> prompt;
    std::vector<int32_t> ids;
    for (int i = 0; i < 30; ++i) {
      std::vector<int32_t>& end = i < 5 ? prompt : ids;
      const std::vector<int32_t>& word = words[random() % words.size()];
      end.insert(end.end(), word.begin(), word.end());
    }
    std::string told = Decode(prompt);
    for (const std::string& piece : Pieces(prompt, ids)) {
      EXPECT_FALSE(FirstInvalidUtf8(piece).has_value());
      told += piece;
    }
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), ids.begin(), ids.end());
    ASSERT_EQ(told, Decode(all)) << round;
  }
}

}  // namespace
}  // namespace phitap
