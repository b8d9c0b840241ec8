#include "client/cli/run_flags.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/chat_file.h"
#include "client/cli/edit_text.h"
#include "client/cli/index_text.h"
#include "client/cpp/run.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

constexpr char kEveryRun[] = "*";

void AddPrompts(CLI::App* command, RunFlags* flags) {
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
  add("--run,-r", &flags->labelled, "LABEL=TEXT",
      "Text, under a label of its own");
  command
      ->add_option("--hide", flags->hidden_positions,
                   "Positions of every prompt that no query sees, e.g. 0:3")
      ->type_name("SET");
  command
      ->add_option("--position-ids", flags->position_ids,
                   "Position of every token for the rotary, e.g. 0,1,2,2")
      ->type_name("IDS");
}

// What one of the words that a flag knows stands for; Value() where the flag is
// not given.
template <typename Value>
absl::StatusOr<Value> Choose(const std::string& flag, const std::string& text,
                             const std::map<std::string, Value>& choices) {
  if (text.empty()) return Value{};
  const auto found = choices.find(text);
  if (found != choices.end()) return found->second;
  return InvalidField(
      {.field = flag,
       .problem = absl::StrCat("`", text, "` is not known"),
       .valid = absl::StrJoin(choices, " or ",
                              [](std::string* out, const auto& choice) {
                                out->append(choice.first);
                              })});
}

absl::Status ReadOptions(const RunFlags& flags, v1::TraceOptions* options) {
  ASSIGN_OR_RETURN(
      const auto numerics,
      Choose<v1::Numerics>("--numerics", flags.numerics,
                           {{"causal", v1::NUMERICS_CAUSAL},
                            {"transformers", v1::NUMERICS_TRANSFORMERS}}));
  ASSIGN_OR_RETURN(const auto attention,
                   Choose<v1::Attention>("--attention", flags.attention,
                                         {{"eager", v1::ATTENTION_EAGER},
                                          {"sdpa", v1::ATTENTION_SDPA}}));
  ASSIGN_OR_RETURN(
      const auto cache,
      Choose<v1::LongropeCache>("--longrope-cache", flags.longrope_cache,
                                {{"keep", v1::LONGROPE_CACHE_KEEP},
                                 {"recompute", v1::LONGROPE_CACHE_RECOMPUTE}}));
  if (!flags.numerics.empty()) options->set_numerics(numerics);
  if (!flags.attention.empty()) options->set_attention(attention);
  if (!flags.longrope_cache.empty()) options->set_longrope_cache(cache);
  if (flags.isolate) options->set_isolate(true);
  options->set_priority(flags.priority);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::Run>> ReadPrompts(const RunFlags& flags) {
  std::vector<v1::Run> runs;
  for (const std::string& text : flags.prompts) {
    runs.push_back(client::TextRun(text));
  }
  for (const std::string& text : flags.tokens) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                     ParseIds(text, "--tokens"));
    runs.push_back(client::TokensRun(ids));
  }
  for (const std::string& path : flags.chat_files) {
    ASSIGN_OR_RETURN(const v1::Chat chat, ReadChatFile(path));
    runs.push_back(client::ChatRun(chat));
  }
  for (const std::string& text : flags.labelled) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidField({.field = "--run",
                           .problem = absl::StrCat("`", text, "` has no label"),
                           .valid = "LABEL=TEXT"});
    }
    runs.push_back(
        client::TextRun(text.substr(equals + 1), text.substr(0, equals)));
  }
  return runs;
}

absl::StatusOr<v1::Prompt> ReadPromptOptions(const RunFlags& flags) {
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
  return options;
}

std::string LabelsOf(const v1::TraceRequest& request) {
  return absl::StrJoin(
      request.runs(), ", ",
      [](std::string* out, const v1::Run& run) { out->append(run.label()); });
}

// Indices of the runs that an intervention names.
absl::StatusOr<std::vector<int>> RunsOf(const LabelledEdit& parsed,
                                        const std::string& text,
                                        const v1::TraceRequest& request) {
  if (parsed.runs.empty()) return std::vector<int>{request.runs_size() - 1};
  std::vector<int> indices;
  for (const std::string& label : parsed.runs) {
    const size_t known = indices.size();
    for (int i = 0; i < request.runs_size(); ++i) {
      if (label == kEveryRun || request.runs(i).label() == label) {
        indices.push_back(i);
      }
    }
    if (indices.size() > known) continue;
    const QuotedText quoted("--intervene", text);
    return quoted.Refuse(quoted.text().substr(text.find(label), label.size()),
                         absl::StrCat("there is no run `", label, "`"),
                         LabelsOf(request));
  }
  return indices;
}

}  // namespace

void AddRunFlags(CLI::App* command, RunFlags* flags) {
  command
      ->add_option("--model,-m", flags->model,
                   "Model; not needed where the server holds one")
      ->type_name("NAME");
  AddPrompts(command, flags);
  command
      ->add_option("--intervene,-i", flags->interventions,
                   "A change to make (repeatable); see below")
      ->type_name("INTERVENTION")
      ->allow_extra_args(false)
      ->group("Interventions");
  command
      ->add_option("--numerics", flags->numerics,
                   "Whose bits: causal (default) or transformers")
      ->type_name("WHOSE");
  command
      ->add_option("--attention", flags->attention,
                   "sdpa or eager; default: sdpa, unless attention is edited")
      ->type_name("HOW");
  command
      ->add_option("--longrope-cache", flags->longrope_cache,
                   "Past the original context: recompute (default) or keep")
      ->type_name("HOW");
  command->add_flag("--isolate", flags->isolate,
                    "Share no batch with other requests");
  command
      ->add_option("--priority", flags->priority,
                   "0 (default) to 10: higher goes first among the requests of "
                   "one connection")
      ->type_name("N");
}

absl::Status ReadRuns(const RunFlags& flags, v1::TraceRequest* request) {
  if (!flags.model.empty()) request->set_model(flags.model);
  RETURN_IF_ERROR(ReadOptions(flags, request->mutable_options()));
  ASSIGN_OR_RETURN(const std::vector<v1::Run> runs, ReadPrompts(flags));
  ASSIGN_OR_RETURN(const v1::Prompt options, ReadPromptOptions(flags));
  for (const v1::Run& run : runs) {
    v1::Run* added = request->add_runs();
    *added = run;
    added->mutable_prompt()->MergeFrom(options);
  }
  if (request->runs_size() == 0) {
    return InvalidField(
        {.field = "--prompt",
         .problem = "there is no prompt",
         .valid = "at least one --prompt, --tokens, --chat or --run"});
  }
  for (int i = 0; i < request->runs_size(); ++i) {
    v1::Run* run = request->mutable_runs(i);
    if (run->label().empty()) run->set_label(absl::StrCat(i));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RunEdit>> ReadEdits(const RunFlags& flags,
                                               v1::TraceRequest* request) {
  std::vector<RunEdit> edits;
  FileTensors files;
  for (const std::string& text : flags.interventions) {
    ASSIGN_OR_RETURN(const LabelledEdit parsed, ParseEdit(text, &files));
    ASSIGN_OR_RETURN(std::vector<int> runs, RunsOf(parsed, text, *request));
    edits.push_back(
        {.runs = std::move(runs), .edit = client::ToMessage(parsed.edit)});
  }
  for (const auto& [name, tensor] : files) {
    (*request->mutable_constants())[name] = client::ToMessage(tensor);
  }
  return edits;
}

}  // namespace phitap::cli
