// A real gRPC server on a free port whose waves a test runs by hand.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_PUPPET_SERVER_H_
#define PHITAP_TESTS_SUPPORT_PUPPET_SERVER_H_

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "phitap/v1/activation_service.grpc.pb.h"
#include "server/models/model_keeper.h"
#include "server/observe/metrics.h"
#include "server/rpc/activation_service.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/authenticator.h"
#include "server/rpc/rpc_server.h"
#include "tests/support/manual_clock.h"
#include "tests/support/puppet_executor.h"

namespace phitap {

// Numbers only: nothing stands behind them.
inline ModelSpec PuppetSpec() {
  return {.architecture = "Phi3ForCausalLM",
          .num_layers = 2,
          .hidden_size = 1024,
          .num_heads = 2,
          .num_kv_heads = 1,
          .head_dim = 512,
          .rotary_dims = 512,
          .intermediate_size = 16,
          .vocab_size = 32,
          .max_positions = 100000,
          .hidden_act = "silu",
          .dtype = DType::kF32};
}

inline ServedModel PuppetModel() {
  return {.name = "tiny",
          .spec = PuppetSpec(),
          .compute_dtype = DType::kF32,
          .weights_digest = "feed",
          .batch_invariant = true,
          .row_rule = "multiples of 16 rows",
          .numerics_fingerprint = "puppet"};
}

struct PuppetServerOptions {
  SchedulerOptions schedule;
  ServiceLimits limits;
  RpcServerOptions rpc = {.listen = "127.0.0.1:0"};
  int max_waiting_calls = 100;
  std::string model_folder;
  // Asked when a further puppet is loaded; null: at once.
  std::function<absl::Status(LoadSteps&)> load;
  // Of each model; null makes puppets of stage().
  std::function<std::unique_ptr<Executor>()> make_executor;
  // Of the tensors that are kept.
  int64_t max_tensor_bytes = 1 << 20;
  // Of callers that do not say who they are.
  std::set<Role> anonymous_roles = {Role::kTrace, Role::kTensors};
  // Of those who call by name; empty for nobody. Read again by identities().
  std::string tokens_path;
};

// Streams are checked only by watch().CheckAll(). The destructor lets waves run
// freely.
class PuppetServer {
 public:
  explicit PuppetServer(PuppetServerOptions options = {})
      : make_executor_(options.make_executor),
        tensors_(*NamedTensors::Open(
            {.max_bytes = options.max_tensor_bytes, .clock = &clock_})),
        identities_(OpenIdentities(options.tokens_path)),
        authenticator_({.roles = options.anonymous_roles}, identities_.get()),
        planning_({.max_waiting = options.max_waiting_calls}) {
    options.schedule.clock = &clock_;
    options.schedule.metrics = &metrics_;
    scheduler_ = *Scheduler::Start(options.schedule, [] {
      return absl::StatusOr<ExecutorMap>(ExecutorMap());
    });
    keeper_ = std::make_unique<ModelKeeper>(ModelKeeperOptions{
        .models = &models_,
        .scheduler = scheduler_.get(),
        .load =
            [this](const ModelSource& source, LoadSteps& steps) {
              return LoadPuppet(
                  source, load_ == nullptr ? absl::OkStatus() : load_(steps));
            },
        .model_folder = options.model_folder});
    if (!keeper_->LoadConfigured({.name = "tiny"}).ok()) {
      throw std::runtime_error("the puppet was not loaded");
    }
    load_ = options.load;
    const ServiceParts parts = {.models = &models_,
                                .keeper = keeper_.get(),
                                .ask_to_stop = [this] { ++asked_to_stop_; },
                                .scheduler = scheduler_.get(),
                                .tensors = tensors_.get(),
                                .authenticator = &authenticator_,
                                .quotas = &quotas_,
                                .planning = &planning_,
                                .administration = &administration_,
                                .delivery = &delivery_,
                                .watch = &watch_,
                                .metrics = &service_metrics_,
                                .clock = &clock_,
                                .limits = options.limits,
                                .version = "puppet",
                                .started_at = clock_.Now()};
    service_ = std::make_unique<ActivationService>(parts);
    admin_ = std::make_unique<AdminService>(parts);
    absl::StatusOr<std::unique_ptr<RpcServer>> rpc =
        RpcServer::Start(options.rpc, {service_.get(), admin_.get()});
    if (!rpc.ok()) throw std::runtime_error(rpc.status().ToString());
    rpc_ = *std::move(rpc);
    rpc_->TellServing();
    channel_ = grpc::CreateChannel(rpc_->address(),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::ActivationService::NewStub(channel_);
    admin_stub_ = v1::AdminService::NewStub(channel_);
    models_.Observe(
        [this](const ModelState& state) { rpc_->TellOfModel(state); });
  }
  ~PuppetServer() {
    stage_.RunFreely();
    // What was posted for a call may last longer than the call.
    rpc_->Stop(absl::ZeroDuration());
    administration_.Finish();
    planning_.Finish();
    delivery_.Finish();
  }

  ManualClock& clock() { return clock_; }
  WaveStage& stage() { return stage_; }
  Scheduler& scheduler() { return *scheduler_; }
  const NamedTensors& all_tensors() const { return *tensors_; }
  // Those of callers that do not say who they are.
  OwnedTensors tensors() { return tensors_->Of({}); }
  const Metrics& metrics() const { return metrics_; }
  StreamWatch& watch() { return watch_; }
  IdentityFile& identities() { return *identities_; }
  RpcServer& rpc() { return *rpc_; }
  v1::ActivationService::Stub& stub() { return *stub_; }
  v1::AdminService::Stub& admin() { return *admin_stub_; }
  ServedModels& models() { return models_; }
  ModelKeeper& keeper() { return *keeper_; }
  int asked_to_stop() const { return asked_to_stop_; }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }

