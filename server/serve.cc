#include "server/serve.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/clock.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/build_facts.h"
#include "server/checkpoint_loader.h"
#include "server/engine.h"
#include "server/identity/quota_book.h"
#include "server/models/model_keeper.h"
#include "server/models/served_models.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"
#include "server/observe/metrics_listener.h"
#include "server/readiness.h"
#include "server/rpc/activation_service.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/authenticator.h"
#include "server/rpc/live_samples.h"
#include "server/rpc/rpc_server.h"
#include "server/rpc/service_metrics.h"
#include "server/rpc/stream_watch.h"
#include "server/rpc/worker_pool.h"
#include "server/schedule/scheduler.h"
#include "server/systemd_notice.h"

namespace phitap {
namespace {

constexpr char kStartFailed[] = "the start failed";
// Calls may end a moment after their last byte.
constexpr absl::Duration kLastCalls = absl::Seconds(5);

// Null where metrics are not exposed. `readiness` and what `parts` name outlive
// the listener.
absl::StatusOr<std::unique_ptr<MetricsListener>> ListenForScrapes(
    const ServerConfig& config, const Metrics& metrics, const LiveParts& parts,
    const Readiness& readiness) {
  if (config.metrics_listen.empty()) return nullptr;
  if (ReachableFromElsewhere(config.metrics_listen)) {
    Log(LogLevel::kWarning, "other machines can read the metrics",
        {{log_field::kMetricsAddress, config.metrics_listen}});
  }
  const auto read = [&readiness, parts, build = BuildSample(ThisBuild())] {
    std::vector<MetricSample> samples = ReadLiveSamples(parts);
    samples.push_back(build);
    samples.push_back(
        {.metric = Metric::kReady, .value = readiness.ready() ? 1.0 : 0.0});
    return samples;
  };
  return MetricsListener::Start(
      {.listen = config.metrics_listen, .metrics = &metrics, .samples = read});
}

absl::Status WriteAddress(const ServerConfig& config,
                          const std::string& address) {
  if (config.address_file.empty() || std::ofstream(config.address_file)
                                         << address << std::endl) {
    return absl::OkStatus();
  }
  return InvalidField(
      {.field = "--address-file",
       .problem = absl::StrCat("cannot write to ", config.address_file)});
}

void LogListening(const ServerConfig& config, const std::string& address) {
  const std::vector<std::string> places = config.rpc.addresses();
  if (std::any_of(places.begin(), places.end(), ReachableFromElsewhere) &&
      !config.rpc.tls.enabled()) {
    Log(LogLevel::kWarning, "other machines can connect, without encryption",
        {{log_field::kAddress, address}});
  }
  Log(LogLevel::kInfo, "listening", {{log_field::kAddress, address}});
  for (const PassedSocket& socket : config.rpc.sockets) {
    Log(LogLevel::kInfo, "a socket of systemd's",
        {{log_field::kAddress, socket.address}});
  }
}

// That nobody could be told is no reason to stop.
void Notify(absl::string_view state) {
  const absl::Status told = TellSystemd(state);
  if (told.ok()) return;
  Log(LogLevel::kWarning, "systemd could not be told",
      {{log_field::kError, std::string(told.message())}});
}

// What talks to callers. All that it is given outlives it.
class Front {
 public:
  Front(const ServerConfig& config, const Clock& clock, const Engine& engine,
        StopRequest& stop)
      : config_(config),
        engine_(engine),
        authenticator_(Identity{.roles = *config.anonymous_roles},
                       engine.identities.get()),
        quotas_(&clock),
        watch_({.clock = &clock}),
        metrics_(*engine.metrics),
        parts_({.models = engine.models.get(),
                .keeper = engine.keeper.get(),
                .ask_to_stop = [&stop] { stop.Ask("DrainServer"); },
                .scheduler = engine.scheduler.get(),
                .tensors = engine.tensors.get(),
                .authenticator = &authenticator_,
                .quotas = &quotas_,
                .planning = &planning_,
                .administration = &administration_,
                .delivery = &delivery_,
                .watch = &watch_,
                .metrics = &metrics_,
                .clock = &clock,
                .limits = config.limits,
                .prompt_logging = config.prompt_logging,
                .version = PHITAP_VERSION,
                .started_at = clock.Now()}) {}
  // What was posted for a call may last longer than the call, and uses parts_.
  ~Front() {
    if (rpc_ != nullptr) rpc_->Stop(absl::ZeroDuration());
    administration_.Finish();
    planning_.Finish();
    delivery_.Finish();
  }

