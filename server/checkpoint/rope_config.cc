#include "server/checkpoint/rope_config.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/json.h"

namespace phitap {
namespace {

constexpr NumberRange kTheta = {.above = 0.0, .max = 1e12};
constexpr NumberRange kPartial = {.above = 0.0, .max = 1.0};
constexpr NumberRange kFactor = {.above = 0.0, .max = 1e6};
// Below two positions the logarithm that the attention factor divides by is
// zero.
constexpr IntegerRange kOriginal = {.min = 2, .max = 1 << 24};
// What Phi3Config takes where the top level does not say.
constexpr int64_t kMissingOriginal = 4096;
constexpr char kPartialKey[] = "partial_rotary_factor";
constexpr char kOriginalKey[] = "original_max_position_embeddings";

// The object with the rope parameters, if there is one that is not empty;
// rope_scaling comes first, as in transformers.
absl::StatusOr<std::optional<JsonFields>> FindParameters(
    const JsonFields& fields) {
  for (const absl::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!fields.HasValue(key)) continue;
    ASSIGN_OR_RETURN(JsonFields parameters, fields.Object(key));
    if (parameters.Empty()) continue;
    const std::vector<std::string> nested = parameters.ObjectKeys();
    if (!nested.empty()) {
      return fields.Invalid(
          key,
          absl::StrCat("has parameters of its own for ", QuotedName(nested[0])),
          "one set for all layers");
    }
    return std::optional<JsonFields>(std::move(parameters));
  }
  return std::optional<JsonFields>();
}

// `key` inside the parameters, else at the top level, else `missing`.
absl::StatusOr<double> NestedNumber(const JsonFields& fields,
                                    const std::optional<JsonFields>& parameters,
                                    absl::string_view key, NumberRange range,
                                    double missing) {
  if (parameters && parameters->Has(key)) {
    return parameters->Number(key, range, missing);
  }
  return fields.Number(key, range, missing);
}

enum class RopeType { kDefault, kLongRope };

absl::StatusOr<RopeType> ReadType(const JsonFields& parameters) {
  const absl::string_view key =
      parameters.Has("rope_type") ? "rope_type" : "type";
  ASSIGN_OR_RETURN(const std::optional<std::string> type,
                   parameters.OptionalString(key));
  const std::string valid =
      R"("longrope", its old names "su" and "yarn", or "default")";
  if (!type && (parameters.Has(key) || parameters.Has("long_factor") ||
                parameters.Has("short_factor"))) {
    return parameters.Invalid(key, parameters.Has(key) ? "null" : "is missing",
                              valid);
  }
  if (!type || *type == "default") return RopeType::kDefault;
  if (*type == "longrope" || *type == "su" || *type == "yarn") {
    return RopeType::kLongRope;
  }
  return parameters.Invalid(
      key, absl::StrCat(QuotedName(*type), " is a rope type not served here"),
      valid);
}

absl::StatusOr<std::vector<float>> ReadFactors(const JsonFields& parameters,
                                               absl::string_view key,
                                               int64_t rotary_dims) {
  ASSIGN_OR_RETURN(const std::vector<double> numbers,
                   parameters.Numbers(key, kFactor));
  if (static_cast<int64_t>(numbers.size()) != rotary_dims / 2) {
    return parameters.Invalid(
        key, absl::StrCat("has ", numbers.size(), " factors"),
        absl::StrCat(rotary_dims / 2, ", one for two rotary dimensions"));
  }
  std::vector<float> factors(numbers.begin(), numbers.end());
  for (size_t i = 0; i < factors.size(); ++i) {
    // Numbers that float32 holds as zero would divide by it.
    if (factors[i] >= std::numeric_limits<float>::min()) continue;
    return parameters.Invalid(absl::StrCat(key, "[", i, "]"),
                              absl::StrCat(numbers[i]),
                              "a factor that float32 does not hold as zero");
  }
  return factors;
}

// The top level alone decides, even over a nested value: transformers 5.24 does
// so, and the two must choose the same factors for the same prompt.
absl::StatusOr<int64_t> ReadOriginal(const JsonFields& fields,
                                     const JsonFields& parameters,
                                     CheckpointConfig& config) {
  ASSIGN_OR_RETURN(const int64_t original,
                   fields.Integer(kOriginalKey, kOriginal, kMissingOriginal));
  ASSIGN_OR_RETURN(const std::optional<int64_t> nested,
                   parameters.OptionalInteger(kOriginalKey, kOriginal));
  if (nested.value_or(original) != original) {
    config.warnings.push_back(absl::StrCat(
        parameters.Name(kOriginalKey), ": ", *nested,
        " is ignored, as transformers does; ", fields.Name(kOriginalKey),
        " is ", original, fields.Has(kOriginalKey) ? "" : " by default"));
  }
  return original;
}

// sqrt(1 + ln(factor) / ln(original)) where the sequence grows, unless the
// config has its own.
absl::StatusOr<double> ReadAttentionFactor(const JsonFields& parameters,
                                           int64_t max_positions,
                                           int64_t original) {
  ASSIGN_OR_RETURN(const std::optional<double> own,
                   parameters.OptionalNumber("attention_factor", kFactor));
  ASSIGN_OR_RETURN(const std::optional<double> stated,
                   parameters.OptionalNumber("factor", kFactor));
  if (own) return *own;
  const double factor =
      stated.value_or(static_cast<double>(max_positions) / original);
  if (factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(factor) / std::log(original));
}

absl::StatusOr<LongRope> ReadLongRope(const JsonFields& fields,
                                      const JsonFields& parameters,
                                      CheckpointConfig& config) {
  LongRope longrope;
  ASSIGN_OR_RETURN(
      longrope.short_factor,
      ReadFactors(parameters, "short_factor", config.spec.rotary_dims));
  ASSIGN_OR_RETURN(longrope.long_factor, ReadFactors(parameters, "long_factor",
                                                     config.spec.rotary_dims));
  ASSIGN_OR_RETURN(longrope.original_max_positions,
                   ReadOriginal(fields, parameters, config));
  ASSIGN_OR_RETURN(longrope.attention_factor,
                   ReadAttentionFactor(parameters, config.spec.max_positions,
                                       longrope.original_max_positions));
  for (const absl::string_view key : {"short_mscale", "long_mscale"}) {
    if (!parameters.HasValue(key)) continue;
    config.warnings.push_back(
        absl::StrCat(parameters.Name(key), ": ignored, as transformers does"));
  }
  return longrope;
}

}  // namespace

