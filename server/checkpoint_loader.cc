#include "server/checkpoint_loader.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/field_error.h"
#include "server/base/host_tensor.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/expected_tensors.h"
#include "server/decide_memory.h"
#include "server/observe/log.h"
#include "server/tokenizer/tokenizer.h"
#include "server/trace/trace_executor.h"

namespace phitap {
namespace {

// Of the loading, done when the weights begin and when the row rule does.
constexpr double kCheckpointShare = 0.3;
constexpr double kWeightsShare = 0.9;

// Tells log and steps what a model's loading does, and the log what it took.
class StageLog {
 public:
  StageLog(const std::string& model, LoadSteps& steps)
      : model_(model), steps_(steps) {}
  ~StageLog() { End(); }

  absl::Status Begin(absl::string_view stage, double progress) {
    End();
    stage_ = std::string(stage);
    since_ = absl::Now();
    return steps_.Begin(stage, progress);
  }
  // Of the stage that has begun.
  absl::Status GoOn(double progress) { return steps_.Begin(stage_, progress); }

 private:
  void End() {
    if (stage_.empty()) return;
    Log(LogLevel::kInfo, "loading",
        {{log_field::kModel, model_},
         {log_field::kStage, stage_},
         {log_field::kSeconds, absl::ToDoubleSeconds(absl::Now() - since_)}});
  }

  const std::string model_;
  LoadSteps& steps_;
  std::string stage_;
  absl::Time since_;
};

DType ComputeType(const ServerConfig& config, const Checkpoint& checkpoint) {
  return config.dtype.value_or(checkpoint.spec().dtype);
}

struct WeightCount {
  int64_t parameters = 0;
  int64_t stored_bytes = 0;
};

WeightCount CountWeights(const Checkpoint& checkpoint) {
  WeightCount count;
  for (const ExpectedTensor& tensor : ExpectedTensors(checkpoint.spec())) {
    if (checkpoint.spec().tied_head && tensor.name == kHeadName) continue;
    count.parameters += ElementCount(tensor.shape);
    count.stored_bytes +=
        static_cast<int64_t>(checkpoint.Tensor(tensor.name).bytes.size());
  }
  return count;
}

int64_t WeightBytes(const ServerConfig& config, const Checkpoint& checkpoint) {
  return CountWeights(checkpoint).parameters *
         SizeInBytes(ComputeType(config, checkpoint));
}

// Whether what is computed with is not what is stored.
bool IsMadeAnew(const ServerConfig& config, const Checkpoint& checkpoint) {
  for (const ExpectedTensor& tensor : ExpectedTensors(checkpoint.spec())) {
    if (checkpoint.Tensor(tensor.name).dtype !=
        ComputeType(config, checkpoint)) {
      return true;
    }
  }
  return DecideWeightPacking(config, WeightBytes(config, checkpoint)) ==
         WeightPacking::kPacked;
}

// What loading takes at most: where the files are read into memory, they and
// the weights that are made of them are there together.
int64_t BytesToLoad(const ServerConfig& config, const Checkpoint& checkpoint) {
  const int64_t weight_bytes = WeightBytes(config, checkpoint);
  return config.weights == WeightStorage::kCopy &&
                 IsMadeAnew(config, checkpoint)
             ? weight_bytes + CountWeights(checkpoint).stored_bytes
             : weight_bytes;
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

absl::Status TellOfWeights(double share, StageLog& stages) {
  return share < 1 ? stages.GoOn(kCheckpointShare +
                                 share * (kWeightsShare - kCheckpointShare))
                   : stages.Begin("row rule", kWeightsShare);
}

ServedModel Describe(const std::string& name, const Checkpoint& checkpoint,
                     DType dtype, const NumericsReport& numerics) {
  const int64_t parameter_count = CountWeights(checkpoint).parameters;
  return {.name = name,
          .spec = checkpoint.spec(),
          .compute_dtype = dtype,
          .weights_digest = checkpoint.digest(),
          .parameter_count = parameter_count,
          .weight_bytes = parameter_count * SizeInBytes(dtype),
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

}  // namespace

absl::Status NamingFlag(const ModelSource& source, const absl::Status& status) {
  return InvalidField(
      {.field = absl::StrCat("--model ", source.name, "=", source.path),
       .problem = std::string(status.message())},
      status.code());
}

CheckpointLoader::CheckpointLoader(const ServerConfig& config)
    : config_(config), row_rules_(config.tensors.state_dir) {}

absl::StatusOr<int64_t> CheckpointLoader::Survey(const ModelSource& source) {
  absl::StatusOr<std::shared_ptr<const Checkpoint>> checkpoint =
      OpenMapped(source.path);
  if (!checkpoint.ok()) return NamingFlag(source, checkpoint.status());
  surveyed_[source.path] = *checkpoint;
  return BytesToLoad(config_, **checkpoint);
}

absl::StatusOr<std::shared_ptr<const Checkpoint>> CheckpointLoader::OpenMapped(
    const std::string& path) {
  const auto surveyed = surveyed_.find(path);
  if (surveyed == surveyed_.end()) return Checkpoint::Open(path);
  std::shared_ptr<const Checkpoint> checkpoint = std::move(surveyed->second);
  surveyed_.erase(surveyed);
  return checkpoint;
}

absl::StatusOr<std::shared_ptr<const Checkpoint>>
CheckpointLoader::OpenAdmitted(const std::string& path, LoadSteps& steps) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> checkpoint,
                   OpenMapped(path));
  RETURN_IF_ERROR(steps.Admit(BytesToLoad(config_, *checkpoint)));
  if (config_.weights == WeightStorage::kMap) return checkpoint;
  checkpoint = nullptr;
  return Checkpoint::Open(path, config_.weights);
}

absl::StatusOr<LoadedCheckpoint> CheckpointLoader::Load(
    const ModelSource& source, LoadSteps& steps,
    std::function<absl::Status(std::function<void()>)> run_on_compute_thread) {
  StageLog stages(source.name, steps);
  RETURN_IF_ERROR(stages.Begin("tokenizer", 0));
  ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer,
                   LoadTokenizer(source.path));
  RETURN_IF_ERROR(stages.Begin("checkpoint", 0.1));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint,
                   OpenAdmitted(source.path, steps));
  RETURN_IF_ERROR(stages.Begin("weights", kCheckpointShare));
  const LoadOptions options = {
      .dtype = ComputeType(config_, *checkpoint),
      .thread_count = config_.threads,
      .packing =
          DecideWeightPacking(config_, WeightBytes(config_, *checkpoint)),
      .on_weights = [&](double share) { return TellOfWeights(share, stages); },
      .run_on_compute_thread = std::move(run_on_compute_thread),
      .known_row_rules = &row_rules_};
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(checkpoint, options));
  if (!row_rules_.write_status().ok()) {
    Log(LogLevel::kWarning, "the next start measures row rules again",
        {{log_field::kError,
          std::string(row_rules_.write_status().message())}});
  }
  LoadedCheckpoint loaded = {.model = Describe(source.name, *checkpoint,
                                               options.dtype, model.numerics),
                             .executor = std::move(model.executor)};
  loaded.model.packed = model.packing == WeightPacking::kPacked;
  loaded.model.tokenizer = std::move(tokenizer);
  LogLoaded(loaded.model);
  return loaded;
}

}  // namespace phitap
