#include "client/cli/chat_file.h"

#include <fstream>
#include <iostream>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

using nlohmann::json;

absl::Status Refuse(absl::string_view field, absl::string_view problem) {
  return InvalidField(
      {.field = std::string(field),
       .problem = std::string(problem),
       .valid = R"([{"role": "user", "content": "Hello"}, ...])"});
}

absl::StatusOr<v1::ChatMessage> ParseMessage(const json& turn,
                                             absl::string_view field) {
  v1::ChatMessage message;
  if (!turn.is_object()) return Refuse(field, "it is not an object");
  for (const auto& [key, value] : turn.items()) {
    if (key == "tools") {
      message.set_tools(value.is_string() ? value.get<std::string>()
                                          : value.dump());
    } else if ((key == "role" || key == "content") && value.is_string()) {
      (key == "role" ? message.mutable_role() : message.mutable_content())
          ->assign(value.get<std::string>());
    } else {
      return Refuse(
          field, absl::StrCat("`", key, "` is not a text field of a message"));
    }
  }
  if (message.role().empty()) return Refuse(field, "it has no role");
  return message;
}

absl::Status ParseOptions(const json& object, absl::string_view field,
                          v1::Chat* chat) {
  for (const auto& [key, value] : object.items()) {
    if (key == "messages") continue;
    if (key != "add_generation_prompt" || !value.is_boolean()) {
      return Refuse(field, absl::StrCat("`", key, "` is not known here"));
    }
    chat->set_add_generation_prompt(value.get<bool>());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Chat> ParseChat(absl::string_view text,
                                   absl::string_view field) {
  const json root = json::parse(text.begin(), text.end(), nullptr,
                                /*allow_exceptions=*/false);
  v1::Chat chat;
  if (root.is_object()) RETURN_IF_ERROR(ParseOptions(root, field, &chat));
  const json turns = root.is_object() ? root.value("messages", json()) : root;
  if (!turns.is_array() || turns.empty()) {
    return Refuse(field, "it is not a list of messages");
  }
  for (size_t i = 0; i < turns.size(); ++i) {
    ASSIGN_OR_RETURN(
        *chat.add_messages(),
        ParseMessage(turns[i], absl::StrCat(field, ": message ", i)));
  }
  return chat;
}

absl::StatusOr<v1::Chat> ReadChatFile(const std::string& path) {
  const std::string field = absl::StrCat("--chat ", path);
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) {
      return InvalidField({.field = field, .problem = "it cannot be read"},
                          absl::StatusCode::kNotFound);
    }
  }
  std::istream& input = path == "-" ? std::cin : file;
  const std::string text(std::istreambuf_iterator<char>(input), {});
  return ParseChat(text, field);
}

}  // namespace phitap::cli
