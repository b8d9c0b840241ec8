// A checkpoint folder with nothing but a tokenizer in it, made by the tests.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_TOKENIZER_TOKENIZER_FOLDER_H_
#define PHITAP_TESTS_UNIT_TOKENIZER_TOKENIZER_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/tokenizer/tokenizer.h"

namespace phitap {

// SentencePiece-style BPE as Phi-3's, over the words " hi" and " ho".
inline constexpr char kTinyTokenizerJson[] = R"json({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 0, "content": "<unk>", "single_word": false, "lstrip": false,
     "rstrip": false, "normalized": false, "special": true},
    {"id": 9, "content": "<|end|>", "single_word": false, "lstrip": false,
     "rstrip": true, "normalized": false, "special": true}],
  "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
  "pre_tokenizer": null,
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<unk>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}},
             {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens":
      {"<unk>": {"id": "<unk>", "ids": [0], "tokens": ["<unk>"]}}},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>",
    "continuing_subword_prefix": null, "end_of_word_suffix": null,
    "fuse_unk": true, "byte_fallback": true,
    "vocab": {"<unk>": 0, "▁": 1, "h": 2, "i": 3, "o": 4, "▁h": 5, "▁hi": 6,
              "▁ho": 7, "<0x0A>": 8},
    "merges": ["▁ h", "▁h i", "▁h o"]}})json";

// Removes itself. Starts with the tiny tokenizer.
class TokenizerFolder {
 public:
  TokenizerFolder() {
    std::string name = ::testing::TempDir() + "tokenizer-XXXXXX";
    path_ = mkdtemp(name.data());
    Write("tokenizer.json", kTinyTokenizerJson);
  }
  ~TokenizerFolder() { std::filesystem::remove_all(path_); }
  TokenizerFolder(const TokenizerFolder&) = delete;
  TokenizerFolder& operator=(const TokenizerFolder&) = delete;

  void Write(const std::string& name, absl::string_view contents) const {
    std::ofstream stream(path_ / name, std::ios::binary);
    stream.write(contents.data(),
                 static_cast<std::streamsize>(contents.size()));
  }
  void Remove(const std::string& name) const {
    std::filesystem::remove(path_ / name);
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> Load() const {
    return Tokenizer::Load(path_);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_TOKENIZER_TOKENIZER_FOLDER_H_