 private:
  static std::unique_ptr<IdentityFile> OpenIdentities(const std::string& path) {
    if (path.empty()) return nullptr;
    absl::StatusOr<std::unique_ptr<IdentityFile>> identities =
        IdentityFile::Open({.path = path, .period = absl::InfiniteDuration()});
    if (!identities.ok()) {
      throw std::runtime_error(identities.status().ToString());
    }
    return *std::move(identities);
  }

  absl::StatusOr<LoadedCheckpoint> LoadPuppet(const ModelSource& source,
                                              const absl::Status& status) {
    if (!status.ok()) return status;
    LoadedCheckpoint loaded = {
        .model = PuppetModel(),
        .executor = make_executor_ == nullptr
                        ? std::make_unique<PuppetExecutor>(&stage_)
                        : make_executor_()};
    loaded.model.name = source.name;
    return loaded;
  }

  ManualClock clock_;
  Metrics metrics_;
  ServiceMetrics service_metrics_{metrics_};
  WaveStage stage_;
  std::atomic<int> asked_to_stop_ = 0;
  std::function<absl::Status(LoadSteps&)> load_;
  std::function<std::unique_ptr<Executor>()> make_executor_;
  ServedModels models_{&clock_};
  std::unique_ptr<NamedTensors> tensors_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ModelKeeper> keeper_;
  std::unique_ptr<IdentityFile> identities_;
  Authenticator authenticator_;
  QuotaBook quotas_{&clock_};
  WorkerPool planning_;
  WorkerPool administration_{{}};
  WorkerPool delivery_{{}};
  StreamWatch watch_{{.clock = &clock_, .period = absl::InfiniteDuration()}};
  std::unique_ptr<ActivationService> service_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<RpcServer> rpc_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::ActivationService::Stub> stub_;
  std::unique_ptr<v1::AdminService::Stub> admin_stub_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_PUPPET_SERVER_H_
