// Answers the golden tests: one JSON request a line on standard input, one JSON
// answer a line on standard output, from the server's own Tokenizer.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/tokenizer/tokenizer.h"

namespace phitap {
namespace {

using Json = nlohmann::json;

template <typename T>
Json ToJson(const absl::StatusOr<T>& result) {
  if (result.ok()) return {{"ok", *result}};
  return {{"error", std::string(result.status().message())}};
}

std::vector<ChatMessage> MessagesOf(const Json& request) {
  std::vector<ChatMessage> messages;
  for (const Json& message : request.at("messages")) {
    ChatMessage& parsed = messages.emplace_back();
    for (const auto& [name, value] : message.items()) {
      if (name == "role") {
        parsed.role = value;
      } else if (name == "content") {
        parsed.content = value;
      } else {
        parsed.extra_fields[name] = value;
      }
    }
  }
  return messages;
}

Json Answer(const Tokenizer& tokenizer, const Json& request) {
  const std::string op = request.at("op");
  if (op == "encode") {
    return ToJson(tokenizer.Encode(request.at("text").get<std::string>()));
  }
  if (op == "decode") {
    return ToJson(tokenizer.Decode(
        request.at("ids").get<std::vector<int32_t>>(),
        request.at("skip") ? SpecialTokens::kSkip : SpecialTokens::kKeep));
  }
  if (op == "token_text") return ToJson(tokenizer.TokenText(request.at("id")));
  const GenerationPrompt prompt = request.at("add_generation_prompt")
                                      ? GenerationPrompt::kAppend
                                      : GenerationPrompt::kOmit;
  if (op == "render") {
    return ToJson(tokenizer.RenderChat(MessagesOf(request), prompt));
  }
  return ToJson(tokenizer.EncodeChat(MessagesOf(request), prompt));
}

int Serve(const std::string& folder) {
  const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      Tokenizer::Load(folder);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Answer(**tokenizer, Json::parse(line)).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace phitap

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenizer_probe FOLDER\n";
    return 2;
  }
  return phitap::Serve(argv[1]);
}
