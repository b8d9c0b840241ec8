// SPDX-License-Identifier: Apache-2.0
#include "server/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_replace.h"
#include "server/base/field_error.h"
#include "tests/unit/tokenizer/tokenizer_folder.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Tokenizer> LoadTiny() {
  return TokenizerFolder().Load().value();
}

TEST(Tokenizer, EncodesAsTheFileSays) {
  // <unk> is what this file's post-processor adds; <|end|> swallows the line
  // end; each segment gets its own prefix.
  EXPECT_THAT(LoadTiny()->Encode("hi ho<|end|>\nhi").value(),
              ElementsAre(0, 6, 7, 9, 6));
}

TEST(Tokenizer, FallsBackToBytes) {
  EXPECT_THAT(LoadTiny()->Encode("hi\n").value(), ElementsAre(0, 6, 8));
}

TEST(Tokenizer, GivesAnEmptyTextNoIdsOfItsOwn) {
  TokenizerFolder folder;
  folder.Write(
      "tokenizer.json",
      absl::StrReplaceAll(
          kTinyTokenizerJson,
          {{R"({"SpecialToken": {"id": "<unk>", "type_id": 0}},)", ""}}));
  EXPECT_THAT(folder.Load().value()->Encode("").value(), IsEmpty());
}

TEST(Tokenizer, DecodesWithAndWithoutSpecialTokens) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadTiny();
  const std::vector<int32_t> ids = {6, 7, 9, 6};
  EXPECT_EQ(tokenizer->Decode(ids, SpecialTokens::kKeep).value(),
            "hi ho<|end|> hi");
  EXPECT_EQ(tokenizer->Decode(ids, SpecialTokens::kSkip).value(), "hi ho hi");
}

TEST(Tokenizer, DecodesAnIdThatNoTokenHasToNothing) {
  EXPECT_EQ(LoadTiny()->Decode({6, 31, 7}, SpecialTokens::kKeep).value(),
            "hi ho");
}

TEST(Tokenizer, ShowsATokenWithItsLeadingSpace) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadTiny();
  EXPECT_EQ(tokenizer->TokenText(6).value(), " hi");
  EXPECT_EQ(tokenizer->TokenText(3).value(), "i");
  EXPECT_EQ(tokenizer->TokenText(1).value(), " ");
  EXPECT_EQ(tokenizer->TokenText(8).value(), "\n");
  EXPECT_EQ(tokenizer->TokenText(9).value(), "<|end|>");
  EXPECT_EQ(tokenizer->TokenText(31).value(), "");
}

TEST(Tokenizer, FindsATokenByItsSpelling) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadTiny();
  EXPECT_EQ(tokenizer->TokenId("<|end|>"), 9);
  EXPECT_EQ(tokenizer->TokenId("▁hi"), 6);
  EXPECT_EQ(tokenizer->TokenId("hi"), std::nullopt);
}

TEST(Tokenizer, NeitherTruncatesNorPads) {
  TokenizerFolder folder;
  folder.Write(
      "tokenizer.json",
      absl::StrReplaceAll(
          kTinyTokenizerJson,
          {{R"("truncation": null)",
            R"("truncation": {"direction": "Right", "max_length": 2,
                              "strategy": "LongestFirst", "stride": 0})"},
           {R"("padding": null)",
            R"("padding": {"strategy": {"Fixed": 9}, "direction": "Right",
                           "pad_to_multiple_of": null, "pad_id": 0,
                           "pad_type_id": 0, "pad_token": "<unk>"})"}}));
  EXPECT_THAT(folder.Load().value()->Encode("hi ho hi").value(),
              ElementsAre(0, 6, 7, 6));
}

TEST(Tokenizer, TakesTokensThatOnlyTheConfigKnows) {
  TokenizerFolder folder;
  folder.Write("tokenizer_config.json", R"json({
    "eos_token": "<|stop|>",
    "added_tokens_decoder": {"10": {"content": "<|user|>", "special": true}}})json");
  const std::unique_ptr<Tokenizer> tokenizer = folder.Load().value();
  EXPECT_EQ(tokenizer->TokenId("<|user|>"), 10);
  EXPECT_THAT(tokenizer->Encode("<|user|>hi<|stop|>").value(),
              ElementsAre(0, 10, 6, 11));
}

