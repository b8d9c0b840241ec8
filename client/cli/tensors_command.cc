#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/cli/commands.h"
#include "client/cli/number_text.h"
#include "client/cli/progress_line.h"
#include "client/cli/proto_json.h"
#include "client/cli/table.h"
#include "client/cpp/safetensors_reader.h"
#include "client/cpp/safetensors_writer.h"
#include "client/cpp/wire_dtype.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

constexpr char kEveryTensor[] = ":*";

struct TensorsFlags {
  std::string prefix;
  // Of put and delete.
  std::string name;
  std::string file;
};

std::vector<std::string> RowOf(const v1::StoredTensor& tensor) {
  const std::vector<int64_t> shape(tensor.shape().begin(),
                                   tensor.shape().end());
  const absl::Time time = absl::FromUnixSeconds(tensor.create_time().seconds());
  return {tensor.name(),
          ShapeText(shape),
          client::WireName(tensor.dtype()),
          BytesText(tensor.size_bytes()),
          absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone()),
          tensor.persistent() ? "yes" : "no"};
}

absl::Status List(const client::Client& client, const TensorsFlags& flags,
                  Invocation* invocation) {
  ASSIGN_OR_RETURN(
      const v1::ListTensorsResponse response,
      client.ListTensors(flags.prefix, invocation->call_options()));
  if (invocation->flags().json) {
    invocation->PrintJson(ToJson(response));
    return absl::OkStatus();
  }
  Table table = {.columns = {{.title = "tensor", .may_shrink = true},
                             {.title = "shape"},
                             {.title = "type"},
                             {.title = "bytes", .align = Align::kRight},
                             {.title = "since"},
                             {.title = "outlives the server"}}};
  for (const v1::StoredTensor& tensor : response.tensors()) {
    table.AddRow(RowOf(tensor));
  }
  invocation->Print(absl::StrCat(
      response.tensors_size() > 0 ? Render(table, invocation->output()) : "",
      response.tensors_size(),
      response.tensors_size() == 1 ? " tensor; " : " tensors; ",
      BytesText(response.used_bytes()), " of ",
      BytesText(response.limit_bytes()), " used\n"));
  return absl::OkStatus();
}

// FILE or FILE:KEY. A file may have a colon in its name, too.
absl::StatusOr<HostTensor> ReadTensor(const std::string& text) {
  absl::StatusOr<HostTensor> whole = client::ReadSafetensor(text, "");
  const size_t colon = text.rfind(':');
  if (!absl::IsNotFound(whole.status()) || colon == std::string::npos) {
    return whole;
  }
  return client::ReadSafetensor(text.substr(0, colon), text.substr(colon + 1));
}

absl::StatusOr<v1::StoredTensor> Upload(const client::Client& client,
                                        const std::string& name,
                                        const HostTensor& tensor,
                                        const Invocation& invocation) {
  const absl::Time start = absl::Now();
  ProgressLine progress(invocation.errors());
  const auto show = [&](int64_t sent, int64_t total) {
    const absl::Duration elapsed = absl::Now() - start;
    progress.Update({.received_bytes = sent,
                     .total_bytes = total,
                     .elapsed = elapsed,
                     .bytes_per_second = static_cast<double>(sent) /
                                         absl::ToDoubleSeconds(elapsed)});
  };
  return client.PutTensor(name, tensor, invocation.call_options(), show);
}

// What to upload, and under which name: NAME, or for FILE:* NAME.KEY each.
absl::StatusOr<std::vector<client::NamedTensor>> ReadTensors(
    const TensorsFlags& flags) {
  std::vector<client::NamedTensor> tensors;
  absl::string_view file = flags.file;
  if (!absl::ConsumeSuffix(&file, kEveryTensor)) {
    ASSIGN_OR_RETURN(HostTensor tensor, ReadTensor(flags.file));
    tensors.push_back({.name = flags.name, .value = std::move(tensor)});
    return tensors;
  }
  const std::string path(file);
  ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                   client::SafetensorNames(path));
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(HostTensor tensor, client::ReadSafetensor(path, key));
    tensors.push_back({.name = absl::StrCat(flags.name, ".", key),
                       .value = std::move(tensor)});
  }
  return tensors;
}

