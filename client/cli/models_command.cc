#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/model_admin_commands.h"
#include "client/cli/number_text.h"
#include "client/cli/proto_json.h"
#include "client/cli/table.h"
#include "client/cpp/wire_dtype.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

constexpr size_t kDigestLetters = 12;

std::string InputsOf(const v1::ModelSummary& model) {
  if (!model.has_tokenizer()) return "ids";
  return model.has_chat_template() ? "ids, text, chat" : "ids, text";
}

std::string HeadsOf(const v1::ModelConfig& config) {
  return config.num_kv_heads() == config.num_heads()
             ? absl::StrCat(config.num_heads())
             : absl::StrCat(config.num_heads(), ":", config.num_kv_heads());
}

Table TableOf(const std::vector<v1::ModelSummary>& models) {
  Table table = {.columns = {{.title = "model"},
                             {.title = "layers", .align = Align::kRight},
                             {.title = "hidden", .align = Align::kRight},
                             {.title = "heads", .align = Align::kRight},
                             {.title = "vocab", .align = Align::kRight},
                             {.title = "context", .align = Align::kRight},
                             {.title = "parameters", .align = Align::kRight},
                             {.title = "weights", .align = Align::kRight},
                             {.title = "type"},
                             {.title = "input"},
                             {.title = "digest"}}};
  for (const v1::ModelSummary& model : models) {
    const v1::ModelConfig& config = model.config();
    table.AddRow({model.name(), absl::StrCat(config.num_layers()),
                  absl::StrCat(config.hidden_size()), HeadsOf(config),
                  absl::StrCat(config.vocab_size()),
                  absl::StrCat(config.max_position_embeddings()),
                  CountText(model.parameter_count()),
                  BytesText(model.weight_bytes()),
                  client::WireName(config.dtype()), InputsOf(model),
                  model.weights_digest().substr(0, kDigestLetters)});
  }
  return table;
}

absl::Status ListModels(const client::Client& client, bool names_only,
                        Invocation* invocation) {
  ASSIGN_OR_RETURN(const std::vector<v1::ModelSummary> models,
                   client.ListModels(invocation->call_options()));
  if (invocation->flags().json) {
    Json list = Json::array();
    for (const v1::ModelSummary& model : models) list.push_back(ToJson(model));
    invocation->PrintJson(Json{{"models", std::move(list)}});
  } else if (names_only) {
    for (const v1::ModelSummary& model : models) {
      invocation->Print(model.name() + "\n");
    }
  } else {
    invocation->Print(Render(TableOf(models), invocation->output()));
  }
  return absl::OkStatus();
}

}  // namespace

void AddModelsCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand("models", "Lists the loaded models");
  auto names_only = std::make_shared<bool>(false);
  command->add_flag("--names", *names_only, "Only the names, one a line");
  command->require_subcommand(0, 1);
  AddModelAdminCommands(command, invocation);
  command->footer(
      "Examples:\n  phitap models\n  phitap models --json\n"
      "  phitap models states\n  phitap models load phi-4");
  command->callback([command, names_only, invocation] {
    if (!command->get_subcommands().empty()) return;
    invocation->SetWork([names_only, invocation](const client::Client& client) {
      return ListModels(client, *names_only, invocation);
    });
  });
}

}  // namespace phitap::cli
