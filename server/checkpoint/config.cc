#include "server/checkpoint/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/json.h"
#include "server/checkpoint/json_fields.h"
#include "server/checkpoint/rope_config.h"

namespace phitap {
namespace {

constexpr char kConfigName[] = "config.json";
constexpr char kGenerationConfigName[] = "generation_config.json";
constexpr char kModelType[] = "phi3";
constexpr char kArchitecture[] = "Phi3ForCausalLM";

// Far above any member of the family, and low enough that no product of sizes
// overflows 64 bits.
constexpr IntegerRange kLayers = {.min = 1, .max = 1024};
constexpr IntegerRange kHeads = {.min = 1, .max = 1024};
constexpr IntegerRange kHeadDim = {.min = 1, .max = 8192};
constexpr IntegerRange kWidth = {.min = 1, .max = 1 << 20};
constexpr IntegerRange kVocabulary = {.min = 1, .max = 1 << 24};
// Rotary angles are computed from float32 positions, exact up to 2^24.
constexpr IntegerRange kPositions = {.min = 1, .max = 1 << 24};
constexpr IntegerRange kWindow = {.min = 1, .max = INT32_MAX};
constexpr IntegerRange kTokenId = {.min = 0, .max = INT32_MAX};

struct Relative {
  absl::string_view model_type;
  absl::string_view difference;
};

// Members of the wider Phi family, whose forward is another one.
constexpr Relative kRelatives[] = {
    {"phi", "Phi-1, Phi-1.5 and Phi-2: parallel attention and MLP, LayerNorm"},
    {"phi3small", "Phi-3-small: block-sparse attention, its own tokenizer"},
    {"phi4flash", "Phi-4-mini-flash: state-space layers"},
    {"phimoe", "Phi-3.5-MoE: a mixture of experts"},
    {"phi3_v", "Phi-3-vision: an image encoder"},
    {"phi4mm", "Phi-4-multimodal: image and speech encoders"},
    {"phi4_multimodal", "Phi-4-multimodal: image and speech encoders"},
};

absl::Status CheckModelType(const JsonFields& config) {
  ASSIGN_OR_RETURN(const std::optional<std::string> model_type,
                   config.OptionalString("model_type"));
  const std::string valid = QuotedName(kModelType);
  if (!model_type) return config.Invalid("model_type", "is missing", valid);
  if (*model_type == kModelType) return absl::OkStatus();
  std::string problem = absl::StrCat(QuotedName(*model_type),
                                     " is an architecture not served here");
  for (const Relative& relative : kRelatives) {
    if (relative.model_type != *model_type) continue;
    absl::StrAppend(&problem, " (", relative.difference, ")");
  }
  return config.Invalid("model_type", problem, valid,
                        absl::StatusCode::kFailedPrecondition);
}

// A config saved without a model has no architectures; then the model type says
// it.
absl::Status CheckArchitectures(const JsonFields& config) {
  if (!config.HasValue("architectures")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   config.Strings("architectures"));
  if (std::find(names.begin(), names.end(), kArchitecture) != names.end()) {
    return absl::OkStatus();
  }
  return config.Invalid(
      "architectures",
      names.empty() ? "is empty"
                    : absl::StrCat(QuotedName(names[0]), " is not served here"),
      QuotedName(kArchitecture), absl::StatusCode::kFailedPrecondition);
}

absl::Status CheckQuantization(const JsonFields& config) {
  for (const absl::string_view key :
       {"quantization_config", "compression_config"}) {
    if (!config.HasValue(key)) continue;
    ASSIGN_OR_RETURN(const JsonFields quantization, config.Object(key));
    ASSIGN_OR_RETURN(const std::optional<std::string> method,
                     quantization.OptionalString("quant_method"));
    return config.Invalid(
        key,
        absl::StrCat("the checkpoint is quantised",
                     method ? absl::StrCat(" by ", QuotedName(*method)) : ""),
        "weights in float32, float16 or bfloat16",
        absl::StatusCode::kFailedPrecondition);
  }
  return absl::OkStatus();
}

absl::Status ReadHeadDim(const JsonFields& config, ModelSpec& spec) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> head_dim,
                   config.OptionalInteger("head_dim", kHeadDim));
  if (!head_dim && spec.hidden_size % spec.num_heads != 0) {
    return config.Invalid(
        "num_attention_heads",
        absl::StrCat(spec.num_heads, " does not divide hidden_size ",
                     spec.hidden_size),
        "a divisor of hidden_size, or an explicit head_dim");
  }
  spec.head_dim = head_dim.value_or(spec.hidden_size / spec.num_heads);
  return absl::OkStatus();
}