  absl::Status Listen();
  // Once it listens: loads the configured models, then health checks say
  // SERVING.
  absl::Status BecomeReady();
  // Says NOT_SERVING, accepts for `grace` yet, finishes what was accepted.
  absl::Status Drain(const std::string& reason, absl::Duration grace);

 private:
  absl::Status TellReady();

  const ServerConfig& config_;
  const Engine& engine_;
  const Authenticator authenticator_;
  QuotaBook quotas_;
  WorkerPool planning_{{.thread_count = 2}};
  WorkerPool administration_{{.thread_count = 8, .max_waiting = 64}};
  WorkerPool delivery_{{.thread_count = 2}};
  StreamWatch watch_;
  ServiceMetrics metrics_;
  const ServiceParts parts_;
  ActivationService activation_{parts_};
  AdminService admin_{parts_};
  std::unique_ptr<RpcServer> rpc_;
  Readiness readiness_;
  // Null where metrics are not exposed.
  std::unique_ptr<MetricsListener> scrapes_;
};

absl::Status Front::Listen() {
  ASSIGN_OR_RETURN(rpc_,
                   RpcServer::Start(config_.rpc, {&activation_, &admin_}));
  LogListening(config_, rpc_->address());
  ASSIGN_OR_RETURN(scrapes_,
                   ListenForScrapes(config_, *engine_.metrics,
                                    {.scheduler = engine_.scheduler.get(),
                                     .tensors = engine_.tensors.get(),
                                     .models = engine_.models.get()},
                                    readiness_));
  engine_.models->Observe(
      [this](const ModelState& state) { rpc_->TellOfModel(state); });
  return absl::OkStatus();
}

absl::Status Front::BecomeReady() {
  for (const ModelSource& source : config_.models) {
    const absl::Status status = engine_.keeper->LoadConfigured(source);
    if (!status.ok()) return NamingFlag(source, status);
  }
  return readiness_.Begin([this] { return TellReady(); });
}

absl::Status Front::TellReady() {
  RETURN_IF_ERROR(WriteAddress(config_, rpc_->address()));
  rpc_->TellServing();
  Notify(kSystemdReady);
  Log(LogLevel::kInfo, "ready",
      {{log_field::kAddress, rpc_->address()},
       {log_field::kThreads, int64_t{config_.threads}},
       {log_field::kVersion, PHITAP_VERSION},
       {log_field::kMetricsAddress,
        scrapes_ == nullptr ? "" : scrapes_->address()}});
  return absl::OkStatus();
}

absl::Status Front::Drain(const std::string& reason, absl::Duration grace) {
  readiness_.End([this] {
    rpc_->TellNotServing();
    Notify(kSystemdStopping);
  });
  engine_.keeper->Stop();
  if (grace > absl::ZeroDuration()) {
    Log(LogLevel::kInfo, "about to stop: accepting for a while yet",
        {{log_field::kReason, reason},
         {log_field::kSeconds, absl::ToDoubleSeconds(grace)}});
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(grace));
  }
  engine_.scheduler->StopAccepting();
  watch_.Close();
  Log(LogLevel::kInfo, "stopping: finishing what was accepted",
      {{log_field::kReason, reason}});
  const int left = watch_.AwaitNone(config_.stop.drain_timeout);
  rpc_->Stop(left > 0 ? absl::ZeroDuration() : kLastCalls);
  if (left == 0) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("stopped with ", left,
                   " requests cancelled, which had not ended within "
                   "--drain-timeout ",
                   absl::FormatDuration(config_.stop.drain_timeout)));
}

}  // namespace

absl::Status Serve(ServerConfig config, StopRequest& stop) {
  SystemClock clock;
  ASSIGN_OR_RETURN(const Engine engine, StartEngine(clock, config));
  Front front(config, clock, engine, stop);
  RETURN_IF_ERROR(front.Listen());
  absl::Status started;
  std::thread loading([&] {
    started = front.BecomeReady();
    if (!started.ok()) stop.Ask(kStartFailed);
  });
  const std::string reason = stop.Await();
  const absl::Status drained =
      front.Drain(reason, reason == kStartFailed ? absl::ZeroDuration()
                                                 : config.stop.grace);
  loading.join();
  // Where it was only given up because of the stop, that is no failure.
  if (!absl::IsCancelled(started)) RETURN_IF_ERROR(started);
  RETURN_IF_ERROR(drained);
  Log(LogLevel::kInfo, "stopped");
  return absl::OkStatus();
}

}  // namespace phitap