absl::Status ReadRope(const JsonFields& fields, CheckpointConfig& config) {
  ModelSpec& spec = config.spec;
  ASSIGN_OR_RETURN(const std::optional<JsonFields> parameters,
                   FindParameters(fields));
  ASSIGN_OR_RETURN(spec.rope_theta,
                   NestedNumber(fields, parameters, "rope_theta", kTheta, 1e4));
  ASSIGN_OR_RETURN(
      const double partial,
      NestedNumber(fields, parameters, kPartialKey, kPartial, 1.0));
  spec.rotary_dims = static_cast<int64_t>(spec.head_dim * partial);
  if (spec.rotary_dims == 0 || spec.rotary_dims % 2 != 0) {
    const bool nested = parameters && parameters->Has(kPartialKey);
    return (nested ? *parameters : fields)
        .Invalid(partial < 1.0 ? kPartialKey : "head_dim",
                 absl::StrCat("leaves ", spec.rotary_dims, " of ",
                              spec.head_dim, " dimensions of a head to rotate"),
                 "an even number of them, at least 2");
  }
  if (!parameters) return absl::OkStatus();
  ASSIGN_OR_RETURN(const RopeType type, ReadType(*parameters));
  if (type == RopeType::kDefault) return absl::OkStatus();
  ASSIGN_OR_RETURN(spec.longrope, ReadLongRope(fields, *parameters, config));
  return absl::OkStatus();
}

}  // namespace phitap
