#include "client/cli/trace_flags.h"

#include "absl/strings/str_cat.h"
#include "client/cli/capture_text.h"
#include "client/cli/request_file.h"
#include "client/cpp/trace_request.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

// Longer labels are refused by servers; a number says as much.
constexpr size_t kLongestLabelBytes = 200;

struct CaptureFlag {
  const char* name;
  const char* value;
  const char* what;
};

constexpr CaptureFlag kCaptureFlags[] = {
    {"positions", "SET", "Token positions, e.g. -1 or 0,3:8"},
    {"token-ids", "IDS", "Positions of these tokens instead"},
    {"heads", "SET", "Heads"},
    {"features", "SET", "Columns of the last dimension"},
    {"queries", "SET", "Query positions of scores and probabilities"},
    {"keys", "SET", "Key positions of scores and probabilities"},
    {"reduce", "HOW", "mean (over positions), norm, or topk:K"},
    {"lens", "K[:IDS]",
     "Logit lens: the K likeliest tokens, and how likely these ids are"},
    {"lens-normed", "K[:IDS]", "The same for values behind the final norm"},
    {"dtype", "TYPE", "On the wire: f32, f16 or bf16"},
    {"runs", "LABELS", "Only these runs (prompts are 0, 1, ...)"},
    {"steps", "SET", "Generation steps; 0 is the prompt"},
    {"read", "WHEN", "before or after (default) the interventions there"},
};

void AddCaptures(CLI::App* command, TraceFlags* flags) {
  command
      ->add_option("--capture,-c", flags->captures,
                   "A value to read (repeatable); see below")
      ->type_name("CAPTURE")
      ->allow_extra_args(false)
      ->group("Captures");
  for (const CaptureFlag& flag : kCaptureFlags) {
    const std::string name = flag.name;
    command
        ->add_option_function<std::string>(
            absl::StrCat("--", name),
            [flags, name](const std::string& value) {
              flags->capture_options.emplace_back(name, value);
            },
            flag.what)
        ->type_name(flag.value)
        ->group("Options of every capture");
  }
}

// A capture of a file has a name where it gives a label or reads a node.
void NameCaptures(TraceInput* input) {
  for (v1::Capture& capture : *input->request.mutable_captures()) {
    const bool is_named = !capture.label().empty() || !capture.node().empty();
    input->is_named.push_back(is_named);
    if (!capture.label().empty()) continue;
    capture.set_label(is_named
                          ? capture.node()
                          : absl::StrCat("capture ", input->is_named.size()));
  }
}

absl::Status ReadCaptures(const TraceFlags& flags, TraceInput* input) {
  client::Read defaults;
  for (const auto& [name, value] : flags.capture_options) {
    RETURN_IF_ERROR(
        SetCaptureOption(name, value, absl::StrCat("--", name), &defaults));
  }
  for (const std::string& text : flags.captures) {
    ASSIGN_OR_RETURN(client::Read read, ParseCapture(text, defaults));
    input->is_named.push_back(!read.label.empty());
    if (read.label.empty()) {
      read.label = text.size() <= kLongestLabelBytes
                       ? text
                       : absl::StrCat("capture ", input->is_named.size());
    }
    *input->request.add_captures() = client::ToCapture(read);
  }
  return absl::OkStatus();
}

absl::Status ReadGenerations(const GenerationFlags& flags,
                             v1::TraceRequest* request) {
  if (flags.max_tokens == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const client::Generate generate, ReadGeneration(flags));
  for (v1::Run& run : *request->mutable_runs()) {
    *run.mutable_generation() = client::ToMessage(generate);
  }
  return absl::OkStatus();
}

absl::Status CheckThatItAsks(const v1::TraceRequest& request) {
  bool asks = request.captures_size() + request.gradients_size() +
                  request.sweeps_size() >
              0;
  for (const v1::Run& run : request.runs()) asks |= run.has_generation();
  if (asks) return absl::OkStatus();
  return InvalidField({.field = "--capture",
                       .problem = "there is nothing to read",
                       .valid = "e.g. --capture 'layers.*.layer_output', or "
                                "--max-tokens 20"});
}

}  // namespace

void AddTraceFlags(CLI::App* command, TraceFlags* flags) {
  AddRunFlags(command, &flags->runs);
  AddCaptures(command, flags);
  AddGenerationFlags(command, &flags->generation);
  command
      ->add_option("--request", flags->request_file,
                   "Begin with this phitap.v1.TraceRequest as JSON, `-` for "
                   "standard input; the flags add to it")
      ->type_name("FILE");
}

absl::StatusOr<TraceInput> ReadTraceFlags(const TraceFlags& flags) {
  TraceInput input;
  if (!flags.request_file.empty()) {
    ASSIGN_OR_RETURN(input.request, ReadRequestFile(flags.request_file));
    NameCaptures(&input);
  }
  RETURN_IF_ERROR(ReadRuns(flags.runs, &input.request));
  ASSIGN_OR_RETURN(const std::vector<RunEdit> edits,
                   ReadEdits(flags.runs, &input.request));
  for (const RunEdit& edit : edits) {
    for (const int run : edit.runs) {
      *input.request.mutable_runs(run)->add_interventions() = edit.edit;
    }
  }
  RETURN_IF_ERROR(ReadCaptures(flags, &input));
  RETURN_IF_ERROR(ReadGenerations(flags.generation, &input.request));
  RETURN_IF_ERROR(CheckThatItAsks(input.request));
  return input;
}

}  // namespace phitap::cli