absl::Status Put(const client::Client& client, const TensorsFlags& flags,
                 Invocation* invocation) {
  ASSIGN_OR_RETURN(const std::vector<client::NamedTensor> tensors,
                   ReadTensors(flags));
  Json documents = Json::array();
  for (const client::NamedTensor& tensor : tensors) {
    ASSIGN_OR_RETURN(const v1::StoredTensor stored,
                     Upload(client, tensor.name, tensor.value, *invocation));
    documents.push_back(ToJson(stored));
    if (invocation->flags().json) continue;
    invocation->Print(absl::StrCat(
        "kept ", stored.name(), " ", ShapeText(tensor.value.shape), " ",
        client::WireName(stored.dtype()), ", ", BytesText(stored.size_bytes()),
        stored.persistent() ? "; it outlives the server\n" : "\n"));
  }
  if (invocation->flags().json) {
    invocation->PrintJson({{"tensors", std::move(documents)}});
  }
  return absl::OkStatus();
}

absl::Status Delete(const client::Client& client, const TensorsFlags& flags,
                    Invocation* invocation) {
  RETURN_IF_ERROR(client.DeleteTensor(flags.name, invocation->call_options()));
  if (invocation->flags().json) {
    invocation->PrintJson(Json{{"deleted", flags.name}});
  } else {
    invocation->Print(absl::StrCat("deleted ", flags.name, "\n"));
  }
  return absl::OkStatus();
}

using Action = absl::Status (*)(const client::Client&, const TensorsFlags&,
                                Invocation*);

void SetAction(Action action, const std::shared_ptr<TensorsFlags>& flags,
               Invocation* invocation) {
  invocation->SetWork([=](const client::Client& client) {
    return action(client, *flags, invocation);
  });
}

CLI::App* AddAction(CLI::App* command, const char* name, const char* what,
                    const std::shared_ptr<TensorsFlags>& flags) {
  CLI::App* action = command->add_subcommand(name, what);
  action->fallthrough();
  action->add_option("name", flags->name, "Its name on the server")->required();
  return action;
}

}  // namespace

void AddTensorsCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "tensors", "Lists, uploads and deletes tensors kept on the server");
  auto flags = std::make_shared<TensorsFlags>();
  command->add_option("--prefix", flags->prefix,
                      "List only names that begin so");
  command->require_subcommand(0, 1);
  CLI::App* put = AddAction(command, "put", "Uploads a tensor", flags);
  put->add_option("file", flags->file,
                  "FILE or FILE:KEY: a safetensors file, and which of its "
                  "tensors; FILE:* uploads all, each as NAME.KEY")
      ->required();
  put->callback([flags, invocation] { SetAction(Put, flags, invocation); });
  CLI::App* remove = AddAction(command, "delete", "Deletes a tensor", flags);
  remove->callback(
      [flags, invocation] { SetAction(Delete, flags, invocation); });
  command->footer(
      "Interventions use them as tensor=NAME; `phitap trace -c "
      "HOOK@keep=NAME` keeps what it reads.\n\n"
      "Examples:\n  phitap tensors\n"
      "  phitap tensors put joy vectors.safetensors:joy\n"
      "  phitap tensors delete joy");
  put->footer(
      "Examples:\n  phitap tensors put joy vectors.safetensors:joy\n"
      "  phitap tensors put sae 'dictionary.safetensors:*'");
  remove->footer("Examples:\n  phitap tensors delete joy");
  command->callback([command, flags, invocation] {
    if (command->get_subcommands().empty()) SetAction(List, flags, invocation);
  });
}

}  // namespace phitap::cli
