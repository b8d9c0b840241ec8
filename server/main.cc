// phitapd: reads its configuration, loads the models, serves, drains.
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/clock.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/build_facts.h"
#include "server/config.h"
#include "server/decide_memory.h"
#include "server/identity/identity_file.h"
#include "server/load_models.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"
#include "server/observe/metrics_listener.h"
#include "server/rpc/activation_service.h"
#include "server/rpc/live_samples.h"
#include "server/rpc/rpc_server.h"
#include "server/rpc/service_metrics.h"
#include "server/rpc/stream_watch.h"
#include "server/rpc/worker_pool.h"
#include "server/schedule/scheduler.h"
#include "server/stop_signal.h"
#include "server/tensors/named_tensors.h"
#include "server/thread_spin.h"

namespace phitap {
namespace {

// Calls may end a moment after their last byte.
constexpr absl::Duration kLastCalls = absl::Seconds(5);

struct Engine {
  std::unique_ptr<Scheduler> scheduler;
  ServedModels models;
};

absl::StatusOr<Engine> StartEngine(const ServerConfig& config,
                                   const Clock& clock, Metrics& metrics) {
  std::vector<ServedModel> served;
  SchedulerOptions options = config.schedule;
  options.clock = &clock;
  options.metrics = &metrics;
  options.decide_memory = [&] { return DecideEngineMemory(config, served); };
  ASSIGN_OR_RETURN(
      std::unique_ptr<Scheduler> scheduler,
      Scheduler::Start(options, [&]() -> absl::StatusOr<ExecutorMap> {
        ASSIGN_OR_RETURN(LoadedModels loaded, LoadModels(config));
        served = std::move(loaded.served);
        return std::move(loaded.executors);
      }));
  return Engine{.scheduler = std::move(scheduler),
                .models = ServedModels(std::move(served))};
}

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

// Null where metrics are not exposed. `ready` and what `parts` name outlive the
// listener.
absl::StatusOr<std::unique_ptr<MetricsListener>> ListenForScrapes(
    const ServerConfig& config, const Metrics& metrics, const LiveParts& parts,
    const std::atomic<bool>& ready) {
  if (config.metrics_listen.empty()) return nullptr;
  if (ReachableFromElsewhere(config.metrics_listen)) {
    Log(LogLevel::kWarning, "other machines can read the metrics",
        {{log_field::kMetricsAddress, config.metrics_listen}});
  }
  const auto read = [&ready, parts, build = BuildSample(ThisBuild())] {
    std::vector<MetricSample> samples = ReadLiveSamples(parts);
    samples.push_back(build);
    samples.push_back({.metric = Metric::kReady, .value = ready ? 1.0 : 0.0});
    return samples;
  };
  return MetricsListener::Start(
      {.listen = config.metrics_listen, .metrics = &metrics, .samples = read});
}

absl::Status Announce(const ServerConfig& config, const std::string& address,
                      const MetricsListener* metrics) {
  if (ReachableFromElsewhere(config.rpc.listen) && !config.rpc.tls.enabled()) {
    Log(LogLevel::kWarning, "other machines can connect, without encryption",
        {{log_field::kAddress, address}});
  }
  if (!config.address_file.empty() &&
      !(std::ofstream(config.address_file) << address << std::endl)) {
    return InvalidField(
        {.field = "--address-file",
         .problem = absl::StrCat("cannot write to ", config.address_file)});
  }
  Log(LogLevel::kInfo, "ready",
      {{log_field::kAddress, address},
       {log_field::kThreads, int64_t{config.threads}},
       {log_field::kVersion, PHITAP_VERSION},
       {log_field::kMetricsAddress,
        metrics == nullptr ? "" : metrics->address()}});
  return absl::OkStatus();
}

// Finishes what was accepted.
void Drain(const std::string& signal, Scheduler& scheduler, StreamWatch& watch,
           RpcServer& server) {
  server.TellNotServing();
  scheduler.StopAccepting();
  Log(LogLevel::kInfo, "stopping: finishing what was accepted",
      {{log_field::kSignal, signal}});
  watch.AwaitNone();
  server.Stop(kLastCalls);
  Log(LogLevel::kInfo, "stopped");
}

absl::Status Serve(ServerConfig config, StopSignal& stop_signal) {
  DecideTensorMemory(config);
  SystemClock clock;
  Metrics metrics;
  // First, and destroyed last: what was accepted may still be kept in it.
  ASSIGN_OR_RETURN(const std::unique_ptr<NamedTensors> tensors,
                   OpenTensors(config, clock));
  ASSIGN_OR_RETURN(Engine engine, StartEngine(config, clock, metrics));
  config.limits.plan.max_wave_bytes =
      engine.scheduler->memory().max_workspace_bytes;
  ASSIGN_OR_RETURN(const std::unique_ptr<IdentityFile> identities,
                   OpenIdentities(config));
  const Authenticator authenticator(Identity{.roles = *config.anonymous_roles},
                                    identities.get());
  QuotaBook quotas(&clock);
  WorkerPool planning({.thread_count = 2});
  WorkerPool delivery({.thread_count = 2});
  StreamWatch watch({.clock = &clock});
  ServiceMetrics service_metrics(metrics);
  ActivationService service({.models = &engine.models,
                             .scheduler = engine.scheduler.get(),
                             .tensors = tensors.get(),
                             .authenticator = &authenticator,
                             .quotas = &quotas,
                             .planning = &planning,
                             .delivery = &delivery,
                             .watch = &watch,
                             .metrics = &service_metrics,
                             .clock = &clock,
                             .limits = config.limits});
  ASSIGN_OR_RETURN(std::unique_ptr<RpcServer> server,
                   RpcServer::Start(config.rpc, service));
  std::atomic<bool> ready = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<MetricsListener> metrics_listener,
                   ListenForScrapes(config, metrics,
                                    {.scheduler = engine.scheduler.get(),
                                     .tensors = tensors.get(),
                                     .models = &engine.models},
                                    ready));
  RETURN_IF_ERROR(Announce(config, server->address(), metrics_listener.get()));

  const std::string signal = stop_signal.Await();
  ready = false;
  Drain(signal, *engine.scheduler, watch, *server);
  return absl::OkStatus();
}

int Main(int argc, const char* const* argv) {
  const ConfigOutcome outcome = ReadServerConfig(argc, argv);
  if (!outcome.config.has_value()) {
    (outcome.exit_code == 0 ? std::cout : std::cerr)
        << outcome.text << std::endl;
    return outcome.exit_code;
  }
  SetUpLog(outcome.config->log);
  StopSignal stop_signal;
  const absl::Status status = Serve(*outcome.config, stop_signal);
  if (status.ok()) return 0;
  Log(LogLevel::kError, "cannot serve",
      {{log_field::kError, std::string(status.message())}});
  return 1;
}

}  // namespace
}  // namespace phitap

int main(int argc, char** argv) {
  phitap::LimitThreadSpin(argv);
  return phitap::Main(argc, argv);
}
