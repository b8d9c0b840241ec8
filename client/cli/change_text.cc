#include "client/cli/change_text.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/feature_text.h"
#include "client/cli/source_text.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

using client::Change;
using client::Source;

absl::StatusOr<Change> ParseZero(WordReader*) {
  return client::Set{.value = 0.0};
}

absl::StatusOr<Change> ParseSet(WordReader* words) {
  ASSIGN_OR_RETURN(Source value, words->NextSource());
  return client::Set{.value = std::move(value)};
}

absl::StatusOr<Change> ParseAdd(WordReader* words) {
  ASSIGN_OR_RETURN(const std::optional<double> scale,
                   words->TakeNumber("scale"));
  ASSIGN_OR_RETURN(Source value, words->NextSource());
  return client::Add{.value = std::move(value), .scale = scale.value_or(1)};
}

absl::StatusOr<Change> ParseScale(WordReader* words) {
  ASSIGN_OR_RETURN(Source factor, words->NextSource());
  return client::Scale{.factor = std::move(factor)};
}

absl::StatusOr<Change> ParseProjectOut(WordReader* words) {
  ASSIGN_OR_RETURN(const std::optional<double> keep, words->TakeNumber("keep"));
  ASSIGN_OR_RETURN(Source direction, words->NextSource());
  return client::ProjectOut{.direction = std::move(direction),
                            .keep = keep.value_or(0)};
}

// `low=` and `high=`, of which there must be one.
template <typename Bounded>
absl::Status ReadBounds(WordReader* words, Bounded* bounded) {
  ASSIGN_OR_RETURN(bounded->low, words->TakeNumber("low"));
  ASSIGN_OR_RETURN(bounded->high, words->TakeNumber("high"));
  if (bounded->low || bounded->high) return absl::OkStatus();
  return words->Refuse(words->quoted().End(), "a bound is missing");
}

absl::StatusOr<Change> ParseClampProjection(WordReader* words) {
  client::ClampProjection clamp;
  RETURN_IF_ERROR(ReadBounds(words, &clamp));
  ASSIGN_OR_RETURN(clamp.direction, words->NextSource());
  return clamp;
}

absl::StatusOr<Change> ParseClamp(WordReader* words) {
  client::Clamp clamp;
  RETURN_IF_ERROR(ReadBounds(words, &clamp));
  return clamp;
}

absl::StatusOr<Change> ParseSwap(WordReader* words) {
  client::Swap swap = {.both = words->TakeFlag("both")};
  ASSIGN_OR_RETURN(swap.from, words->NextSource());
  RETURN_IF_ERROR(words->Expect("to"));
  ASSIGN_OR_RETURN(swap.to, words->NextSource());
  return swap;
}

absl::StatusOr<Change> ParseNoise(WordReader* words) {
  client::Noise noise;
  if (const auto seed = words->TakeOption("seed");
      seed && !absl::SimpleAtoi(*seed, &noise.seed)) {
    return words->Refuse(*seed, absl::StrCat("`", *seed, "` is no seed"));
  }
  ASSIGN_OR_RETURN(const absl::string_view scale,
                   words->Next("a standard deviation"));
  ASSIGN_OR_RETURN(noise.scale, words->quoted().Number(scale));
  return noise;
}

absl::StatusOr<Change> ParseKnockout(WordReader*) { return client::Knockout{}; }

absl::StatusOr<Change> ParseSkip(WordReader*) { return client::Skip{}; }

absl::StatusOr<Change> ParseSubspace(WordReader* words) {
  client::Subspace subspace;
  ASSIGN_OR_RETURN(subspace.source, words->NextSource());
  RETURN_IF_ERROR(words->Expect("basis"));
  ASSIGN_OR_RETURN(subspace.basis, words->NextSource());
  if (!words->TakeFlag("mask")) return subspace;
  ASSIGN_OR_RETURN(subspace.mask, words->NextSource());
  return subspace;
}

// One edit of the grammar.
struct Verb {
  const char* word;
  const char* rest;
  const char* what;
  absl::StatusOr<Change> (*parse)(WordReader*);
};

constexpr std::array<Verb, 13> kVerbs = {{
    {"zero", "", "0", ParseZero},
    {"set", " SOURCE", "patch, freeze, mean-ablate: another value", ParseSet},
    {"add", " SOURCE [scale=N]", "steer", ParseAdd},
    {"scale", " SOURCE", "multiply", ParseScale},
    {"project-out", " SOURCE [keep=N]", "ablate a direction", ParseProjectOut},
    {"clamp-projection", " SOURCE [low=N] [high=N]",
     "bound or set the part along a direction", ParseClampProjection},
    {"swap", " SOURCE to SOURCE [both]", "turn one direction into another",
     ParseSwap},
    {"clamp", " [low=N] [high=N]", "bound every element", ParseClamp},
    {"noise", " DEVIATION [seed=N]", "add normal noise", ParseNoise},
    {"knockout", "", "queries do not see keys (attention_scores)",
     ParseKnockout},
    {"skip", "", "pass a block's input on; attention or MLP adds nothing",
     ParseSkip},
    {"subspace", " SOURCE basis SOURCE [mask SOURCE]",
     "interchange in a subspace (DAS)", ParseSubspace},
    {"features", kFeatureUsage, "edit features of a dictionary", ParseFeatures},
}};

