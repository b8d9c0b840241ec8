#include "server/load_models.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/field_error.h"
#include "server/base/host_tensor.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/expected_tensors.h"
#include "server/decide_memory.h"
#include "server/observe/log.h"
#include "server/row_rule_file.h"
#include "server/tokenizer/tokenizer.h"
#include "server/trace/trace_executor.h"

namespace phitap {
namespace {

// Logs what the steps of one model's loading took.
class StageLog {
 public:
  explicit StageLog(const std::string& model) : model_(model) {}

  void Done(absl::string_view stage) {
    const absl::Time now = absl::Now();
    Log(LogLevel::kInfo, "loading",
        {{log_field::kModel, model_},
         {log_field::kStage, std::string(stage)},
         {log_field::kSeconds, absl::ToDoubleSeconds(now - since_)}});
    since_ = now;
  }

 private:
  const std::string model_;
  absl::Time since_ = absl::Now();
};

int64_t ParameterCount(const ModelSpec& spec) {
  int64_t count = 0;
  for (const ExpectedTensor& tensor : ExpectedTensors(spec)) {
    if (spec.tied_head && tensor.name == kHeadName) continue;
    count += ElementCount(tensor.shape);
  }
  return count;
}

// Null where the folder has none: then requests bring token ids.
absl::StatusOr<std::shared_ptr<const Tokenizer>> LoadTokenizer(
    const std::string& folder) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      Tokenizer::Load(folder);
  if (absl::IsNotFound(tokenizer.status())) return nullptr;
  RETURN_IF_ERROR(tokenizer.status());
  return std::shared_ptr<const Tokenizer>(*std::move(tokenizer));
}

ServedModel Describe(const std::string& name, const Checkpoint& checkpoint,
                     const LoadOptions& options,
                     const NumericsReport& numerics) {
  const int64_t parameter_count = ParameterCount(checkpoint.spec());
  return {.name = name,
          .spec = checkpoint.spec(),
          .compute_dtype = options.dtype,
          .weights_digest = checkpoint.digest(),
          .parameter_count = parameter_count,
          .weight_bytes = parameter_count * SizeInBytes(options.dtype),
          .warnings = checkpoint.warnings(),
          .batch_invariant = numerics.batch_invariant,
          .row_rule = numerics.row_rule,
          .numerics_fingerprint = numerics.fingerprint};
}

void LogLoaded(const ServedModel& model) {
  for (const std::string& warning : model.warnings) {
    Log(LogLevel::kWarning, "checkpoint",
        {{log_field::kModel, model.name}, {log_field::kWarning, warning}});
  }
  if (model.tokenizer == nullptr) {
    Log(LogLevel::kWarning, "no tokenizer.json: token ids only",
        {{log_field::kModel, model.name}});
  }
  Log(LogLevel::kInfo, "loaded",
      {{log_field::kModel, model.name},
       {log_field::kBytes, model.weight_bytes},
       {log_field::kDtype, std::string(Name(model.compute_dtype))},
       {log_field::kDigest, model.weights_digest},
       {log_field::kFingerprint, model.numerics_fingerprint}});
}

absl::Status LoadInto(const ModelSource& source, const ServerConfig& config,
                      RowRuleFile& row_rules, LoadedModels& loaded) {
  StageLog stages(source.name);
  ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint,
                   Checkpoint::Open(source.path, config.weights));
  stages.Done("checkpoint");
  ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer,
                   LoadTokenizer(source.path));
  stages.Done("tokenizer");
  const DType dtype = config.dtype.value_or(checkpoint->spec().dtype);
  const LoadOptions options = {
      .dtype = dtype,
      .thread_count = config.threads,
      .packing = DecideWeightPacking(
          config, ParameterCount(checkpoint->spec()) * SizeInBytes(dtype)),
      .known_row_rules = &row_rules};
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(checkpoint, options));
  const bool packed = model.packing == WeightPacking::kPacked;
  stages.Done(packed ? "packed weights and row rule" : "weights and row rule");
  ServedModel served =
      Describe(source.name, *checkpoint, options, model.numerics);
  served.packed = packed;
  served.tokenizer = tokenizer;
  LogLoaded(served);
  loaded.served.push_back(std::move(served));
  loaded.executors[source.name] = std::move(model.executor);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedModels> LoadModels(const ServerConfig& config) {
  LoadedModels loaded;
  RowRuleFile row_rules(config.tensors.state_dir);
  for (const ModelSource& source : config.models) {
    const absl::Status status = LoadInto(source, config, row_rules, loaded);
    if (status.ok()) continue;
    return InvalidField(
        {.field = absl::StrCat("--model ", source.name, "=", source.path),
         .problem = std::string(status.message())},
        status.code());
  }
  if (!row_rules.write_status().ok()) {
    Log(LogLevel::kWarning, "the next start measures row rules again",
        {{log_field::kError, std::string(row_rules.write_status().message())}});
  }
  return loaded;
}

}  // namespace phitap
