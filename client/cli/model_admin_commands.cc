#include "client/cli/model_admin_commands.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/number_text.h"
#include "client/cli/progress_line.h"
#include "client/cli/proto_json.h"
#include "client/cli/table.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

struct ModelAdminFlags {
  std::string name;
  // Of load.
  std::string path;
};

std::string StatusText(const v1::ModelState& state) {
  switch (state.status()) {
    case v1::MODEL_STATUS_AVAILABLE:
      return "available";
    case v1::MODEL_STATUS_LOADING:
      return "loading";
    case v1::MODEL_STATUS_READY:
      return state.stage().empty() ? "ready" : "ready, reloading";
    case v1::MODEL_STATUS_UNLOADING:
      return "unloading";
    case v1::MODEL_STATUS_FAILED:
      return "failed";
    default:
      return "unknown";
  }
}

std::string ProgressText(const v1::ModelState& state) {
  return absl::StrFormat("%3d%%  %s",
                         static_cast<int>(std::lround(state.progress() * 100)),
                         state.stage().empty() ? "ready" : state.stage());
}

std::string DetailText(const v1::ModelState& state) {
  return state.stage().empty() ? state.failure() : ProgressText(state);
}

absl::Status ListStates(const client::Client& client,
                        const ModelAdminFlags& /*flags*/,
                        Invocation* invocation) {
  ASSIGN_OR_RETURN(const std::vector<v1::ModelState> states,
                   client.admin().ListModelStates(invocation->call_options()));
  if (invocation->flags().json) {
    Json list = Json::array();
    for (const v1::ModelState& state : states) list.push_back(ToJson(state));
    invocation->PrintJson(Json{{"models", std::move(list)}});
    return absl::OkStatus();
  }
  Table table = {.columns = {{.title = "model"},
                             {.title = "status"},
                             {.title = "traces", .align = Align::kRight},
                             {.title = "weights", .align = Align::kRight},
                             {.title = "folder", .may_shrink = true},
                             {.title = "", .may_shrink = true}}};
  for (const v1::ModelState& state : states) {
    table.AddRow(
        {state.name(), StatusText(state), absl::StrCat(state.requests()),
         state.weight_bytes() > 0 ? BytesText(state.weight_bytes()) : "",
         state.path(), DetailText(state)});
  }
  invocation->Print(Render(table, invocation->output()));
  return absl::OkStatus();
}

// Says in the end how the model is.
absl::Status Report(const std::string& name, const std::string& what,
                    Invocation* invocation) {
  if (invocation->flags().json) {
    invocation->PrintJson(Json{{what, name}});
  } else {
    invocation->Print(absl::StrCat(what, " ", name, "\n"));
  }
  return absl::OkStatus();
}

// Shows how far it is, as the server tells.
client::ModelStateCallback ShowIn(ProgressLine& line) {
  return [&line, start = absl::Now()](const v1::ModelState& state) {
    line.Show(ProgressText(state), absl::Now() - start);
  };
}

absl::Status Load(const client::Client& client, const ModelAdminFlags& flags,
                  Invocation* invocation) {
  {
    ProgressLine line(invocation->errors());
    RETURN_IF_ERROR(client.admin().LoadModel(
        flags.name, flags.path, ShowIn(line), invocation->call_options()));
  }
  return Report(flags.name, "loaded", invocation);
}

absl::Status Reload(const client::Client& client, const ModelAdminFlags& flags,
                    Invocation* invocation) {
  {
    ProgressLine line(invocation->errors());
    RETURN_IF_ERROR(client.admin().ReloadModel(flags.name, ShowIn(line),
                                               invocation->call_options()));
  }
  return Report(flags.name, "reloaded", invocation);
}

absl::Status Unload(const client::Client& client, const ModelAdminFlags& flags,
                    Invocation* invocation) {
  RETURN_IF_ERROR(
      client.admin().UnloadModel(flags.name, invocation->call_options()));
  return Report(flags.name, "unloaded", invocation);
}

using Action = absl::Status (*)(const client::Client&, const ModelAdminFlags&,
                                Invocation*);

CLI::App* AddAction(CLI::App* command, const char* name, const char* what,
                    Action action, std::shared_ptr<ModelAdminFlags> flags,
                    Invocation* invocation) {
  CLI::App* added = command->add_subcommand(name, what);
  added->fallthrough();
  added->callback([=] {
    invocation->SetWork([=](const client::Client& client) {
      return action(client, *flags, invocation);
    });
  });
  return added;
}

}  // namespace

void AddModelAdminCommands(CLI::App* models, Invocation* invocation) {
  auto flags = std::make_shared<ModelAdminFlags>();
  CLI::App* states =
      AddAction(models, "states", "Lists all models, loaded or not (admin)",
                ListStates, flags, invocation);
  states->footer(
      "Examples:\n  phitap models states\n  phitap models states --json");
  CLI::App* load = AddAction(
      models, "load", "Loads a model from the server's model folder (admin)",
      Load, flags, invocation);
  CLI::App* reload =
      AddAction(models, "reload",
                "Loads a model anew, which then takes over new traces (admin)",
                Reload, flags, invocation);
  CLI::App* unload = AddAction(
      models, "unload", "Takes a model away once its traces have ended (admin)",
      Unload, flags, invocation);
  for (CLI::App* action : {load, reload, unload}) {
    action->add_option("name", flags->name, "What requests call it")
        ->required();
  }
  load->add_option("folder", flags->path,
                   "Below the server's model folder; default: NAME");
  load->footer(
      "Examples:\n  phitap models load phi-4\n"
      "  phitap models load tuned experiments/phi-4-tuned");
  reload->footer("Examples:\n  phitap models reload phi-4");
  unload->footer("Examples:\n  phitap models unload phi-4");
}

}  // namespace phitap::cli
