#include "client/cli/feature_text.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

using client::FeatureChange;

constexpr char kTopK[] = "top-k:";
constexpr char kRun[] = "run:";

absl::Status ReadActivation(absl::string_view text, const WordReader& words,
                            client::Dictionary* dictionary) {
  if (text == "relu") {
    dictionary->activation = v1::DICTIONARY_ACTIVATION_RELU;
    return absl::OkStatus();
  }
  if (text == "jump-relu") {
    dictionary->activation = v1::DICTIONARY_ACTIVATION_JUMP_RELU;
    return absl::OkStatus();
  }
  absl::string_view k = text;
  if (absl::ConsumePrefix(&k, kTopK) && absl::SimpleAtoi(k, &dictionary->k) &&
      dictionary->k > 0) {
    dictionary->activation = v1::DICTIONARY_ACTIVATION_TOP_K;
    return absl::OkStatus();
  }
  return words.Refuse(text, absl::StrCat("`", text, "` is no activation"));
}

// `17=4`, `17*=0`, `17+=2` or `17=run:LABEL`.
absl::StatusOr<FeatureChange> ParseFeature(absl::string_view word,
                                           const WordReader& words) {
  const size_t equals = word.find('=');
  absl::string_view feature = word.substr(0, equals);
  const bool scales = absl::ConsumeSuffix(&feature, "*");
  const bool adds = !scales && absl::ConsumeSuffix(&feature, "+");
  FeatureChange change;
  if (equals == absl::string_view::npos ||
      !absl::SimpleAtoi(feature, &change.feature)) {
    return words.Refuse(word, absl::StrCat("`", word, "` changes no feature"));
  }
  absl::string_view value = word.substr(equals + 1);
  if (!scales && !adds && absl::ConsumePrefix(&value, kRun)) {
    change.change = client::FeatureOfRun{.run = std::string(value)};
    return change;
  }
  ASSIGN_OR_RETURN(const double number, words.quoted().Number(value));
  if (scales) {
    change.change = client::ScaleFeature{.factor = number};
  } else if (adds) {
    change.change = client::AddToFeature{.value = number};
  } else {
    change.change = client::SetFeature{.value = number};
  }
  return change;
}

std::string FeatureText(const v1::FeatureEdit& edit) {
  switch (edit.edit_case()) {
    case v1::FeatureEdit::kSet:
      return absl::StrCat(" ", edit.feature(), "=", edit.set());
    case v1::FeatureEdit::kScale:
      return absl::StrCat(" ", edit.feature(), "*=", edit.scale());
    case v1::FeatureEdit::kAdd:
      return absl::StrCat(" ", edit.feature(), "+=", edit.add());
    case v1::FeatureEdit::kFromRun:
      return absl::StrCat(" ", edit.feature(), "=", kRun, edit.from_run());
    case v1::FeatureEdit::EDIT_NOT_SET:
      break;
  }
  return absl::StrCat(" ", edit.feature());
}

std::string ActivationText(const v1::Dictionary& dictionary) {
  switch (dictionary.activation()) {
    case v1::DICTIONARY_ACTIVATION_RELU:
      return " activation=relu";
    case v1::DICTIONARY_ACTIVATION_JUMP_RELU:
      return " activation=jump-relu";
    case v1::DICTIONARY_ACTIVATION_TOP_K:
      return absl::StrCat(" activation=", kTopK, dictionary.k());
    default:
      return "";
  }
}

}  // namespace

absl::StatusOr<client::Change> ParseFeatures(WordReader* words) {
  client::EditFeatures features;
  if (const auto activation = words->TakeOption("activation")) {
    RETURN_IF_ERROR(ReadActivation(*activation, *words, &features.dictionary));
  }
  if (const auto encode = words->TakeOption("encode")) {
    features.encode_hook = std::string(*encode);
  }
  features.dictionary.subtract_decoder_bias =
      words->TakeFlag("subtract-decoder-bias");
  features.drop_error = words->TakeFlag("drop-error");
  ASSIGN_OR_RETURN(const absl::string_view name, words->Next("a dictionary"));
  features.dictionary.name = std::string(name);
  while (!words->empty()) {
    ASSIGN_OR_RETURN(const absl::string_view word, words->Next("a feature"));
    ASSIGN_OR_RETURN(features.changes.emplace_back(),
                     ParseFeature(word, *words));
  }
  if (features.changes.empty() && !features.drop_error) {
    return words->Refuse(words->quoted().End(), "a feature is missing");
  }
  return features;
}

std::string FeaturesText(const v1::DictionaryEdit& edit) {
  std::string text = absl::StrCat("features ", edit.dictionary().name());
  for (const v1::FeatureEdit& feature : edit.edits()) {
    text += FeatureText(feature);
  }
  absl::StrAppend(&text, ActivationText(edit.dictionary()));
  if (!edit.encode_hook().empty()) {
    absl::StrAppend(&text, " encode=", edit.encode_hook());
  }
  if (edit.dictionary().subtract_decoder_bias()) {
    absl::StrAppend(&text, " subtract-decoder-bias");
  }
  if (edit.drop_error()) absl::StrAppend(&text, " drop-error");
  return text;
}

}  // namespace phitap::cli
