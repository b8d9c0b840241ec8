#include "server/plan/captures/reduction.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/wire_type.h"

namespace phitap {
namespace {

bool HasIntegers(Hook hook) {
  return hook == Hook::kInputIds || hook == Hook::kAttentionMask ||
         hook == Hook::kInputSize;
}

bool HasPositions(const HookEntry& entry) {
  return std::find(entry.dimensions.begin(), entry.dimensions.end(),
                   Dimension::kSeq) != entry.dimensions.end();
}

// [seq, hidden_size]: what the final norm and the head can read.
bool IsResidual(const HookEntry& entry) {
  return entry.dimensions ==
         std::vector{Dimension::kSeq, Dimension::kHiddenSize};
}

absl::Status CheckK(int64_t k, int64_t last, absl::string_view what,
                    const std::string& field) {
  if (k >= 1 && k <= last) return absl::OkStatus();
  return InvalidField(
      {.field = field,
       .problem = absl::StrCat(k, " entries of ", last, " ", what),
       .valid = absl::StrCat("1 to ", last)});
}

absl::StatusOr<Reduction> PlanTopK(const v1::Capture& capture,
                                   const HookEntry& entry,
                                   const std::string& field) {
  // Indices would count within the selection, and look like columns.
  const bool chosen =
      capture.selection().has_features() || capture.selection().has_keys();
  if (chosen) {
    return InvalidField(
        {.field = field,
         .problem = absl::StrCat("ranks all entries of the last dimension of ",
                                 entry.name,
                                 ", of which only some are "
                                 "selected"),
         .valid = "top_k without a selection of features or keys"});
  }
  return TopKReduction{.k = capture.reduction().top_k().k()};
}

absl::StatusOr<Reduction> PlanLogitLens(const v1::Capture& capture,
                                        const HookEntry& entry,
                                        const ModelSpec& spec,
                                        const std::string& field) {
  const v1::LogitLens& lens = capture.reduction().logit_lens();
  if (!IsResidual(entry)) {
    return InvalidField({.field = field,
                         .problem = absl::StrCat("cannot read ", entry.name),
                         .valid = "hook points of [seq, hidden_size]"});
  }
  if (capture.selection().has_features()) {
    return InvalidField({.field = field,
                         .problem = "needs every hidden unit",
                         .valid = "no selection of features"});
  }
  RETURN_IF_ERROR(
      CheckK(lens.k(), spec.vocab_size, "tokens", absl::StrCat(field, ".k")));
  const bool normed =
      lens.has_apply_final_norm() ? lens.apply_final_norm() : true;
  if (normed && entry.hook == Hook::kFinalNormOutput) {
    return InvalidField(
        {.field = absl::StrCat(field, ".apply_final_norm"),
         .problem = "final_norm_output has been through the final norm",
         .valid = "false"});
  }
  for (int i = 0; i < lens.token_ids_size(); ++i) {
    const int32_t id = lens.token_ids(i);
    if (id >= 0 && id < spec.vocab_size) continue;
    return InvalidField({.field = absl::StrCat(field, ".token_ids[", i, "]"),
                         .problem = absl::StrCat(id,
                                                 " is not in the "
                                                 "vocabulary"),
                         .valid = absl::StrCat("0 to ", spec.vocab_size - 1)});
  }
  return LogitLensReduction{
      .k = lens.k(),
      .token_ids = {lens.token_ids().begin(), lens.token_ids().end()},
      .apply_final_norm = normed};
}

std::vector<std::string> DimensionNames(Hook hook) {
  std::vector<std::string> names;
  for (Dimension dimension : EntryOf(hook).dimensions) {
    names.emplace_back(Name(dimension));
  }
  return names;
}

// A copy of `part` with another last dimension.
TensorPart WithLast(TensorPart part, int64_t size, absl::string_view name) {
  part.shape.back() = size;
  part.dimension_names.back() = std::string(name);
  return part;
}

TensorPart WithoutAxis(TensorPart part, size_t axis) {
  part.shape.erase(part.shape.begin() + axis);
  part.dimension_names.erase(part.dimension_names.begin() + axis);
  return part;
}

TensorPart Named(TensorPart part, absl::string_view name, DType dtype) {
  part.name = std::string(name);
  part.dtype = dtype;
  return part;
}

std::vector<TensorPart> LensParts(const LogitLensReduction& lens,
                                  const TensorPart& value) {
  const TensorPart best = WithLast(value, lens.k, "top_k");
  std::vector<TensorPart> parts = {Named(best, "probabilities", DType::kF32),
                                   Named(best, "indices", DType::kI32)};
  if (lens.token_ids.empty()) return parts;
  const TensorPart asked =
      WithLast(value, static_cast<int64_t>(lens.token_ids.size()), "token_ids");
  parts.push_back(Named(asked, "token_probabilities", DType::kF32));
  parts.push_back(Named(asked, "token_ranks", DType::kI32));
  return parts;
}

}  // namespace

DType ValueType(Hook hook, DType compute_dtype) {
  if (HasIntegers(hook)) return DType::kI64;
  return hook == Hook::kNextTokenProbs ? DType::kF32 : compute_dtype;
}

absl::StatusOr<Reduction> PlanReduction(const v1::Capture& capture,
                                        const HookEntry& entry,
                                        const ModelSpec& spec,
                                        absl::string_view field) {
  if (!capture.has_reduction()) return Reduction();
  const std::string path = absl::StrCat(field, ".reduction");
  const v1::Reduction& reduction = capture.reduction();
  if (reduction.kind_case() == v1::Reduction::KIND_NOT_SET) {
    return InvalidField(
        {.field = path,
         .problem = "is set but says nothing",
         .valid = "mean_over_positions, norm, top_k or logit_lens; unset for "
                  "the value itself"});
  }
  if (HasIntegers(entry.hook)) {
    return InvalidField({.field = path,
                         .problem = absl::StrCat(entry.name, " holds integers"),
                         .valid = "no reduction"});
  }
  switch (reduction.kind_case()) {
    case v1::Reduction::kMeanOverPositions:
      if (!HasPositions(entry)) {
        return InvalidField(
            {.field = absl::StrCat(path, ".mean_over_positions"),
             .problem = absl::StrCat(entry.name, " has no seq dimension"),
             .valid = "hook points with one"});
      }
      return MeanOverPositionsReduction();
    case v1::Reduction::kTopK:
      return PlanTopK(capture, entry, absl::StrCat(path, ".top_k"));
    case v1::Reduction::kLogitLens:
      return PlanLogitLens(capture, entry, spec,
                           absl::StrCat(path, ".logit_lens"));
    default:
      return NormReduction();
  }
}

absl::StatusOr<std::optional<DType>> PlanWireType(const v1::Capture& capture,
                                                  const HookEntry& entry,
                                                  absl::string_view field) {
  if (capture.dtype() == v1::DATA_TYPE_UNSPECIFIED) return std::nullopt;
  const std::string path = absl::StrCat(field, ".dtype");
  const std::string& asked = v1::DataType_Name(capture.dtype());
  const std::optional<DType> dtype = FromWire(capture.dtype());
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    return InvalidField(
        {.field = path,
         .problem = absl::StrCat(asked, " is no floating-point type"),
         .valid = "DATA_TYPE_F32, DATA_TYPE_F16, DATA_TYPE_BF16"});
  }
  if (HasIntegers(entry.hook)) {
    return InvalidField({.field = path,
                         .problem = absl::StrCat(asked, " for ", entry.name,
                                                 ", which holds integers"),
                         .valid = "unset"});
  }
  const v1::Reduction& reduction = capture.reduction();
  if (dtype != DType::kF32 &&
      (reduction.has_norm() || reduction.has_logit_lens())) {
    return InvalidField(
        {.field = path,
         .problem = absl::StrCat(asked, " for a reduction to float32"),
         .valid = "unset or DATA_TYPE_F32"});
  }
  return dtype;
}

