#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/capture_text.h"
#include "client/cli/commands.h"
#include "client/cli/edit_text.h"
#include "client/cli/number_text.h"
#include "client/cli/received_trace.h"
#include "client/cli/trace_flags.h"
#include "client/cli/trace_json.h"
#include "client/cli/trace_report.h"
#include "client/cli/traced_groups.h"
#include "client/cpp/safetensors_writer.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

struct TraceCommandFlags {
  TraceFlags trace;
  std::string output_file;
  bool values = false;
};

// Names that fail to come are no reason to lose the trace: ids are shown then.
TokenNames NamesFor(const std::vector<int32_t>& ids, const std::string& model,
                    const client::Client& client,
                    const Invocation& invocation) {
  if (ids.empty()) return TokenNames();
  v1::DetokenizeRequest request;
  request.set_model(model);
  request.mutable_ids()->Add(ids.begin(), ids.end());
  const absl::StatusOr<v1::DetokenizeResponse> response =
      client.Detokenize(request, invocation.call_options());
  std::map<int32_t, std::string> texts;
  if (!response.ok()) return TokenNames();
  for (int i = 0; i < response->texts_size(); ++i) {
    texts.emplace(ids[static_cast<size_t>(i)], response->texts(i));
  }
  return TokenNames(std::move(texts));
}

// A trace, and where it was written.
struct Outcome {
  client::Trace trace;
  absl::Duration elapsed;
  std::vector<std::string> names;
  std::string output_file;
};

// A line for each value that stays on the server.
std::string KeptText(const v1::TraceRequest& request,
                     const client::Trace& trace) {
  std::string text;
  for (const v1::Capture& capture : request.captures()) {
    if (capture.tensor_name().empty() || trace.AnyFailed()) continue;
    absl::StrAppend(&text, "kept ", capture.tensor_name(), " on the server\n");
  }
  return text;
}

void PrintReport(const client::Client& client, const v1::TraceRequest& request,
                 const std::vector<TracedGroup>& groups, const Outcome& outcome,
                 Invocation* invocation) {
  const Terminal terminal = invocation->output();
  const TokenNames names =
      NamesFor(IdsToName(groups), request.model(), client, *invocation);
  std::string text = RenderRuns(outcome.trace, request, terminal) +
                     RenderGroups(groups, names, terminal) + "\n" +
                     KeptText(request, outcome.trace);
  if (!outcome.output_file.empty()) {
    absl::StrAppend(&text, "wrote ", outcome.output_file, "\n");
  }
  invocation->Print(text +
                    RenderSummary(outcome.trace, outcome.elapsed, terminal));
}

absl::Status RunTrace(const client::Client& client, const TraceInput& input,
                      const TraceCommandFlags& flags, Invocation* invocation) {
  const v1::TraceRequest& request = input.request;
  ASSIGN_OR_RETURN(ReceivedTrace received,
                   ReceiveTrace(client, request, *invocation));
  Outcome outcome = {.trace = std::move(received.trace),
                     .elapsed = received.elapsed};
  const std::vector<TracedGroup> groups = GroupTensors(outcome.trace, request);
  std::vector<v1::TensorDescriptor*> descriptors;
  for (client::TracedTensor& tensor : outcome.trace.tensors) {
    descriptors.push_back(&tensor.descriptor);
  }
  RestoreDefaultLabels(request, input.is_named, descriptors);
  ASSIGN_OR_RETURN(outcome.names, client::TensorNames(outcome.trace));
  // A file without a tensor would only look like a result.
  if (!flags.output_file.empty() && !outcome.trace.tensors.empty()) {
    RETURN_IF_ERROR(client::WriteTrace(flags.output_file, outcome.trace));
    outcome.output_file = flags.output_file;
  }
  if (invocation->flags().json) {
    Json document =
        TraceJson(outcome.trace, outcome.names,
                  flags.values ? Values::kIncluded : Values::kLeftOut);
    document["file"] = outcome.output_file;
    invocation->PrintJson(document);
  } else {
    PrintReport(client, request, groups, outcome, invocation);
  }
  return StatusOfRuns(outcome.trace);
}

constexpr char kExamples[] =
    "\n\nExamples:\n"
    "  phitap trace -p 'When Mary and John went to the store, John gave a "
    "drink to' -c 'layers.*.layer_output' --lens 5\n"
    "  phitap trace -p 'Hello' -p 'Goodbye' -c 'layers.8-15.mlp_neurons' "
    "--positions -1 --out neurons.safetensors\n"
    "  phitap trace -t 1,5,9 -c 'layers.0.attention_probabilities@heads=0,2' "
    "-c logits@positions=-1@reduce=topk:10 --json --values\n"
    "  phitap trace --chat talk.json -c 'end=layers.*.layer_output"
    "@positions=-1@dtype=f32' --numerics transformers --attention eager\n"
    "  phitap trace --run clean='When Mary and John went to the store, John "
    "gave a drink to' --run corrupt='When Mary and John went to the store, "
    "Mary gave a drink to' -i 'corrupt: layers.2.layer_output@positions=-1 set "
    "run=clean' -c logits@positions=-1\n"
    "  phitap trace -p 'When Mary and John' -i '*: layers.3.attention_scores"
    "@heads=0@queries=-1@keys=1 knockout' -c logits@positions=-1\n"
    "  phitap trace --request patchscope.json --json";

}  // namespace

void AddTraceCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command =
      app->add_subcommand("trace", "Runs prompts and reads values inside");
  auto flags = std::make_shared<TraceCommandFlags>();
  AddTraceFlags(command, &flags->trace);
  command
      ->add_option("--out,-o", flags->output_file,
                   "Write the tensors to this safetensors file")
      ->type_name("FILE");
  command->add_flag("--values", flags->values,
                    "With --json: the numbers themselves, too");
  command->footer(
      absl::StrCat(kCaptureGrammar, "\n\n", EditGrammar(), kExamples));
  command->callback([flags, invocation] {
    if (flags->values && !invocation->flags().json) {
      throw CLI::ValidationError("--values: it needs --json");
    }
    absl::StatusOr<TraceInput> input = ReadTraceFlags(flags->trace);
    if (!input.ok()) {
      throw CLI::ValidationError(std::string(input.status().message()));
    }
    invocation->SetWork([flags, input = *std::move(input),
                         invocation](const client::Client& client) {
      return RunTrace(client, input, *flags, invocation);
    });
  });
}

}  // namespace phitap::cli
