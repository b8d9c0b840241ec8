#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/spec/hook_aliases.h"
#include "server/spec/hook_point.h"
#include "server/spec/layer_set.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

constexpr absl::string_view kLayerSlot = "{i}";
// Longer texts are no misspelt names; comparing them would only take time.
constexpr size_t kComparedBytes = 64;

// What stands for `{i}` in a text of the form `pattern`; "" where the pattern
// has none. Layers hold no dot or bracket, so that patterns do not overlap.
std::optional<absl::string_view> MatchPattern(absl::string_view text,
                                              absl::string_view pattern) {
  const size_t slot = pattern.find(kLayerSlot);
  if (slot == absl::string_view::npos) {
    if (text != pattern) return std::nullopt;
    return absl::string_view();
  }
  if (!absl::ConsumePrefix(&text, pattern.substr(0, slot)) ||
      !absl::ConsumeSuffix(&text, pattern.substr(slot + kLayerSlot.size())) ||
      text.empty() || text.find_first_of(".[]") != absl::string_view::npos) {
    return std::nullopt;
  }
  return text;
}

// The ways to write `hook` in our own words, the full name first.
std::vector<std::string> OwnPatterns(Hook hook) {
  const std::string full = FullNamePattern(hook);
  if (!HasLayer(hook)) return {full};
  const std::string brief = absl::StrCat("layers.{i}.", EntryOf(hook).name);
  std::vector<std::string> patterns = {full};
  if (brief != full) patterns.push_back(brief);
  for (size_t i = 0, count = patterns.size(); i < count; ++i) {
    patterns.push_back(
        absl::StrReplaceAll(patterns[i], {{"layers.{i}", "layers[{i}]"}}));
  }
  return patterns;
}

struct KnownPattern {
  std::string text;
  Hook hook;
};

const std::vector<KnownPattern>& KnownPatterns() {
  static const auto& patterns = *[] {
    auto* all = new std::vector<KnownPattern>;
    for (const HookEntry& entry : HookCatalogue()) {
      for (std::string& pattern : OwnPatterns(entry.hook)) {
        all->push_back({.text = std::move(pattern), .hook = entry.hook});
      }
      for (absl::string_view alias : entry.aliases) {
        all->push_back({.text = std::string(alias), .hook = entry.hook});
      }
    }
    return all;
  }();
  return patterns;
}

std::string WithLayers(absl::string_view pattern, absl::string_view layers) {
  return absl::StrReplaceAll(pattern, {{kLayerSlot, layers}});
}

// The part of an unknown name that looks like its layers: what follows
// `layers.`, `blocks.` or `[`; `{i}` where there is none.
absl::string_view GuessLayers(absl::string_view name) {
  for (absl::string_view opening : {"layers.", "blocks.", "["}) {
    const size_t found = name.find(opening);
    if (found == absl::string_view::npos) continue;
    const absl::string_view rest = name.substr(found + opening.size());
    const absl::string_view layers = rest.substr(0, rest.find_first_of(".]"));
    if (!layers.empty()) return layers;
  }
  return kLayerSlot;
}

// The three hook points whose names are nearest, each in its nearest form.
std::vector<std::string> NearestHookPoints(absl::string_view name) {
  const absl::string_view compared = Shortened(name, kComparedBytes);
  const absl::string_view layers = GuessLayers(compared);
  absl::flat_hash_map<std::string, Hook> hooks;
  std::vector<std::string> choices;
  for (const KnownPattern& pattern : KnownPatterns()) {
    choices.push_back(WithLayers(pattern.text, layers));
    hooks.emplace(choices.back(), pattern.hook);
  }
  std::vector<std::string> nearest;
  std::set<Hook> named;
  for (std::string& choice :
       NearestNames(compared, choices, static_cast<int>(choices.size()))) {
    if (nearest.size() == 3) break;
    if (named.insert(hooks.at(choice)).second) nearest.push_back(choice);
  }
  return nearest;
}

absl::Status UnknownHookPoint(absl::string_view text, absl::string_view name,
                              absl::string_view field) {
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("there is no hook point ", Quoted(text)),
       .valid = absl::StrCat("nearest are ",
                             absl::StrJoin(NearestHookPoints(name), ", "))});
}

// Refuses names that mean something near, but not the same; OK for others.
absl::Status RefuseFalseFriend(absl::string_view name,
                               absl::string_view field) {
  for (const FalseFriend& friendly : FalseFriends()) {
    const auto layers = MatchPattern(name, friendly.name);
    if (!layers.has_value()) continue;
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat(Quoted(name), " ", friendly.difference),
         .valid = WithLayers(FullNamePattern(friendly.hook),
                             Shortened(*layers, kComparedBytes))});
  }
  return absl::OkStatus();
}

// Refuses the name of a hook point in the wrong place: without a layer, in one
// that it does not belong to, or in another module. OK for other names.
absl::Status RefuseMisplaced(absl::string_view name, absl::string_view field) {
  const absl::string_view last = name.substr(name.rfind('.') + 1);
  for (const HookEntry& entry : HookCatalogue()) {
    if (last != entry.name) continue;
    const bool of_model = entry.module == Module::kModel;
    const bool bare = name == last;
    const std::string pattern = FullNamePattern(entry.hook);
    return InvalidField(
        {.field = std::string(field),
         .problem =
             absl::StrCat(Quoted(name), of_model ? " belongs to the whole model"
                                        : bare   ? " needs a layer"
                                                 : " is in the wrong place"),
         .valid = bare ? absl::StrCat(WithLayers(pattern, "5"), " or ",
                                      WithLayers(pattern, "*"))
                       : WithLayers(pattern, GuessLayers(Shortened(
                                                 name, kComparedBytes)))});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<HookPoint>> ParseHookPoints(
    absl::string_view text, const ModelSpec& spec, absl::string_view field) {
  if (text.empty()) {
    return InvalidField({.field = std::string(field),
                         .problem = "no hook point is named",
                         .valid = "for example layers.*.layer_output"});
  }
  absl::string_view name = text;
  absl::ConsumePrefix(&name, "model.");
  for (const KnownPattern& pattern : KnownPatterns()) {
    const auto layer_text = MatchPattern(name, pattern.text);
    if (!layer_text.has_value()) continue;
    if (!HasLayer(pattern.hook)) return std::vector{HookPoint{pattern.hook}};
    ASSIGN_OR_RETURN(const std::vector<int> layers,
                     ParseLayers(*layer_text, spec.num_layers, field));
    std::vector<HookPoint> points;
    for (int layer : layers) points.push_back({pattern.hook, layer});
    return points;
  }
  RETURN_IF_ERROR(RefuseFalseFriend(name, field));
  RETURN_IF_ERROR(RefuseMisplaced(name, field));
  return UnknownHookPoint(text, name, field);
}

}  // namespace phitap
