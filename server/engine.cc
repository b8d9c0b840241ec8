#include "server/engine.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/decide_memory.h"
#include "server/observe/log.h"
#include "server/trace/trace_executor.h"

namespace phitap {
namespace {

absl::StatusOr<std::unique_ptr<NamedTensors>> OpenTensors(
    const ServerConfig& config, const Clock& clock) {
  NamedTensorsOptions options = config.tensors;
  options.clock = &clock;
  options.on_file_error = [](const absl::Status& error) {
    Log(LogLevel::kError, "a named tensor is not as it should be on disk",
        {{log_field::kError, std::string(error.message())}});
  };
  absl::StatusOr<std::unique_ptr<NamedTensors>> tensors =
      NamedTensors::Open(std::move(options));
  if (tensors.ok()) return tensors;
  return InvalidField(
      {.field = absl::StrCat("--state-dir ", config.tensors.state_dir),
       .problem = std::string(tensors.status().message())},
      tensors.status().code());
}

// Null where nobody can call by name.
absl::StatusOr<std::unique_ptr<IdentityFile>> OpenIdentities(
    const ServerConfig& config) {
  if (config.tokens_path.empty()) return std::unique_ptr<IdentityFile>();
  absl::StatusOr<std::unique_ptr<IdentityFile>> identities = IdentityFile::Open(
      {.path = config.tokens_path, .on_change = [](const absl::Status& read) {
         if (read.ok())
           return Log(LogLevel::kInfo, "the tokens were read again");
         Log(LogLevel::kError, "the tokens from before stay good",
             {{log_field::kError, std::string(read.message())}});
       }});
  if (identities.ok()) return identities;
  return InvalidField({.field = "--tokens",
                       .problem = std::string(identities.status().message())},
                      identities.status().code());
}

absl::Status SurveyModels(CheckpointLoader& loader, ServerConfig& config) {
  int64_t bytes = 0;
  for (const ModelSource& source : config.models) {
    ASSIGN_OR_RETURN(const int64_t of_model, loader.Survey(source));
    bytes += of_model;
  }
  return DecideModelMemory(bytes, config);
}

absl::StatusOr<std::unique_ptr<Scheduler>> StartScheduler(
    const ServerConfig& config, const Clock& clock, Metrics& metrics) {
  SchedulerOptions options = config.schedule;
  options.metrics = &metrics;
  options.clock = &clock;
  options.decide_memory = [&config] { return DecideEngineMemory(config); };
  return Scheduler::Start(options, [&config]() -> absl::StatusOr<ExecutorMap> {
    ReadyComputeThread(config.threads);
    return ExecutorMap();
  });
}

// What the models use in place.
int64_t MappedBytes(const ServerConfig& config, const ServedModels& models) {
  int64_t bytes = 0;
  if (config.weights != WeightStorage::kMap) return bytes;
  for (const std::shared_ptr<const ServedModel>& model : models.all()) {
    if (!model->packed) bytes += model->weight_bytes;
  }
  return bytes;
}

ModelKeeperOptions KeeperOptions(const ServerConfig& config,
                                 CheckpointLoader& loader, Scheduler& scheduler,
                                 ServedModels& models) {
  return {
      .models = &models,
      .scheduler = &scheduler,
      .load =
          [&](const ModelSource& source, LoadSteps& steps) {
            return loader.Load(source, steps, [&](std::function<void()> task) {
              return scheduler.RunBetweenSteps(std::move(task));
            });
          },
      .model_folder = config.model_folder,
      .max_weight_bytes = config.max_model_bytes,
      .free_bytes = [&] { return FreeForModels(MappedBytes(config, models)); }};
}

}  // namespace

absl::StatusOr<Engine> StartEngine(const Clock& clock, ServerConfig& config) {
  DecideTensorMemory(config);
  Engine engine;
  ASSIGN_OR_RETURN(engine.tensors, OpenTensors(config, clock));
  ASSIGN_OR_RETURN(engine.identities, OpenIdentities(config));
  engine.loader = std::make_unique<CheckpointLoader>(config);
  RETURN_IF_ERROR(SurveyModels(*engine.loader, config));
  ASSIGN_OR_RETURN(engine.scheduler,
                   StartScheduler(config, clock, *engine.metrics));
  config.limits.plan.max_wave_bytes =
      engine.scheduler->memory().max_workspace_bytes;
  engine.models = std::make_unique<ServedModels>(&clock);
  engine.keeper = std::make_unique<ModelKeeper>(
      KeeperOptions(config, *engine.loader, *engine.scheduler, *engine.models));
  return engine;
}

}  // namespace phitap