int PartCount(const Reduction& reduction) {
  if (std::holds_alternative<TopKReduction>(reduction)) return 2;
  const auto* lens = std::get_if<LogitLensReduction>(&reduction);
  if (lens == nullptr) return 1;
  return lens->token_ids.empty() ? 2 : 4;
}

int64_t IndexCount(const Reduction& reduction) {
  const auto* lens = std::get_if<LogitLensReduction>(&reduction);
  return lens == nullptr ? 0 : static_cast<int64_t>(lens->token_ids.size());
}

absl::StatusOr<std::vector<TensorPart>> ReducedParts(
    const Reduction& reduction, const SelectedValue& value,
    std::optional<DType> wire_type, absl::string_view field) {
  const TensorPart whole = {.dtype = wire_type.value_or(value.dtype),
                            .shape = value.shape,
                            .dimension_names = DimensionNames(value.hook)};
  if (std::holds_alternative<MeanOverPositionsReduction>(reduction)) {
    const auto& names = whole.dimension_names;
    const auto seq = std::find(names.begin(), names.end(), "seq");
    return std::vector{WithoutAxis(whole, seq - names.begin())};
  }
  if (std::holds_alternative<NormReduction>(reduction)) {
    return std::vector{
        Named(WithoutAxis(whole, whole.shape.size() - 1), "", DType::kF32)};
  }
  if (const auto* top = std::get_if<TopKReduction>(&reduction)) {
    RETURN_IF_ERROR(CheckK(top->k, whole.shape.back(),
                           whole.dimension_names.back(),
                           absl::StrCat(field, ".reduction.top_k.k")));
    const TensorPart best = WithLast(whole, top->k, "top_k");
    return std::vector{Named(best, "values", best.dtype),
                       Named(best, "indices", DType::kI32)};
  }
  if (const auto* lens = std::get_if<LogitLensReduction>(&reduction)) {
    return LensParts(*lens, whole);
  }
  return std::vector{whole};
}

}  // namespace phitap
