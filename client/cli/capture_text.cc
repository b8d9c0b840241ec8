#include "client/cli/capture_text.h"

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/index_text.h"
#include "client/cli/selection_text.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::cli {

const char kCaptureGrammar[] =
    "A capture is [NAME=]HOOK_POINTS[@OPTION=VALUE]...\n"
    "  HOOK_POINTS  layers.5.layer_output, layers.*.mlp_neurons,\n"
    "               layers.8-15.attention_keys, layers.{0,5,31}.layer_output,\n"
    "               layers.-1.layer_output, logits, ...: see `phitap hooks`\n"
    "  NAME         what the value is called in the answer\n"
    "  OPTION       positions, token-ids, heads, features, queries, keys,\n"
    "               steps, reduce, lens, lens-normed, dtype, runs: as the flag "
    "of\n"
    "               that name, for this capture alone; read=before: as it was\n"
    "               before the interventions there; keep=NAME: keep it on the\n"
    "               server, see `phitap tensors`, instead of sending it\n"
    "Quote captures: shells read * and { } themselves.";

namespace {

using client::Read;

absl::Status Refuse(absl::string_view field, absl::string_view value,
                    absl::string_view valid) {
  return InvalidField({.field = std::string(field),
                       .problem = absl::StrCat("`", value, "` is not valid"),
                       .valid = std::string(valid)});
}

absl::StatusOr<int32_t> ParseCount(absl::string_view text,
                                   absl::string_view field,
                                   absl::string_view valid) {
  int32_t count = 0;
  if (absl::SimpleAtoi(text, &count) && count > 0) return count;
  return Refuse(field, text, valid);
}

absl::StatusOr<client::Reduce> ParseReduce(absl::string_view value,
                                           absl::string_view field) {
  constexpr char kValid[] = "mean, norm or topk:K";
  if (value == "mean") return client::PositionMean{};
  if (value == "norm") return client::LastDimensionNorm{};
  absl::string_view count = value;
  if (!absl::ConsumePrefix(&count, "topk:")) {
    return Refuse(field, value, kValid);
  }
  ASSIGN_OR_RETURN(const int32_t k, ParseCount(count, field, kValid));
  return client::Largest{.k = k};
}

// K, or K:ID,ID,…
absl::StatusOr<client::Lens> ParseLens(absl::string_view value,
                                       absl::string_view field) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(value, absl::MaxSplits(':', 1));
  client::Lens lens;
  ASSIGN_OR_RETURN(lens.k,
                   ParseCount(parts.first, field,
                              "K or K:ID,ID: how many tokens, and tokens to "
                              "look at besides"));
  if (!parts.second.empty()) {
    ASSIGN_OR_RETURN(lens.token_ids, ParseIds(parts.second, field));
  }
  return lens;
}

absl::StatusOr<v1::DataType> ParseDtype(absl::string_view value,
                                        absl::string_view field) {
  static const auto* const kNames = new std::map<std::string, v1::DataType>{
      {"f32", v1::DATA_TYPE_F32},   {"float32", v1::DATA_TYPE_F32},
      {"f16", v1::DATA_TYPE_F16},   {"float16", v1::DATA_TYPE_F16},
      {"bf16", v1::DATA_TYPE_BF16}, {"bfloat16", v1::DATA_TYPE_BF16},
  };
  const auto found = kNames->find(std::string(value));
  if (found != kNames->end()) return found->second;
  return Refuse(field, value, "f32, f16 or bf16");
}

// How the value of an option gets into a capture.
using Setter = std::function<absl::Status(absl::string_view value,
                                          absl::string_view field, Read* read)>;

absl::Status SetReduce(absl::string_view value, absl::string_view field,
                       Read* read) {
  ASSIGN_OR_RETURN(read->reduce, ParseReduce(value, field));
  return absl::OkStatus();
}

absl::Status SetLens(absl::string_view value, absl::string_view field,
                     Read* read) {
  ASSIGN_OR_RETURN(read->reduce, ParseLens(value, field));
  return absl::OkStatus();
}

absl::Status SetNormedLens(absl::string_view value, absl::string_view field,
                           Read* read) {
  ASSIGN_OR_RETURN(client::Lens lens, ParseLens(value, field));
  lens.value_is_normed = true;
  read->reduce = std::move(lens);
  return absl::OkStatus();
}

absl::Status SetDtype(absl::string_view value, absl::string_view field,
                      Read* read) {
  ASSIGN_OR_RETURN(read->dtype, ParseDtype(value, field));
  return absl::OkStatus();
}

absl::Status SetRuns(absl::string_view value, absl::string_view, Read* read) {
  read->runs = absl::StrSplit(value, ',');
  return absl::OkStatus();
}

absl::Status SetReadTime(absl::string_view value, absl::string_view field,
                         Read* read) {
  ASSIGN_OR_RETURN(read->read_time, ParseReadTime(value, field));
  return absl::OkStatus();
}

absl::Status SetKeepAs(absl::string_view value, absl::string_view field,
                       Read* read) {
  if (value.empty()) return Refuse(field, value, "a name to keep it under");
  read->keep_as = std::string(value);
  return absl::OkStatus();
}

const std::map<std::string, Setter>& Setters() {
  static const auto* const kSetters = new std::map<std::string, Setter>{
      {"reduce", SetReduce}, {"lens", SetLens}, {"lens-normed", SetNormedLens},
      {"dtype", SetDtype},   {"runs", SetRuns}, {"read", SetReadTime},
      {"keep", SetKeepAs},
  };
  return *kSetters;
}

}  // namespace

absl::StatusOr<v1::ReadTime> ParseReadTime(absl::string_view value,
                                           absl::string_view field) {
  if (value == "before") return v1::READ_TIME_BEFORE;
  if (value == "after") return v1::READ_TIME_AFTER;
  return Refuse(field, value, "before or after (the interventions there)");
}

absl::Status SetCaptureOption(absl::string_view name, absl::string_view value,
                              absl::string_view field, Read* read) {
  if (IsSelectionOption(name)) {
    return SetSelectionOption(name, value, field, &read->selection);
  }
  const auto found = Setters().find(std::string(name));
  if (found == Setters().end()) {
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat("`", name, "` is not an option of a capture"),
         .valid = absl::StrCat(
             absl::StrJoin(SelectionOptions(), ", "), ", ",
             absl::StrJoin(Setters(), ", ",
                           [](std::string* out, const auto& entry) {
                             absl::StrAppend(out, entry.first);
                           }))});
  }
  return found->second(value, field, read);
}

absl::StatusOr<Read> ParseCapture(absl::string_view text,
                                  const Read& defaults) {
  const std::string field = absl::StrCat("--capture ", text);
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '@');
  Read read = defaults;
  absl::string_view hook_points = parts.front();
  const size_t equals = hook_points.find('=');
  if (equals != absl::string_view::npos) {
    read.label = std::string(hook_points.substr(0, equals));
    hook_points.remove_prefix(equals + 1);
  }
  if (hook_points.empty()) return Refuse(field, text, "a hook point");
  read.hook_points = std::string(hook_points);
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> option =
        absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    RETURN_IF_ERROR(
        SetCaptureOption(option.first, option.second, field, &read));
  }
  return read;
}

}  // namespace phitap::cli
