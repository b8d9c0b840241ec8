// A tokenizer's files, texts and conversations through the Rust crate.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "server/tokenizer/tokenizer.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/file_parts.h"

namespace phitap {
namespace {

const std::vector<std::string>& FileNames() {
  static const auto& names = *new std::vector<std::string>(
      {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
       "chat_template.jinja", "text", "chat"});
  return names;
}

// Each line `role: content`.
std::vector<ChatMessage> MessagesOf(const std::string& text) {
  std::vector<ChatMessage> messages;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    if (parts.size() != 2) continue;
    messages.push_back({.role = parts[0], .content = parts[1]});
  }
  return messages;
}

void Use(const Tokenizer& tokenizer, const std::string& text,
         const std::vector<ChatMessage>& messages) {
  const auto ids = tokenizer.Encode(text);
  ExpectRefusal(ids.status());
  if (ids.ok()) {
    for (const SpecialTokens special :
         {SpecialTokens::kKeep, SpecialTokens::kSkip}) {
      ExpectRefusal(tokenizer.Decode(*ids, special).status());
    }
    for (const int32_t id : *ids) {
      Expect(id >= 0, "ids are not negative");
      ExpectRefusal(tokenizer.TokenText(id).status());
    }
  }
  ExpectRefusal(tokenizer.chat_status());
  for (const GenerationPrompt prompt :
       {GenerationPrompt::kOmit, GenerationPrompt::kAppend}) {
    ExpectRefusal(tokenizer.RenderChat(messages, prompt).status());
  }
  ExpectRefusal(
      tokenizer.EncodeChat(messages, GenerationPrompt::kAppend).status());
  tokenizer.TokenId(text.substr(0, 20));
}

}  // namespace
}  // namespace phitap

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  auto parts = phitap::FileParts(input, size, phitap::FileNames());
  const std::string text = parts["text"];
  const auto messages = phitap::MessagesOf(parts["chat"]);
  parts.erase("text");
  parts.erase("chat");
  const phitap::TempFolder folder;
  for (const auto& [name, content] : parts) folder.Write(name, content);
  const auto tokenizer = phitap::Tokenizer::Load(folder.path());
  phitap::ExpectRefusal(tokenizer.status());
  if (tokenizer.ok()) phitap::Use(**tokenizer, text, messages);
  return 0;
}
