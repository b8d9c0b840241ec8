#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/chat_file.h"
#include "client/cli/commands.h"
#include "client/cli/proto_json.h"
#include "client/cli/table.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

struct TokenizeFlags {
  std::string model;
  std::string text;
  std::string chat_file;
};

Table TableOf(const v1::TokenizeResponse& response) {
  Table table = {.columns = {{.title = "position", .align = Align::kRight},
                             {.title = "id", .align = Align::kRight},
                             {.title = "token"}}};
  for (int i = 0; i < response.ids_size(); ++i) {
    table.AddRow(
        {absl::StrCat(i), absl::StrCat(response.ids(i)),
         i < response.texts_size() ? TokenText(response.texts(i)) : ""});
  }
  return table;
}

absl::Status Tokenize(const client::Client& client,
                      const v1::TokenizeRequest& request,
                      Invocation* invocation) {
  ASSIGN_OR_RETURN(const v1::TokenizeResponse response,
                   client.Tokenize(request, invocation->call_options()));
  if (invocation->flags().json) {
    invocation->PrintJson(ToJson(response));
  } else {
    invocation->Print(Render(TableOf(response), invocation->output()));
  }
  return absl::OkStatus();
}

struct DetokenizeFlags {
  std::string model;
  std::vector<int32_t> ids;
  bool skip_special_tokens = false;
};

absl::Status Detokenize(const client::Client& client,
                        const DetokenizeFlags& flags, Invocation* invocation) {
  v1::DetokenizeRequest request;
  request.set_model(flags.model);
  request.mutable_ids()->Add(flags.ids.begin(), flags.ids.end());
  request.set_skip_special_tokens(flags.skip_special_tokens);
  ASSIGN_OR_RETURN(const v1::DetokenizeResponse response,
                   client.Detokenize(request, invocation->call_options()));
  if (invocation->flags().json) {
    invocation->PrintJson(ToJson(response));
  } else {
    invocation->Print(response.text() + "\n");
  }
  return absl::OkStatus();
}

v1::TokenizeRequest RequestOf(const TokenizeFlags& flags) {
  v1::TokenizeRequest request;
  request.set_model(flags.model);
  if (flags.chat_file.empty()) {
    request.set_text(flags.text);
    return request;
  }
  absl::StatusOr<v1::Chat> chat = ReadChatFile(flags.chat_file);
  if (!chat.ok()) {
    throw CLI::ValidationError(std::string(chat.status().message()));
  }
  *request.mutable_chat() = *std::move(chat);
  return request;
}

}  // namespace

void AddTokenizeCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "tokenize", "Shows the token ids of a text or a conversation");
  auto flags = std::make_shared<TokenizeFlags>();
  command->add_option("--model,-m", flags->model,
                      "Model; not needed where the server holds one");
  CLI::Option* chat = command->add_option(
      "--chat", flags->chat_file,
      "Conversation as JSON instead, `-` for standard input");
  CLI::Option* text =
      command->add_option("text", flags->text, "The text")->excludes(chat);
  command->footer(
      "Examples:\n  phitap tokenize 'When Mary and John went'\n"
      "  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | "
      "phitap tokenize --chat - --json");
  command->callback([=] {
    if (text->count() + chat->count() == 0) {
      throw CLI::RequiredError("TEXT or --chat FILE");
    }
    const v1::TokenizeRequest request = RequestOf(*flags);
    invocation->SetWork([request, invocation](const client::Client& client) {
      return Tokenize(client, request, invocation);
    });
  });
}

void AddDetokenizeCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command =
      app->add_subcommand("detokenize", "Shows the text of token ids");
  auto flags = std::make_shared<DetokenizeFlags>();
  command->add_option("--model,-m", flags->model,
                      "Model; not needed where the server holds one");
  command->add_option("ids", flags->ids, "Token ids")
      ->required()
      ->delimiter(',');
  command->add_flag("--skip-special-tokens", flags->skip_special_tokens,
                    "Leave special tokens out of the text");
  command->footer(
      "Examples:\n  phitap detokenize 1 5 9\n"
      "  phitap detokenize 1,5,9 --json");
  command->callback([flags, invocation] {
    invocation->SetWork([flags, invocation](const client::Client& client) {
      return Detokenize(client, *flags, invocation);
    });
  });
}

}  // namespace phitap::cli
