#include "server/rpc/live_samples.h"

#include <string>

#include "absl/strings/string_view.h"
#include "server/observe/process_stat.h"
#include "server/rpc/memory_use.h"

namespace phitap {
namespace {

constexpr absl::string_view kStates[] = {"available", "loading", "ready",
                                         "unloading", "failed"};

void AddEngine(const EngineActivity& activity,
               std::vector<MetricSample>& samples) {
  const auto add = [&](Metric metric, int64_t value) {
    samples.push_back({.metric = metric, .value = static_cast<double>(value)});
  };
  add(Metric::kQueuedRequests, activity.queued_requests());
  add(Metric::kRunningRequests, activity.running_requests());
  add(Metric::kWavesUnderWay, activity.waves.count);
  add(Metric::kWaveTokensUnderWay, activity.waves.tokens);
}

void AddMemory(const LiveParts& parts, std::vector<MetricSample>& samples) {
  for (const MemoryUse& use :
       ReadMemoryUse(*parts.scheduler, *parts.tensors, *parts.models)) {
    samples.push_back({.metric = Metric::kMemoryBytes,
                       .label_values = {std::string(use.kind)},
                       .value = static_cast<double>(use.used_bytes)});
    if (use.limit_bytes == 0) continue;
    samples.push_back({.metric = Metric::kMemoryLimitBytes,
                       .label_values = {std::string(use.kind)},
                       .value = static_cast<double>(use.limit_bytes)});
  }
}

void AddModels(const ServedModels& models, std::vector<MetricSample>& samples) {
  for (const ModelState& model : models.states()) {
    for (absl::string_view state : kStates) {
      samples.push_back({.metric = Metric::kModelState,
                         .label_values = {model.name, std::string(state)},
                         .value = state == Name(model.status) ? 1.0 : 0.0});
    }
  }
}

void AddProcess(std::vector<MetricSample>& samples) {
  const ProcessStat stat = ReadProcessStat();
  samples.insert(
      samples.end(),
      {{.metric = Metric::kProcessStartTime,
        .value = absl::ToDoubleSeconds(stat.started_at - absl::UnixEpoch())},
       {.metric = Metric::kProcessCpuSeconds,
        .value = absl::ToDoubleSeconds(stat.cpu_time)},
       {.metric = Metric::kProcessResidentBytes,
        .value = static_cast<double>(stat.resident_bytes)},
       {.metric = Metric::kProcessOpenFiles,
        .value = static_cast<double>(stat.open_files)},
       {.metric = Metric::kProcessMaxFiles,
        .value = static_cast<double>(stat.max_files)}});
}

}  // namespace

std::vector<MetricSample> ReadLiveSamples(const LiveParts& parts) {
  std::vector<MetricSample> samples;
  AddEngine(parts.scheduler->activity(), samples);
  AddMemory(parts, samples);
  AddModels(*parts.models, samples);
  AddProcess(samples);
  return samples;
}

}  // namespace phitap