absl::Status ReadSizes(const JsonFields& config, ModelSpec& spec) {
  ASSIGN_OR_RETURN(spec.num_layers,
                   config.Integer("num_hidden_layers", kLayers, 32));
  ASSIGN_OR_RETURN(spec.hidden_size,
                   config.Integer("hidden_size", kWidth, 3072));
  ASSIGN_OR_RETURN(spec.intermediate_size,
                   config.Integer("intermediate_size", kWidth, 8192));
  ASSIGN_OR_RETURN(spec.vocab_size,
                   config.Integer("vocab_size", kVocabulary, 32064));
  ASSIGN_OR_RETURN(spec.max_positions,
                   config.Integer("max_position_embeddings", kPositions, 4096));
  ASSIGN_OR_RETURN(spec.num_heads,
                   config.Integer("num_attention_heads", kHeads, 32));
  RETURN_IF_ERROR(ReadHeadDim(config, spec));
  ASSIGN_OR_RETURN(const std::optional<int64_t> kv_heads,
                   config.OptionalInteger("num_key_value_heads", kHeads));
  spec.num_kv_heads = kv_heads.value_or(spec.num_heads);
  if (spec.num_heads % spec.num_kv_heads != 0) {
    return config.Invalid("num_key_value_heads",
                          absl::StrCat(spec.num_kv_heads, " does not divide ",
                                       spec.num_heads, " attention heads"),
                          "a divisor of num_attention_heads");
  }
  ASSIGN_OR_RETURN(spec.sliding_window,
                   config.OptionalInteger("sliding_window", kWindow));
  return absl::OkStatus();
}

absl::Status ReadArithmetic(const JsonFields& config, ModelSpec& spec) {
  ASSIGN_OR_RETURN(
      spec.rms_norm_eps,
      config.Number("rms_norm_eps", {.above = 0.0, .max = 1.0}, 1e-5));
  ASSIGN_OR_RETURN(const std::optional<std::string> activation,
                   config.OptionalString("hidden_act"));
  spec.hidden_act = activation.value_or("silu");
  if (spec.hidden_act != "silu") {
    return config.Invalid("hidden_act",
                          absl::StrCat(QuotedName(spec.hidden_act),
                                       " is an activation not served here"),
                          QuotedName("silu"));
  }
  ASSIGN_OR_RETURN(spec.tied_head,
                   config.Boolean("tie_word_embeddings", false));
  return absl::OkStatus();
}

// transformers 5 writes `dtype`, 4 wrote `torch_dtype`.
absl::StatusOr<std::optional<DType>> ReadDType(const JsonFields& config) {
  for (const absl::string_view key : {"dtype", "torch_dtype"}) {
    ASSIGN_OR_RETURN(const std::optional<std::string> name,
                     config.OptionalString(key));
    if (!name) continue;
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      if (*name == Name(dtype)) return dtype;
    }
    return config.Invalid(key, QuotedName(*name),
                          "float32, float16 or bfloat16");
  }
  return std::nullopt;
}

// A key that is missing has Phi3Config's value; null is none.
absl::StatusOr<std::optional<int64_t>> ReadTokenId(const JsonFields& config,
                                                   absl::string_view key,
                                                   int64_t missing) {
  if (!config.Has(key)) return missing;
  return config.OptionalInteger(key, kTokenId);
}

absl::Status ReadTokenIds(const JsonFields& config, absl::string_view folder,
                          ModelSpec& spec) {
  ASSIGN_OR_RETURN(spec.bos_id, ReadTokenId(config, "bos_token_id", 1));
  ASSIGN_OR_RETURN(spec.pad_id, ReadTokenId(config, "pad_token_id", 32000));
  ASSIGN_OR_RETURN(spec.eos_ids, config.Integers("eos_token_id", kTokenId));
  if (!config.Has("eos_token_id")) spec.eos_ids = {32000};

  if (!HasFile(folder, kGenerationConfigName)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const nlohmann::json document,
                   ReadJsonObject(folder, kGenerationConfigName));
  const JsonFields generation(document,
                              absl::StrCat(kGenerationConfigName, ": "));
  ASSIGN_OR_RETURN(std::vector<int64_t> eos_ids,
                   generation.Integers("eos_token_id", kTokenId));
  if (!eos_ids.empty()) spec.eos_ids = std::move(eos_ids);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointConfig> ReadConfig(absl::string_view folder) {
  RETURN_IF_ERROR(CheckFolder(folder));
  ASSIGN_OR_RETURN(const nlohmann::json document,
                   ReadJsonObject(folder, kConfigName));
  const JsonFields fields(document, absl::StrCat(kConfigName, ": "));
  RETURN_IF_ERROR(CheckModelType(fields));
  RETURN_IF_ERROR(CheckArchitectures(fields));
  RETURN_IF_ERROR(CheckQuantization(fields));

  CheckpointConfig config;
  config.spec.architecture = kArchitecture;
  RETURN_IF_ERROR(ReadSizes(fields, config.spec));
  RETURN_IF_ERROR(ReadArithmetic(fields, config.spec));
  RETURN_IF_ERROR(ReadRope(fields, config));
  RETURN_IF_ERROR(ReadTokenIds(fields, folder, config.spec));
  ASSIGN_OR_RETURN(config.dtype, ReadDType(fields));
  config.spec.dtype = config.dtype.value_or(config.spec.dtype);
  return config;
}

}  // namespace phitap
