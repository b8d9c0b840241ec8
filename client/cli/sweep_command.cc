#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/axis_text.h"
#include "client/cli/commands.h"
#include "client/cli/edit_text.h"
#include "client/cli/metric_text.h"
#include "client/cli/proto_json.h"
#include "client/cli/received_trace.h"
#include "client/cli/run_flags.h"
#include "client/cli/sweep_answer.h"
#include "client/cli/sweep_view.h"
#include "client/cli/token_lookup.h"
#include "client/cli/trace_report.h"
#include "client/cpp/safetensors_writer.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

constexpr char kSweepLabel[] = "sweep";

struct SweepFlags {
  RunFlags runs;
  std::string axes = "layers,positions";
  std::vector<std::string> metrics;
  std::string output_file;
  bool raw = false;
  bool values = false;
};

// A request whose sweep lacks only its metrics, which need the server's
// tokenizer.
struct SweepInput {
  v1::TraceRequest request;
  std::vector<TypedMetric> metrics;
};

// The interventions of the run that the first of them is for are the sweep's;
// those of other runs stay as they are.
absl::Status ReadSweptEdits(const RunFlags& flags, v1::TraceRequest* request) {
  ASSIGN_OR_RETURN(const std::vector<RunEdit> edits, ReadEdits(flags, request));
  if (edits.empty()) {
    return InvalidField({.field = "--intervene",
                         .problem = "there is nothing to sweep",
                         .valid = "e.g. 'corrupt: layers.*.layer_output set "
                                  "run=clean'"});
  }
  const int swept = edits.front().runs.front();
  v1::Sweep* sweep = request->add_sweeps();
  sweep->set_label(kSweepLabel);
  sweep->set_run(request->runs(swept).label());
  for (const RunEdit& edit : edits) {
    for (const int run : edit.runs) {
      *(run == swept ? sweep->add_interventions()
                     : request->mutable_runs(run)->add_interventions()) =
          edit.edit;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SweepInput> ReadSweepFlags(const SweepFlags& flags) {
  SweepInput input;
  RETURN_IF_ERROR(ReadRuns(flags.runs, &input.request));
  RETURN_IF_ERROR(ReadSweptEdits(flags.runs, &input.request));
  ASSIGN_OR_RETURN(const std::vector<v1::SweepAxis> axes,
                   ParseAxes(flags.axes));
  for (const v1::SweepAxis& axis : axes) {
    *input.request.mutable_sweeps(0)->add_axes() = axis;
  }
  std::set<std::string> labels;
  for (const std::string& text : flags.metrics) {
    ASSIGN_OR_RETURN(TypedMetric metric, ParseMetric(text));
    // Two of a kind need names; the text is one.
    if (!labels.insert(metric.label).second) metric.label = text;
    input.metrics.push_back(std::move(metric));
  }
  return input;
}

// Text of the run that the sweep repeats, behind which tokens are looked up.
std::string PromptOf(const v1::TraceRequest& request) {
  for (const v1::Run& run : request.runs()) {
    if (run.label() == request.sweeps(0).run()) return run.prompt().text();
  }
  return "";
}

absl::StatusOr<SweepQuestion> QuestionOf(const client::Client& client,
                                         const SweepInput& input,
                                         const Invocation& invocation) {
  SweepQuestion question = {.request = input.request};
  v1::Sweep* sweep = question.request.mutable_sweeps(0);
  const std::string prompt = PromptOf(question.request);
  for (const TypedMetric& typed : input.metrics) {
    const auto lookup = [&](const std::string& text) {
      return LookUpToken(client, invocation.call_options(),
                         input.request.model(), prompt, text);
    };
    ASSIGN_OR_RETURN(const client::Metric metric, ResolveMetric(typed, lookup));
    *sweep->add_metrics() = client::ToMessage(metric);
    question.metric_texts.push_back(typed.text);
  }
  question.reference_run = ReferenceRunOf(*sweep);
  AddBaselines(&question);
  return question;
}

std::string SweptEditsText(const v1::Sweep& sweep) {
  std::string text;
  for (const v1::Intervention& edit : sweep.interventions()) {
    absl::StrAppend(&text, "in each cell of ", sweep.run(), ": ",
                    EditText(edit), "\n");
  }
  return text;
}

void PrintAnswer(const SweepQuestion& question, const SweepAnswer& answer,
                 const ReceivedTrace& received, const SweepFlags& flags,
                 Invocation* invocation) {
  const Terminal terminal = invocation->output();
  std::string text = absl::StrCat(
      RenderRuns(received.trace, question.request, terminal),
      SweptEditsText(question.request.sweeps(0)), "\n",
      RenderSweep(answer,
                  flags.raw ? SweepScale::kRaw : SweepScale::kNormalised,
                  terminal));
  if (flags.values) {
    absl::StrAppend(&text, "\n", RenderSweepValues(answer, terminal));
  }
  if (!flags.output_file.empty()) {
    absl::StrAppend(&text, "\nwrote ", flags.output_file, "\n");
  }
  invocation->Print(absl::StrCat(
      text, "\n", RenderSummary(received.trace, received.elapsed, terminal)));
}

absl::Status RunSweep(const client::Client& client, const SweepInput& input,
                      const SweepFlags& flags, Invocation* invocation) {
  ASSIGN_OR_RETURN(const SweepQuestion question,
                   QuestionOf(client, input, *invocation));
  ASSIGN_OR_RETURN(const ReceivedTrace received,
                   ReceiveTrace(client, question.request, *invocation));
  RETURN_IF_ERROR(StatusOfRuns(received.trace));
  ASSIGN_OR_RETURN(const SweepAnswer answer,
                   AnswerOf(question, received.trace));
  if (!flags.output_file.empty()) {
    RETURN_IF_ERROR(client::WriteTrace(flags.output_file, received.trace));
  }
  if (!invocation->flags().json) {
    PrintAnswer(question, answer, received, flags, invocation);
    return absl::OkStatus();
  }
  invocation->PrintJson({{"header", ToJson(received.trace.header)},
                         {"sweep", ToJson(answer)},
                         {"summary", ToJson(received.trace.summary)},
                         {"file", flags.output_file}});
  return absl::OkStatus();
}

constexpr char kExamples[] =
    "\nExamples:\n"
    "  phitap sweep --run clean='When Mary and John went to the store, John "
    "gave a drink to' --run corrupt='When Mary and John went to the store, "
    "Mary gave a drink to' -i 'corrupt: layers.*.layer_output set run=clean' "
    "--metric 'logit-diff: Mary, John'\n"
    "  phitap sweep -p 'When Mary and John' -i 'layers.*.attention_premix "
    "zero' --axes layers,heads --metric 'prob: went' --values\n"
    "  phitap sweep -p 'The movie was' -i 'layers.12.layer_output add "
    "tensor=joy' --axes scales:-8,-4,0,4,8 --metric 'logit: great' --json";

void AddSweepFlags(CLI::App* command, SweepFlags* flags) {
  AddRunFlags(command, &flags->runs);
  command
      ->add_option("--axes", flags->axes,
                   "How the cells differ; default: layers,positions")
      ->type_name("AXES");
  command
      ->add_option("--metric", flags->metrics,
                   "What to measure in each cell (repeatable); see below")
      ->type_name("METRIC")
      ->allow_extra_args(false)
      ->required();
  command
      ->add_option("--out,-o", flags->output_file,
                   "Write the grids to this safetensors file")
      ->type_name("FILE");
  command->add_flag("--raw", flags->raw,
                    "Draw the metric itself, not its way from the unedited run "
                    "to the one that is patched in");
  command->add_flag("--values", flags->values, "The numbers, too");
}

}  // namespace

void AddSweepCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "sweep", "Draws what an intervention does at every layer and position");
  auto flags = std::make_shared<SweepFlags>();
  AddSweepFlags(command, flags.get());
  command->footer(absl::StrCat(
      "Each cell runs one prompt with the interventions at one place.\n\n",
      kAxisGrammar, kMetricGrammar, "\n", EditGrammar(), "\n", kExamples));
  command->callback([flags, invocation] {
    absl::StatusOr<SweepInput> input = ReadSweepFlags(*flags);
    if (!input.ok()) {
      throw CLI::ValidationError(std::string(input.status().message()));
    }
    invocation->SetWork([flags, input = *std::move(input),
                         invocation](const client::Client& client) {
      return RunSweep(client, input, *flags, invocation);
    });
  });
}

}  // namespace phitap::cli
