#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/proto_json.h"
#include "client/cli/table.h"
#include "client/cli/terminal.h"
#include "client/cpp/wire_dtype.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

struct HooksFlags {
  std::string model;
  bool names_only = false;
  bool printout = false;
};

// What `--capture` takes for the hook point in every layer.
std::string NameForCapture(const v1::HookPoint& hook) {
  return absl::StrContains(hook.full_name(), "{i}")
             ? absl::StrCat("layers.*.", hook.name())
             : hook.name();
}

std::string ShapeOf(const v1::HookPoint& hook) {
  return absl::StrCat("[", absl::StrJoin(hook.dimension_sizes(), ", "), "]");
}

// What the numbers in the shapes are: `hidden_size 64, num_heads 4, …`.
std::string LegendOf(const v1::Model& model) {
  std::set<std::string> dimensions;
  for (const v1::HookPoint& hook : model.hook_points()) {
    for (int i = 0; i < hook.dimension_names_size(); ++i) {
      const std::string& name = hook.dimension_names(i);
      const std::string& size = hook.dimension_sizes(i);
      if (name != size) dimensions.insert(absl::StrCat(name, " ", size));
    }
  }
  return absl::StrCat("seq, query, key: tokens of the prompt; ",
                      absl::StrJoin(dimensions, ", "), "\n");
}

std::string NotesOf(const v1::HookPoint& hook) {
  return hook.condition().empty()
             ? hook.description()
             : absl::StrCat(hook.description(), " (", hook.condition(), ")");
}

// Files and pipes take descriptions uncut, e.g. for grep.
constexpr int kWholeLines = 1000;

Table TableOf(const v1::Model& model) {
  Table table = {.columns = {{.title = "hook point"},
                             {.title = "shape"},
                             {.title = "type"},
                             {.title = "use"},
                             {.title = "what it is", .may_shrink = true}}};
  for (const v1::HookPoint& hook : model.hook_points()) {
    const Style style = {.dim = !hook.available()};
    table.rows.push_back(
        {{.text = NameForCapture(hook), .style = style},
         {.text = ShapeOf(hook), .style = style},
         {.text = client::WireName(hook.dtype()), .style = style},
         {.text = !hook.available() ? "-"
                  : hook.writable() ? "rw"
                                    : "r",
          .style = style},
         {.text = NotesOf(hook), .style = style}});
  }
  return table;
}

absl::Status ShowHooks(const client::Client& client, const HooksFlags& flags,
                       Invocation* invocation) {
  ASSIGN_OR_RETURN(const v1::Model model,
                   client.GetModel(flags.model, invocation->call_options()));
  if (invocation->flags().json) {
    invocation->PrintJson(ToJson(model));
  } else if (flags.printout) {
    invocation->Print(model.printout() + "\n");
  } else if (flags.names_only) {
    for (const v1::HookPoint& hook : model.hook_points()) {
      invocation->Print(NameForCapture(hook) + "\n");
    }
  } else {
    Terminal output = invocation->output();
    if (!output.interactive) output.width = kWholeLines;
    invocation->Print(Render(TableOf(model), output) + LegendOf(model));
    for (const std::string& warning : model.warnings()) {
      invocation->Print(absl::StrCat("warning: ", warning, "\n"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddHooksCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "hooks", "Describes a model: every hook point with its shape");
  auto flags = std::make_shared<HooksFlags>();
  command->add_option("model", flags->model,
                      "Model; not needed where the server holds one");
  command->add_flag("--names", flags->names_only, "Only the names, one a line");
  command->add_flag("--printout", flags->printout,
                    "The module tree with its hook points");
  command->footer(
      "Examples:\n  phitap hooks demo\n  phitap hooks demo --printout\n"
      "  phitap hooks demo --json | jq '.summary.config'");
  command->callback([flags, invocation] {
    invocation->SetWork([flags, invocation](const client::Client& client) {
      return ShowHooks(client, *flags, invocation);
    });
  });
}

}  // namespace phitap::cli
