#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/capture_text.h"
#include "client/cli/commands.h"
#include "client/cli/edit_text.h"
#include "client/cli/number_text.h"
#include "client/cli/proto_json.h"
#include "client/cli/table.h"
#include "client/cli/trace_flags.h"
#include "client/cli/traced_groups.h"
#include "client/cpp/wire_dtype.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

Table TableOf(const v1::PlanTraceResponse& plan) {
  Table table = {.columns = {{.title = "tensor", .may_shrink = true},
                             {.title = "run"},
                             {.title = "shape"},
                             {.title = "type"},
                             {.title = "bytes", .align = Align::kRight}}};
  for (const v1::TensorDescriptor& tensor : plan.tensors()) {
    std::string name = tensor.label();
    if (!tensor.hook_point().empty() && tensor.hook_point() != name) {
      absl::StrAppend(&name, " = ", tensor.hook_point());
    }
    if (!tensor.part().empty()) absl::StrAppend(&name, " ", tensor.part());
    if (tensor.step() > 0) absl::StrAppend(&name, " at step ", tensor.step());
    const std::vector<int64_t> shape(tensor.shape().begin(),
                                     tensor.shape().end());
    table.AddRow({name, tensor.run(), ShapeText(shape),
                  client::WireName(tensor.dtype()),
                  BytesText(tensor.size_bytes())});
  }
  return table;
}

std::string CostOf(const v1::PlanTraceResponse& plan) {
  int64_t tokens = 0;
  for (const v1::RunTokens& run : plan.runs()) tokens += run.ids_size();
  return absl::StrCat(plan.tensors_size(), " tensors, ",
                      BytesText(plan.size_bytes()), "; ", plan.runs_size(),
                      " runs, ", tokens, " tokens; ", plan.token_layers(),
                      " token-layers to compute of ",
                      plan.token_layers_full_depth(), " at full depth\n");
}

absl::Status Plan(const client::Client& client, const TraceInput& input,
                  Invocation* invocation) {
  const v1::TraceRequest& request = input.request;
  ASSIGN_OR_RETURN(v1::PlanTraceResponse plan,
                   client.PlanTrace(request, invocation->call_options()));
  std::vector<v1::TensorDescriptor*> tensors;
  for (v1::TensorDescriptor& tensor : *plan.mutable_tensors()) {
    tensors.push_back(&tensor);
  }
  RestoreDefaultLabels(request, input.is_named, tensors);
  if (invocation->flags().json) {
    invocation->PrintJson(ToJson(plan));
  } else {
    invocation->Print(Render(TableOf(plan), invocation->output()) +
                      CostOf(plan));
  }
  return absl::OkStatus();
}

}  // namespace

void AddPlanCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "plan", "Tells what a trace would return and cost, without running it");
  auto flags = std::make_shared<TraceFlags>();
  AddTraceFlags(command, flags.get());
  command->footer(
      absl::StrCat(kCaptureGrammar, "\n\n", EditGrammar(),
                   "\n\nExamples:\n"
                   "  phitap plan -p 'When Mary and John' -c "
                   "'layers.*.layer_output'\n"
                   "  phitap plan -p 'When Mary and John' -i "
                   "'layers.2.layer_output@positions=-1 zero' -c logits\n"
                   "  phitap plan -t 1,5,9 -c logits@positions=-1 --json"));
  command->callback([flags, invocation] {
    absl::StatusOr<TraceInput> input = ReadTraceFlags(*flags);
    if (!input.ok()) {
      throw CLI::ValidationError(std::string(input.status().message()));
    }
    invocation->SetWork(
        [input = *std::move(input), invocation](const client::Client& client) {
          return Plan(client, input, invocation);
        });
  });
}

}  // namespace phitap::cli