std::string OnOneLine(absl::string_view usage) {
  return absl::StrJoin(
      absl::StrSplit(usage, absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
}

std::string VerbWords() {
  return absl::StrJoin(kVerbs, ", ", [](std::string* out, const Verb& verb) {
    out->append(verb.word);
  });
}

std::string BoundsText(bool has_low, double low, bool has_high, double high) {
  return absl::StrCat(has_low ? absl::StrCat(" low=", low) : "",
                      has_high ? absl::StrCat(" high=", high) : "");
}

template <typename Bounded>
std::string BoundsText(const Bounded& edit) {
  return BoundsText(edit.has_low(), edit.low(), edit.has_high(), edit.high());
}

std::string AddText(const v1::AddEdit& add) {
  return absl::StrCat(
      "add ", SourceText(add.value()),
      add.has_scale() ? absl::StrCat(" scale=", add.scale()) : "");
}

std::string ProjectOutText(const v1::ProjectOutEdit& project) {
  return absl::StrCat(
      "project-out ", SourceText(project.direction()),
      project.keep() != 0 ? absl::StrCat(" keep=", project.keep()) : "");
}

std::string SetText(const v1::EditSource& value) {
  const bool is_zero =
      value.source_case() == v1::EditSource::kNumber && value.number() == 0;
  return is_zero ? "zero" : absl::StrCat("set ", SourceText(value));
}

std::string SwapText(const v1::SwapEdit& swap) {
  return absl::StrCat("swap ", SourceText(swap.from()), " to ",
                      SourceText(swap.to()), swap.both() ? " both" : "");
}

std::string NoiseText(const v1::NoiseEdit& noise) {
  return absl::StrCat(
      "noise ", noise.scale(),
      noise.seed() != 0 ? absl::StrCat(" seed=", noise.seed()) : "");
}

std::string SubspaceText(const v1::SubspaceEdit& subspace) {
  return absl::StrCat(
      "subspace ", SourceText(subspace.source()), " basis ",
      SourceText(subspace.basis()),
      subspace.has_mask() ? " mask " + SourceText(subspace.mask()) : "");
}

}  // namespace

std::string ChangeGrammar() {
  std::string text;
  for (const Verb& verb : kVerbs) {
    const std::string form = absl::StrCat(verb.word, verb.rest);
    const char* const lead =
        text.empty() ? "  EDIT         " : "               ";
    absl::StrAppend(&text, lead, absl::StrFormat("%-26s", form),
                    form.size() > 26 ? "\n                 " : " ", verb.what,
                    "\n");
  }
  return text;
}

absl::StatusOr<Change> ParseChange(WordReader* words) {
  words->set_usage(VerbWords());
  ASSIGN_OR_RETURN(const absl::string_view word, words->Next("an edit"));
  for (const Verb& verb : kVerbs) {
    if (word != verb.word) continue;
    words->set_usage(absl::StrCat(verb.word, " ", OnOneLine(verb.rest)));
    ASSIGN_OR_RETURN(Change change, verb.parse(words));
    RETURN_IF_ERROR(words->End());
    return change;
  }
  return words->Refuse(word, absl::StrCat("`", word, "` is not an edit"));
}

std::string ChangeText(const v1::Intervention& edit) {
  switch (edit.change_case()) {
    case v1::Intervention::kSet:
      return SetText(edit.set().value());
    case v1::Intervention::kAdd:
      return AddText(edit.add());
    case v1::Intervention::kScale:
      return absl::StrCat("scale ", SourceText(edit.scale().value()));
    case v1::Intervention::kProjectOut:
      return ProjectOutText(edit.project_out());
    case v1::Intervention::kClampProjection:
      return absl::StrCat("clamp-projection ",
                          SourceText(edit.clamp_projection().direction()),
                          BoundsText(edit.clamp_projection()));
    case v1::Intervention::kClamp:
      return absl::StrCat("clamp", BoundsText(edit.clamp()));
    case v1::Intervention::kNoise:
      return NoiseText(edit.noise());
    case v1::Intervention::kKnockout:
      return "knockout";
    case v1::Intervention::kSkip:
      return "skip";
    case v1::Intervention::kSubspace:
      return SubspaceText(edit.subspace());
    case v1::Intervention::kDictionary:
      return FeaturesText(edit.dictionary());
    case v1::Intervention::kSwap:
      return SwapText(edit.swap());
    case v1::Intervention::CHANGE_NOT_SET:
      break;
  }
  return "(nothing)";
}

}  // namespace phitap::cli
