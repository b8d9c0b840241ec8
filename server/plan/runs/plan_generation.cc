#include "server/plan/runs/plan_generation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

absl::StatusOr<std::vector<int32_t>> Vocabulary(
    const google::protobuf::RepeatedField<int32_t>& ids, const ModelSpec& spec,
    const std::string& field) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < spec.vocab_size) continue;
    return InvalidField({.field = absl::StrCat(field, "[", i, "]"),
                         .problem = absl::StrCat("token id ", ids[i],
                                                 " is not in the vocabulary"),
                         .valid = absl::StrCat("0 to ", spec.vocab_size - 1)});
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

// Ascending, each once.
std::vector<int32_t> Sorted(std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// How many tokens the run can generate: the last one needs no position.
int64_t MostTokens(const PlannedRun& run, const PlanContext& context) {
  const int64_t token_count = static_cast<int64_t>(run.ids.size());
  const int64_t positions =
      std::min(context.spec.max_positions, context.limits.max_run_tokens);
  const int64_t by_length = positions - token_count + 1;
  const int64_t by_position_id =
      context.spec.max_positions - run.position_ids.back();
  return std::min(
      {by_length, by_position_id, context.limits.max_generated_tokens});
}

absl::Status CheckMaxTokens(int64_t max_tokens, const PlannedRun& run,
                            const PlanContext& context,
                            const std::string& field) {
  const int64_t most = MostTokens(run, context);
  if (max_tokens >= 1 && max_tokens <= most) return absl::OkStatus();
  return InvalidField(
      {.field = field,
       .problem = absl::StrCat(max_tokens, " tokens after a prompt of ",
                               run.ids.size()),
       .valid = absl::StrCat("1 to ", most)});
}

absl::Status CheckSampling(const v1::Generation& generation,
                           const std::string& field) {
  const double temperature = generation.temperature();
  if (!std::isfinite(temperature) || temperature < 0) {
    return InvalidField({.field = field + ".temperature",
                         .problem = absl::StrCat(temperature, " is none"),
                         .valid = "0 or more"});
  }
  if (generation.top_k() < 0) {
    return InvalidField({.field = field + ".top_k",
                         .problem = absl::StrCat(generation.top_k(), " tokens"),
                         .valid = "1 or more; 0 for all"});
  }
  if (!generation.has_top_p()) return absl::OkStatus();
  if (generation.top_p() > 0 && generation.top_p() <= 1) {
    return absl::OkStatus();
  }
  return InvalidField({.field = field + ".top_p",
                       .problem = absl::StrCat(generation.top_p(),
                                               " is no probability to reach"),
                       .valid = "above 0 to 1"});
}

absl::StatusOr<std::vector<int32_t>> StopIds(const v1::Generation& generation,
                                             const ModelSpec& spec,
                                             const std::string& field) {
  if (generation.ignore_stop_ids()) {
    if (generation.stop_ids().empty()) return std::vector<int32_t>();
    return InvalidField({.field = field + ".ignore_stop_ids",
                         .problem = "is set beside stop_ids",
                         .valid = "one of the two"});
  }
  ASSIGN_OR_RETURN(
      std::vector<int32_t> ids,
      Vocabulary(generation.stop_ids(), spec, field + ".stop_ids"));
  if (ids.empty()) ids.assign(spec.eos_ids.begin(), spec.eos_ids.end());
  return Sorted(std::move(ids));
}

}  // namespace

absl::StatusOr<PlannedGeneration> PlanGeneration(
    const v1::Generation& generation, const PlannedRun& run,
    const PlanContext& context, absl::string_view field) {
  const std::string path(field);
  RETURN_IF_ERROR(CheckMaxTokens(generation.max_tokens(), run, context,
                                 path + ".max_tokens"));
  RETURN_IF_ERROR(CheckSampling(generation, path));
  PlannedGeneration planned = {.max_tokens = generation.max_tokens(),
                               .temperature = generation.temperature(),
                               .top_k = generation.top_k(),
                               .seed = generation.seed()};
  if (generation.has_top_p()) planned.top_p = generation.top_p();
  ASSIGN_OR_RETURN(planned.stop_ids, StopIds(generation, context.spec, path));
  ASSIGN_OR_RETURN(
      planned.forced_ids,
      Vocabulary(generation.forced_ids(), context.spec, path + ".forced_ids"));
  if (generation.forced_ids_size() <= generation.max_tokens()) return planned;
  return InvalidField(
      {.field = path + ".forced_ids",
       .problem = absl::StrCat(generation.forced_ids_size(), " tokens"),
       .valid = absl::StrCat("at most ", generation.max_tokens(),
                             ", the run's max_tokens")});
}

int PassCount(const PlannedRun& run) {
  return run.generation.has_value() ? run.generation->max_tokens : 1;
}

}  // namespace phitap
