#include "server/schedule/wave_metrics.h"

namespace phitap {
namespace {

constexpr std::array<absl::string_view, kPassPhaseCount> kPhaseNames = {
    "prompt", "token", "gradient"};

}  // namespace

WaveMetrics::WaveMetrics(Metrics& metrics, const std::string& model)
    : waits_(metrics.HistogramOf(Metric::kQueueWaitSeconds, {model})),
      seconds_(metrics.CounterOf(Metric::kComputeSeconds, {model})),
      steps_(metrics.CounterOf(Metric::kWaveSteps, {model})),
      set_aside_(metrics.CounterOf(Metric::kWavesSetAside, {model})) {
  for (int phase = 0; phase < kPassPhaseCount; ++phase) {
    tokens_[phase] =
        &metrics.HistogramOf(Metric::kWaveTokens, {model, kPhaseNames[phase]});
  }
}

void WaveMetrics::CountWave(PassPhase phase, int64_t tokens) {
  tokens_[static_cast<int>(phase)]->Observe(static_cast<double>(tokens));
}

void WaveMetrics::CountWait(absl::Duration waited) {
  waits_.Observe(absl::ToDoubleSeconds(waited));
}

void WaveMetrics::CountTime(absl::Duration taken) {
  seconds_.Increment(absl::ToDoubleSeconds(taken));
}

WaveMetrics& EngineMetrics::Of(const std::string& model) {
  const auto found = models_.find(model);
  if (found != models_.end()) return found->second;
  return models_.try_emplace(model, metrics_, model).first->second;
}

}  // namespace phitap