TEST(Tokenizer, EncodesOnSeveralThreadsAtOnce) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadTiny();
  std::vector<std::vector<int32_t>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<int32_t>& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        result = tokenizer->Encode("hi ho<|end|>hi").value();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int32_t>& result : results) {
    EXPECT_THAT(result, ElementsAre(0, 6, 7, 9, 6));
  }
}

TEST(Tokenizer, IsNotFoundWithoutTokenizerJson) {
  TokenizerFolder folder;
  folder.Remove("tokenizer.json");
  const absl::Status status = folder.Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FieldOf(status), "tokenizer.json");
  EXPECT_THAT(std::string(status.message()), HasSubstr("token ids"));
}

struct BadFile {
  std::string file;
  std::string contents;
  std::string problem;
};

class RefusedFile : public ::testing::TestWithParam<BadFile> {};

TEST_P(RefusedFile, IsNamed) {
  TokenizerFolder folder;
  folder.Write(GetParam().file, GetParam().contents);
  const absl::Status status = folder.Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().file));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().problem));
}

INSTANTIATE_TEST_SUITE_P(
    Tokenizer, RefusedFile,
    ::testing::Values(
        BadFile{"tokenizer.json", "", "EOF"},
        BadFile{"tokenizer.json", "[]", "invalid"},
        BadFile{"tokenizer.json", "{\"version\": \"9.0\"}", "9.0"},
        BadFile{"tokenizer.json",
                std::string(kTinyTokenizerJson).substr(0, 900), "EOF"},
        BadFile{"tokenizer.json", std::string(100000, '['), "invalid"},
        BadFile{"tokenizer.json", "\xFF\xFE{", "expected value"},
        BadFile{"tokenizer.json",
                absl::StrReplaceAll(kTinyTokenizerJson, {{"\"BPE\"", "\"X\""}}),
                ""},
        BadFile{"tokenizer.json",
                absl::StrReplaceAll(kTinyTokenizerJson, {{"▁h i", "▁h z"}}),
                "z"},
        BadFile{"tokenizer.json",  // the library panics at it
                absl::StrReplaceAll(kTinyTokenizerJson,
                                    {{"\"decoders\": [", "\"decoders\": [1 "}}),
                "gives up"},
        BadFile{"tokenizer_config.json", "[]", "object"},
        BadFile{"tokenizer_config.json", "{", "EOF"},
        BadFile{"tokenizer_config.json", R"({"chat_template": 3})", "text"},
        BadFile{"tokenizer_config.json",
                R"({"added_tokens_decoder": {"-1": {"content": "x"}}})",
                "not a token id"},
        BadFile{"tokenizer_config.json",
                R"({"added_tokens_decoder": {"12": {}}})", "content"},
        BadFile{"special_tokens_map.json", "3", "object"},
        BadFile{"chat_template.jinja", "\xFF", "UTF-8"}));

TEST(Tokenizer, RefusesTextThatIsNotUtf8NamingTheByte) {
  const absl::Status status =
      LoadTiny()->Encode("hi\xFF", "runs[2].prompt.text").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "runs[2].prompt.text");
  EXPECT_THAT(std::string(status.message()), HasSubstr("not UTF-8 at byte 2"));
}

TEST(Tokenizer, RefusesTextPastTheLimit) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadTiny();
  const absl::Status status =
      tokenizer->Encode(std::string(kMaxTextBytes + 1, 'h')).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1048577 bytes"));
  EXPECT_EQ(tokenizer->Encode(std::string(kMaxTextBytes, 'h')).value().size(),
            kMaxTextBytes + 1);
}

TEST(Tokenizer, KeepsAZeroByteOfAText) {
  EXPECT_THAT(LoadTiny()->Encode(absl::string_view("hi\0hi", 5)).value(),
              ElementsAre(0, 6, 0, 2, 3));
}

TEST(Tokenizer, RefusesANegativeId) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadTiny();
  const absl::Status status =
      tokenizer->Decode({6, -1}, SpecialTokens::kKeep).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "ids[1]");
  EXPECT_EQ(tokenizer->TokenText(-1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace phitap
