#include "client/cli/trace_report.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "client/cli/attention_view.h"
#include "client/cli/edit_text.h"
#include "client/cli/lens_view.h"
#include "client/cli/number_text.h"
#include "client/cli/strip_view.h"
#include "client/cli/text_width.h"
#include "client/cli/token_view.h"

namespace phitap::cli {
namespace {

// More than this would scroll away.
constexpr size_t kMostGroups = 16;

enum class View { kLens, kTopK, kVocabulary, kAttention, kStrips };

View ViewOf(const TracedGroup& group) {
  if (group.capture == nullptr || group.run == nullptr) return View::kStrips;
  const v1::Reduction& reduction = group.capture->reduction();
  const v1::TensorDescriptor& first = group.tensors.front()->descriptor;
  if (reduction.has_logit_lens()) return View::kLens;
  if (reduction.has_top_k()) return View::kTopK;
  if (reduction.kind_case() != v1::Reduction::KIND_NOT_SET) {
    return View::kStrips;
  }
  if (HasTokenColumns(first, *group.capture)) return View::kVocabulary;
  return IsAttention(first) ? View::kAttention : View::kStrips;
}

std::vector<int32_t> IdsOf(const TracedGroup& group) {
  switch (ViewOf(group)) {
    case View::kLens:
      return IdsOfLens(group);
    case View::kTopK:
      return IdsOfTopK(group);
    case View::kVocabulary:
      return IdsOfVocabulary(group);
    case View::kAttention:
    case View::kStrips:
      return {};
  }
  return {};
}

std::string RenderGroup(const TracedGroup& group, const TokenNames& names,
                        const Terminal& terminal) {
  switch (ViewOf(group)) {
    case View::kLens:
      return RenderLens(group, names, terminal);
    case View::kTopK:
      return RenderTopK(group, names, terminal);
    case View::kVocabulary:
      return RenderVocabulary(group, names, terminal);
    case View::kAttention:
      return RenderAttention(group, terminal);
    case View::kStrips:
      return RenderStrips(group, terminal);
  }
  return "";
}

// `NUMERICS_CAUSAL` → `causal`.
std::string ShortName(absl::string_view name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

std::string TokensText(const client::TracedRun& run) {
  if (run.texts.empty()) return absl::StrJoin(run.ids, " ");
  return absl::StrJoin(run.texts, "|",
                       [](std::string* out, const std::string& text) {
                         absl::StrAppend(out, TokenText(text));
                       });
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

// A line for each intervention in a run.
std::string EditsText(absl::string_view label, const v1::TraceRequest& request,
                      const Terminal& terminal) {
  std::string text;
  for (const v1::Run& run : request.runs()) {
    if (run.label() != label) continue;
    for (const v1::Intervention& edit : run.interventions()) {
      const std::string line = absl::StrCat("  edit ", EditText(edit));
      absl::StrAppend(&text,
                      terminal.interactive ? CutTo(line, terminal.width) : line,
                      "\n");
    }
  }
  return text;
}

// What a run went on with; nothing where it did not generate.
std::string GeneratedLine(const client::TracedRun& run,
                          const Terminal& terminal) {
  if (run.generated.empty()) return "";
  std::vector<std::string> tokens;
  for (const client::GeneratedToken& token : run.generated) {
    tokens.push_back(token.text.empty() ? absl::StrCat("#", token.id)
                                        : TokenText(token.text));
  }
  const bool stopped = run.status.finish_reason() == v1::FINISH_REASON_STOP;
  return absl::StrCat(
      "  goes on ",
      Painted(absl::StrJoin(tokens, "|"), {.bold = true}, terminal.colors),
      stopped ? "" : "…", "\n");
}

std::string Counted(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace

std::vector<int32_t> IdsToName(const std::vector<TracedGroup>& groups) {
  std::set<int32_t> ids;
  const size_t shown = std::min(groups.size(), kMostGroups);
  for (const TracedGroup& group : absl::MakeSpan(groups).first(shown)) {
    const std::vector<int32_t> some = IdsOf(group);
    ids.insert(some.begin(), some.end());
  }
  return {ids.begin(), ids.end()};
}

std::string RenderRuns(const client::Trace& trace,
                       const v1::TraceRequest& request,
                       const Terminal& terminal) {
  const v1::TraceHeader& header = trace.header;
  std::string text = absl::StrCat(
      Painted(header.model(), {.bold = true}, terminal.colors), "  ",
      ShortName(v1::Numerics_Name(header.numerics()), "NUMERICS_"), ", ",
      ShortName(v1::Attention_Name(header.attention()), "ATTENTION_"),
      header.batch_invariant() ? "" : ", not batch-invariant", "\n");
  for (const client::TracedRun& run : trace.runs) {
    const std::string line =
        absl::StrCat("run ", run.label, ", ",
                     Counted(static_cast<int64_t>(run.ids.size()), "token"),
                     ": ", TokensText(run));
    absl::StrAppend(
        &text,
        Painted(CutTo(line, terminal.width), {.dim = true}, terminal.colors),
        "\n");
    absl::StrAppend(&text, EditsText(run.label, request, terminal),
                    GeneratedLine(run, terminal));
  }
  return text;
}

std::string RenderGroups(const std::vector<TracedGroup>& groups,
                         const TokenNames& names, const Terminal& terminal) {
  std::string text;
  const size_t shown = std::min(groups.size(), kMostGroups);
  for (const TracedGroup& group : absl::MakeSpan(groups).first(shown)) {
    absl::StrAppend(&text, "\n",
                    Painted(group.title, {.dim = true}, terminal.colors), "\n",
                    RenderGroup(group, names, terminal));
  }
  if (shown < groups.size()) {
    absl::StrAppend(&text, "\n(", groups.size() - shown,
                    " more captures and runs are not shown: see --json and "
                    "--out)\n");
  }
  return text;
}

std::string RenderSummary(const client::Trace& trace, absl::Duration elapsed,
                          const Terminal& terminal) {
  const v1::TraceSummary& summary = trace.summary;
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const double rate = static_cast<double>(summary.size_bytes()) / seconds;
  return Painted(
             absl::StrCat(
                 Counted(summary.tensor_count(), "tensor"), ", ",
                 BytesText(summary.size_bytes()), " in ", DurationText(elapsed),
                 " (", RateText(rate), "): queued ",
                 DurationText(FromProto(summary.queue_time())), ", computed ",
                 DurationText(FromProto(summary.compute_time())), "; ",
                 summary.token_layers_computed(), " token-layers, ",
                 summary.token_layers_saved(), " saved"),
             {.dim = true}, terminal.colors) +
         "\n";
}

}  // namespace phitap::cli
