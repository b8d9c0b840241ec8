#include "client/cli/generation_flags.h"

#include "client/cli/index_text.h"
#include "server/base/status_macros.h"

namespace phitap::cli {

void AddGenerationFlags(CLI::App* command, GenerationFlags* flags) {
  const auto add = [command](const char* name, auto* value, const char* type,
                             const char* what) {
    return command->add_option(name, *value, what)
        ->type_name(type)
        ->group("Generation");
  };
  add("--max-tokens,-n", &flags->max_tokens, "N", "Most tokens to generate")
      ->check(CLI::PositiveNumber);
  add("--temperature", &flags->temperature, "T",
      "0 (default) takes the likeliest token, above 0 samples")
      ->check(CLI::NonNegativeNumber);
  add("--top-k", &flags->top_k, "K", "Sample among the K likeliest")
      ->check(CLI::PositiveNumber);
  add("--top-p", &flags->top_p, "P",
      "Sample among the likeliest that together have this probability")
      ->check(CLI::Range(0.0, 1.0));
  add("--seed", &flags->seed, "N", "Of the samples");
  add("--stop-ids", &flags->stop_ids, "IDS",
      "Tokens that end it; default: the checkpoint's");
  add("--force", &flags->forced_ids, "IDS",
      "Tokens to go on with at first instead of the generated ones");
  command
      ->add_flag("--ignore-stop-ids", flags->ignore_stop_ids,
                 "Do not stop before --max-tokens")
      ->group("Generation");
}

absl::StatusOr<client::Generate> ReadGeneration(const GenerationFlags& flags) {
  client::Generate generate = {.max_tokens = flags.max_tokens,
                               .temperature = flags.temperature,
                               .top_k = flags.top_k,
                               .seed = flags.seed,
                               .ignore_stop_ids = flags.ignore_stop_ids};
  if (flags.top_p > 0) generate.top_p = flags.top_p;
  if (!flags.stop_ids.empty()) {
    ASSIGN_OR_RETURN(generate.stop_ids, ParseIds(flags.stop_ids, "--stop-ids"));
  }
  if (!flags.forced_ids.empty()) {
    ASSIGN_OR_RETURN(generate.forced_ids,
                     ParseIds(flags.forced_ids, "--force"));
  }
  return generate;
}

}  // namespace phitap::cli
