#include "server/observe/metric_table.h"

#include <array>

namespace phitap {
namespace {

// From a trace of a few tokens to an hour.
constexpr double kSecondsBuckets[] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25,   0.5,     1,      2.5,   5,      10,    30,   60,    300,  1800};
constexpr double kTokensBuckets[] = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

constexpr auto kCounter = MetricKind::kCounter;
constexpr auto kGauge = MetricKind::kGauge;
constexpr auto kHistogram = MetricKind::kHistogram;

constexpr std::array<MetricDeclaration, kMetricCount> kTable = {{
    {Metric::kCalls, "phitap_calls_total", kCounter, "calls", "method, code",
     "Calls that have ended, by method and gRPC code"},
    {Metric::kRefusals, "phitap_refusals_total", kCounter, "requests",
     "reason, caller",
     "Traces that were not taken on, by reason and class of caller "
     "(anonymous, named)"},

    {Metric::kTraces, "phitap_traces_total", kCounter, "requests",
     "model, caller, outcome",
     "Traces that were taken on and have ended: finished, failed, cancelled "
     "(by the caller), expired (its deadline)"},
    {Metric::kRuns, "phitap_runs_total", kCounter, "runs", "model, caller",
     "Runs of traces that have finished"},
    {Metric::kFailedRuns, "phitap_failed_runs_total", kCounter, "runs",
     "model, caller", "Of these, runs that ended with an error of their own"},
    {Metric::kTokens, "phitap_tokens_total", kCounter, "tokens",
     "model, caller, kind",
     "Tokens of traces that have ended: of prompts, and generated"},
    {Metric::kTokenLayersComputed, "phitap_token_layers_computed_total",
     kCounter, "token-layers", "model, caller",
     "Layers times tokens that were computed for traces that have finished"},
    {Metric::kTokenLayersSaved, "phitap_token_layers_saved_total", kCounter,
     "token-layers", "model, caller",
     "Layers times tokens that sharing and early stops have saved"},
    {Metric::kSentBytes, "phitap_sent_bytes_total", kCounter, "bytes",
     "model, caller", "Bytes of tensors sent, counted as their traces end"},
    {Metric::kStageSeconds, "phitap_trace_stage_seconds", kHistogram, "seconds",
     "model, stage",
     "Time that finished traces took: plan (with decoding and tokenizing), "
     "queue, compute (steps of waves alone), delivery (from the last value to "
     "the end of the call), whole",
     kSecondsBuckets},

    {Metric::kQueueWaitSeconds, "phitap_queue_wait_seconds", kHistogram,
     "seconds", "model",
     "Time from when a trace was taken on to its first wave, counted as that "
     "begins",
     kSecondsBuckets},
    {Metric::kWaveTokens, "phitap_wave_tokens", kHistogram, "tokens",
     "model, phase",
     "Tokens of waves that have begun, by phase (prompt, token, gradient)",
     kTokensBuckets},
    {Metric::kWaveSteps, "phitap_wave_steps_total", kCounter, "steps", "model",
     "Steps of waves: a layer, or a gradient's whole pass"},
    {Metric::kWavesSetAside, "phitap_waves_set_aside_total", kCounter, "waves",
     "model", "Times that a wave was set aside for a smaller one"},
    {Metric::kComputeSeconds, "phitap_compute_seconds_total", kCounter,
     "seconds", "model",
     "Time that the compute thread has spent on waves; its rate is how busy it "
     "is"},

    {Metric::kQueuedRequests, "phitap_queued_requests", kGauge, "requests", "",
     "Traces that wait"},
    {Metric::kRunningRequests, "phitap_running_requests", kGauge, "requests",
     "", "Traces in waves under way"},
    {Metric::kWavesUnderWay, "phitap_waves_under_way", kGauge, "waves", "",
     "Waves that have begun and not ended; all but one are set aside"},
    {Metric::kWaveTokensUnderWay, "phitap_wave_tokens_under_way", kGauge,
     "tokens", "", "Tokens in the waves under way"},
    {Metric::kMemoryBytes, "phitap_memory_bytes", kGauge, "bytes", "kind",
     "Memory in use: undelivered (answers and what is held for them), "
     "workspace, roots, tensors, weights, resident (the whole process)"},
    {Metric::kMemoryLimitBytes, "phitap_memory_limit_bytes", kGauge, "bytes",
     "kind", "Bound of each kind of memory that has one"},
    {Metric::kModelState, "phitap_model_state", kGauge, "1", "model, state",
     "1 for the state that the model is in (available, loading, ready, "
     "unloading, failed), 0 for the others"},
    {Metric::kReady, "phitap_ready", kGauge, "1", "",
     "1 while health checks say SERVING, 0 once the server stops"},
    {Metric::kBuild, "phitap_build_info", kGauge, "1",
     "version, libtorch, grpc, commit", "1, with what runs as its labels"},
    {Metric::kProcessStartTime, "process_start_time_seconds", kGauge, "seconds",
     "", "When the process began, since 1970"},
    {Metric::kProcessCpuSeconds, "process_cpu_seconds_total", kCounter,
     "seconds", "", "Processor time that the process has used"},
    {Metric::kProcessResidentBytes, "process_resident_memory_bytes", kGauge,
     "bytes", "", "Memory of the process that is resident"},
    {Metric::kProcessOpenFiles, "process_open_fds", kGauge, "files", "",
     "Open file descriptors"},
    {Metric::kProcessMaxFiles, "process_max_fds", kGauge, "files", "",
     "File descriptors that may be open"},
}};

constexpr bool InOrder() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<size_t>(kTable[i].metric) != i) return false;
  }
  return true;
}
static_assert(InOrder(), "a row for each Metric, in the order of the enum");

}  // namespace

absl::Span<const MetricDeclaration> AllMetrics() { return kTable; }

const MetricDeclaration& DeclarationOf(Metric metric) {
  return kTable[static_cast<size_t>(metric)];
}

}  // namespace phitap
