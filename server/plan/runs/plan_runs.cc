#include "server/plan/runs/plan_runs.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/captures/index_set.h"
#include "server/plan/runs/plan_generation.h"
#include "server/plan/runs/prompt_tokens.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

std::string LabelOf(const v1::TraceRequest& request, int run) {
  const std::string& label = request.runs(run).label();
  return label.empty() ? absl::StrCat(run) : label;
}

std::string PromptField(int run) {
  return absl::StrCat("runs[", run, "].prompt");
}

absl::Status CheckRunCount(const v1::TraceRequest& request,
                           const Limits& limits) {
  if (request.runs().empty()) {
    return InvalidField({.field = "runs",
                         .problem = "none given",
                         .valid = "at least one run"});
  }
  if (request.runs_size() <= limits.max_runs) return absl::OkStatus();
  return InvalidField({.field = "runs",
                       .problem = absl::StrCat(request.runs_size(), " runs"),
                       .valid = absl::StrCat("at most ", limits.max_runs)});
}

// The run whose own tokens `run` reads: itself, or the end of a chain of
// same_as.
absl::StatusOr<int> OriginOf(const v1::TraceRequest& request,
                             const RunIndex& labels, int run) {
  int origin = run;
  for (int steps = 0; request.runs(origin).prompt().has_same_as(); ++steps) {
    const std::string field = PromptField(origin) + ".same_as";
    const std::string& label = request.runs(origin).prompt().same_as();
    ASSIGN_OR_RETURN(const int next, FindRun(labels, label, field));
    if (next == run || steps == request.runs_size()) {
      return InvalidField(
          {.field = field,
           .problem = absl::StrCat("run ", Quoted(label),
                                   " gets its tokens from this run"),
           .valid = "a run with tokens of its own"});
    }
    origin = next;
  }
  return origin;
}

absl::StatusOr<std::vector<int64_t>> PositionIds(const v1::Prompt& prompt,
                                                 int64_t token_count,
                                                 const ModelSpec& spec,
                                                 const std::string& field) {
  std::vector<int64_t> positions(token_count);
  std::iota(positions.begin(), positions.end(), 0);
  if (prompt.position_ids().empty()) return positions;
  if (prompt.position_ids_size() != token_count) {
    return InvalidField(
        {.field = field,
         .problem = absl::StrCat(prompt.position_ids_size(),
                                 " position ids for ", token_count, " tokens"),
         .valid = "one a token, or none"});
  }
  for (int i = 0; i < prompt.position_ids_size(); ++i) {
    positions[i] = prompt.position_ids(i);
    if (positions[i] >= 0 && positions[i] < spec.max_positions) continue;
    return InvalidField(
        {.field = absl::StrCat(field, "[", i, "]"),
         .problem = absl::StrCat("position ", positions[i], " is out of range"),
         .valid = absl::StrCat("0 to ", spec.max_positions - 1)});
  }
  return positions;
}

absl::StatusOr<PlannedRun> PlanRun(const v1::Prompt& prompt, std::string label,
                                   std::vector<int32_t> ids,
                                   const ModelSpec& spec,
                                   const std::string& field) {
  PlannedRun run = {.label = std::move(label), .ids = std::move(ids)};
  const int64_t token_count = static_cast<int64_t>(run.ids.size());
  ASSIGN_OR_RETURN(run.position_ids, PositionIds(prompt, token_count, spec,
                                                 field + ".position_ids"));
  run.has_position_ids = !prompt.position_ids().empty();
  if (!prompt.has_hidden_positions()) return run;
  const Axis tokens = {
      .size = token_count,
      .extent = absl::StrCat("the ", token_count, " tokens of run ",
                             Quoted(run.label))};
  ASSIGN_OR_RETURN(run.hidden_positions,
                   ResolveIndices(prompt.hidden_positions(), tokens,
                                  field + ".hidden_positions"));
  std::sort(run.hidden_positions.begin(), run.hidden_positions.end());
  return run;
}

absl::Status CheckTokenTotal(int64_t total, const Limits& limits) {
  if (total <= limits.max_request_tokens) return absl::OkStatus();
  return InvalidField(
      {.field = "runs",
       .problem = absl::StrCat("together they have ", total, " tokens or more"),
       .valid = absl::StrCat("at most ", limits.max_request_tokens)});
}

}  // namespace

absl::Status CheckLabel(const std::string& label, const Limits& limits,
                        absl::string_view field) {
  if (static_cast<int64_t>(label.size()) <= limits.max_label_bytes) {
    return absl::OkStatus();
  }
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat(Quoted(label), " has ", label.size(), " bytes"),
       .valid = absl::StrCat("at most ", limits.max_label_bytes)});
}

absl::StatusOr<RunIndex> IndexRuns(const v1::TraceRequest& request,
                                   const Limits& limits) {
  RunIndex index;
  for (int i = 0; i < request.runs_size(); ++i) {
    const std::string field = absl::StrCat("runs[", i, "].label");
    RETURN_IF_ERROR(CheckLabel(request.runs(i).label(), limits, field));
    const auto [found, is_new] = index.emplace(LabelOf(request, i), i);
    if (is_new) continue;
    return InvalidField(
        {.field = field,
         .problem = absl::StrCat(Quoted(found->first), " is the label of runs[",
                                 found->second, "] as well"),
         .valid = "a label of its own for each run; the default is its "
                  "index"});
  }
  return index;
}

absl::StatusOr<int> FindRun(const RunIndex& runs, absl::string_view label,
                            absl::string_view field) {
  const auto found = runs.find(std::string(label));
  if (found != runs.end()) return found->second;
  std::vector<std::string> labels;
  for (const auto& [known, index] : runs) {
    labels.push_back(known);
  }
  std::sort(labels.begin(), labels.end());
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("no run is labelled ", Quoted(label)),
       .valid = absl::StrCat(
           "nearest are ",
           absl::StrJoin(NearestNames(label, labels, 3), ", ",
                         [](std::string* out, const std::string& near) {
                           absl::StrAppend(out, Quoted(near));
                         }))});
}

absl::StatusOr<std::vector<PlannedRun>> PlanRuns(
    const v1::TraceRequest& request, const PlanContext& context) {
  RETURN_IF_ERROR(CheckRunCount(request, context.limits));
  ASSIGN_OR_RETURN(const RunIndex labels, IndexRuns(request, context.limits));
  std::vector<std::vector<int32_t>> ids(request.runs_size());
  std::vector<PlannedRun> runs;
  int64_t total_tokens = 0;
  for (int i = 0; i < request.runs_size(); ++i) {
    const v1::Prompt& prompt = request.runs(i).prompt();
    ASSIGN_OR_RETURN(const int origin, OriginOf(request, labels, i));
    if (ids[origin].empty()) {
      ASSIGN_OR_RETURN(ids[origin], PromptTokens(request.runs(origin).prompt(),
                                                 context, PromptField(origin)));
    }
    ASSIGN_OR_RETURN(PlannedRun run,
                     PlanRun(prompt, LabelOf(request, i), ids[origin],
                             context.spec, PromptField(i)));
    if (request.runs(i).has_generation()) {
      ASSIGN_OR_RETURN(
          run.generation,
          PlanGeneration(request.runs(i).generation(), run, context,
                         absl::StrCat("runs[", i, "].generation")));
    }
    total_tokens += static_cast<int64_t>(run.ids.size()) + PassCount(run) - 1;
    RETURN_IF_ERROR(CheckTokenTotal(total_tokens, context.limits));
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace phitap
