#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/edit_text.h"
#include "client/cli/generation_flags.h"
#include "client/cli/generation_view.h"
#include "client/cli/number_text.h"
#include "client/cli/progress_line.h"
#include "client/cli/proto_json.h"
#include "client/cli/received_trace.h"
#include "client/cli/run_flags.h"
#include "client/cpp/run.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

constexpr char kPlain[] = "plain";
constexpr char kSteered[] = "steered";
constexpr int32_t kDefaultTokens = 40;

struct GenerateFlags {
  RunFlags runs;
  GenerationFlags generation = {.max_tokens = kDefaultTokens};
  bool no_compare = false;
};

struct GenerateInput {
  v1::TraceRequest request;
  // Runs that generate, in the order in which they are shown.
  std::vector<std::string> shown;
};

absl::Status CheckThatThereIsOnePrompt(const RunFlags& flags) {
  const size_t prompts =
      flags.prompts.size() + flags.tokens.size() + flags.chat_files.size();
  if (prompts == 1) return absl::OkStatus();
  return InvalidField(
      {.field = "--prompt",
       .problem = absl::StrCat("there are ", prompts, " prompts to go on"),
       .valid = "one --prompt, --tokens or --chat; --run LABEL=TEXT is for "
                "what interventions read"});
}

// Takes the prompt out: its runs come last, so that interventions without a
// label are for it. Those of --run, which interventions read, stay.
v1::Run TakePrompt(v1::TraceRequest* request) {
  const v1::Run prompt = request->runs(0);
  request->mutable_runs()->DeleteSubrange(0, 1);
  return prompt;
}

absl::StatusOr<GenerateInput> ReadGenerateFlags(const GenerateFlags& flags) {
  RETURN_IF_ERROR(CheckThatThereIsOnePrompt(flags.runs));
  GenerateInput input;
  v1::TraceRequest& request = input.request;
  RETURN_IF_ERROR(ReadRuns(flags.runs, &request));
  v1::Run prompt = TakePrompt(&request);
  const bool steers = !flags.runs.interventions.empty();
  ASSIGN_OR_RETURN(const client::Generate generate,
                   ReadGeneration(flags.generation));
  const auto add = [&](const char* label) {
    prompt.set_label(label);
    *request.add_runs() = client::Generating(prompt, generate);
    input.shown.push_back(label);
  };
  if (!steers || !flags.no_compare) add(kPlain);
  if (steers) add(kSteered);
  ASSIGN_OR_RETURN(const std::vector<RunEdit> edits,
                   ReadEdits(flags.runs, &request));
  for (const RunEdit& edit : edits) {
    for (const int run : edit.runs) {
      *request.mutable_runs(run)->add_interventions() = edit.edit;
    }
  }
  return input;
}

// What was generated, why it ended and how fast it was, in one line.
std::string EndOf(const client::Trace& trace, const GenerateInput& input,
                  absl::Duration elapsed) {
  std::string text;
  size_t tokens = 0;
  for (const std::string& label : input.shown) {
    const client::TracedRun* run = trace.FindRun(label);
    if (run == nullptr) continue;
    tokens += run->generated.size();
    const bool stopped = run->status.finish_reason() == v1::FINISH_REASON_STOP;
    absl::StrAppend(&text, text.empty() ? "" : "; ",
                    input.shown.size() > 1 ? label + ": " : "",
                    run->generated.size(), " tokens, ",
                    stopped ? "stopped by itself" : "cut off");
  }
  return absl::StrFormat(
      "%s; %s, %.3g tokens/s", text, DurationText(elapsed),
      static_cast<double>(tokens) / absl::ToDoubleSeconds(elapsed));
}

// A line of JSON for each token and one for the end.
absl::Status GenerateAsJson(const client::Client& client,
                            const GenerateInput& input,
                            Invocation* invocation) {
  ASSIGN_OR_RETURN(
      const client::Trace trace,
      client.Trace(input.request, invocation->call_options(),
                   {.on_token = [&](const v1::GeneratedToken& token) {
                     invocation->PrintJsonLine({{"token", ToJson(token)}});
                   }}));
  invocation->PrintJsonLine(
      {{"header", ToJson(trace.header)}, {"summary", ToJson(trace.summary)}});
  return StatusOfRuns(trace);
}

// Until the first token comes, a line tells what the request waits for.
absl::StatusOr<client::Trace> TraceInto(GenerationView* view,
                                        const client::Client& client,
                                        v1::TraceRequest request,
                                        const Invocation& invocation) {
  request.mutable_options()->set_report_progress(
      invocation.errors().interactive);
  std::optional<ProgressLine> waiting(std::in_place, invocation.errors());
  return client.Trace(request, invocation.call_options(),
                      {.on_progress =
                           [&waiting](const client::TraceProgress& progress) {
                             if (waiting) waiting->Update(progress);
                           },
                       .on_token =
                           [&waiting, view](const v1::GeneratedToken& token) {
                             waiting.reset();
                             view->Add(token);
                           }});
}

absl::Status RunGenerate(const client::Client& client,
                         const GenerateInput& input, Invocation* invocation) {
  if (invocation->flags().json) {
    return GenerateAsJson(client, input, invocation);
  }
  const Terminal terminal = invocation->output();
  GenerationView view(input.shown, terminal,
                      [&](absl::string_view text) { invocation->Print(text); });
  const absl::Time start = absl::Now();
  const absl::StatusOr<client::Trace> trace =
      TraceInto(&view, client, input.request, *invocation);
  if (absl::IsInvalidArgument(trace.status())) return trace.status();
  view.Finish();
  RETURN_IF_ERROR(trace.status());
  // A pipe gets the text alone.
  if (terminal.interactive) {
    const std::string end = EndOf(*trace, input, absl::Now() - start);
    invocation->Print(
        absl::StrCat("\n", Painted(end, {.dim = true}, terminal.colors), "\n"));
  }
  return StatusOfRuns(*trace);
}

constexpr char kExamples[] =
    "\n\nExamples:\n"
    "  phitap generate -p 'When Mary and John went to the store, John gave a "
    "drink to'\n"
    "  phitap generate -p 'I think that' -n 60 --temperature 0.8 --top-p 0.95 "
    "--seed 7\n"
    "  phitap generate -p 'I think that' -i 'layers.12.layer_output add "
    "tensor=joy scale=6'\n"
    "  phitap generate --chat talk.json -i 'layers.12-20.layer_output "
    "project-out file=refusal.safetensors' --no-compare\n"
    "  phitap generate -p 'Hello' -n 5 --json | jq -r .token.text";

}  // namespace

void AddGenerateCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "generate", "Goes on after a prompt, plain and steered side by side");
  auto flags = std::make_shared<GenerateFlags>();
  AddRunFlags(command, &flags->runs);
  AddGenerationFlags(command, &flags->generation);
  command->add_flag("--no-compare", flags->no_compare,
                    "With interventions: only the steered text");
  command->footer(absl::StrCat(
      "Tokens come as they are generated; with --json a line for each, and one "
      "for the end.\n\n",
      EditGrammar(), kExamples));
  command->callback([flags, invocation] {
    absl::StatusOr<GenerateInput> input = ReadGenerateFlags(*flags);
    if (!input.ok()) {
      throw CLI::ValidationError(std::string(input.status().message()));
    }
    invocation->SetWork(
        [input = *std::move(input), invocation](const client::Client& client) {
          return RunGenerate(client, input, invocation);
        });
  });
}

}  // namespace phitap::cli
