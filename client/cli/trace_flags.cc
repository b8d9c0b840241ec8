#include "client/cli/trace_flags.h"

#include "absl/strings/str_cat.h"
#include "client/cli/capture_text.h"
#include "client/cli/chat_file.h"
#include "client/cli/index_text.h"
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
};

void AddPrompts(CLI::App* command, TraceFlags* flags) {
  const auto add = [command](const char* name, std::vector<std::string>* values,
                             const char* value, const char* what) {
    // One value for each time the flag is given.
    command->add_option(name, *values, what)
        ->type_name(value)
        ->allow_extra_args(false)
        ->group("Prompts (each may be repeated; each is a run)");
  };
  add("--prompt,-p", &flags->prompts, "TEXT", "Text");
  add("--tokens,-t", &flags->tokens, "IDS", "Token ids, e.g. 1,5,9");
  add("--chat", &flags->chat_files, "FILE",
      "Conversation as JSON, `-` for standard input");
  command
      ->add_option("--hide", flags->hidden_positions,
                   "Positions of every prompt that no query sees, e.g. 0:3")
      ->type_name("SET");
  command
      ->add_option("--position-ids", flags->position_ids,
                   "Position of every token for the rotary, e.g. 0,1,2,2")
      ->type_name("IDS");
}

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

absl::StatusOr<v1::Numerics> ReadNumerics(const std::string& text) {
  if (text.empty()) return v1::NUMERICS_UNSPECIFIED;
  if (text == "causal") return v1::NUMERICS_CAUSAL;
  if (text == "transformers") return v1::NUMERICS_TRANSFORMERS;
  return InvalidField({.field = "--numerics",
                       .problem = absl::StrCat("`", text, "` is not known"),
                       .valid = "causal or transformers"});
}

absl::StatusOr<v1::Attention> ReadAttention(const std::string& text) {
  if (text.empty()) return v1::ATTENTION_UNSPECIFIED;
  if (text == "sdpa") return v1::ATTENTION_SDPA;
  if (text == "eager") return v1::ATTENTION_EAGER;
  return InvalidField({.field = "--attention",
                       .problem = absl::StrCat("`", text, "` is not known"),
                       .valid = "sdpa or eager"});
}

absl::Status ReadPrompts(const TraceFlags& flags, client::TraceCall* call) {
  for (const std::string& text : flags.prompts) {
    call->runs.push_back(client::TextRun(text));
  }
  for (const std::string& text : flags.tokens) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                     ParseIds(text, "--tokens"));
    call->runs.push_back(client::TokensRun(ids));
  }
  for (const std::string& path : flags.chat_files) {
    ASSIGN_OR_RETURN(const v1::Chat chat, ReadChatFile(path));
    call->runs.push_back(client::ChatRun(chat));
  }
  if (!call->runs.empty()) return absl::OkStatus();
  return InvalidField({.field = "--prompt",
                       .problem = "there is no prompt",
                       .valid = "at least one --prompt, --tokens or --chat"});
}

absl::Status ReadPromptOptions(const TraceFlags& flags,
                               client::TraceCall* call) {
  v1::Prompt options;
  if (!flags.hidden_positions.empty()) {
    ASSIGN_OR_RETURN(*options.mutable_hidden_positions(),
                     ParseIndices(flags.hidden_positions, "--hide"));
  }
  if (!flags.position_ids.empty()) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                     ParseIds(flags.position_ids, "--position-ids"));
    options.mutable_position_ids()->Add(ids.begin(), ids.end());
  }
  for (v1::Run& run : call->runs) run.mutable_prompt()->MergeFrom(options);
  return absl::OkStatus();
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
    input->call.captures.push_back(std::move(read));
  }
  if (!input->call.captures.empty()) return absl::OkStatus();
  return InvalidField({.field = "--capture",
                       .problem = "there is nothing to read",
                       .valid = "e.g. --capture 'layers.*.layer_output'"});
}

}  // namespace

void AddTraceFlags(CLI::App* command, TraceFlags* flags) {
  command
      ->add_option("--model,-m", flags->model,
                   "Model; not needed where the server holds one")
      ->type_name("NAME");
  AddPrompts(command, flags);
  AddCaptures(command, flags);
  command
      ->add_option("--numerics", flags->numerics,
                   "Whose bits: causal (default) or transformers")
      ->type_name("WHOSE");
  command
      ->add_option("--attention", flags->attention, "sdpa (default) or eager")
      ->type_name("HOW");
  command->add_flag("--isolate", flags->isolate,
                    "Share no batch with other requests");
}

absl::StatusOr<TraceInput> ReadTraceFlags(const TraceFlags& flags) {
  TraceInput input;
  input.call.model = flags.model;
  RETURN_IF_ERROR(ReadPrompts(flags, &input.call));
  RETURN_IF_ERROR(ReadPromptOptions(flags, &input.call));
  RETURN_IF_ERROR(ReadCaptures(flags, &input));
  ASSIGN_OR_RETURN(const v1::Numerics numerics, ReadNumerics(flags.numerics));
  ASSIGN_OR_RETURN(const v1::Attention attention,
                   ReadAttention(flags.attention));
  input.call.options.set_numerics(numerics);
  input.call.options.set_attention(attention);
  input.call.options.set_isolate(flags.isolate);
  return input;
}

}  // namespace phitap::cli
