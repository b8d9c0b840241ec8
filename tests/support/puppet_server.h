// A real gRPC server on a free port whose waves a test runs by hand.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_PUPPET_SERVER_H_
#define PHITAP_TESTS_SUPPORT_PUPPET_SERVER_H_

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "phitap/v1/activation_service.grpc.pb.h"
#include "server/observe/metrics.h"
#include "server/rpc/activation_service.h"
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

inline std::vector<ServedModel> PuppetModels() {
  return {{.name = "tiny",
           .spec = PuppetSpec(),
           .compute_dtype = DType::kF32,
           .weights_digest = "feed",
           .batch_invariant = true,
           .row_rule = "multiples of 16 rows",
           .numerics_fingerprint = "puppet"}};
}

struct PuppetServerOptions {
  SchedulerOptions schedule;
  ServiceLimits limits;
  RpcServerOptions rpc = {.listen = "127.0.0.1:0"};
  int max_waiting_calls = 100;
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
      : tensors_(*NamedTensors::Open(
            {.max_bytes = options.max_tensor_bytes, .clock = &clock_})),
        identities_(OpenIdentities(options.tokens_path)),
        authenticator_({.roles = options.anonymous_roles}, identities_.get()),
        planning_({.max_waiting = options.max_waiting_calls}) {
    options.schedule.clock = &clock_;
    options.schedule.metrics = &metrics_;
    scheduler_ = *Scheduler::Start(options.schedule, [this] {
      ExecutorMap executors;
      executors["tiny"] = std::make_unique<PuppetExecutor>(&stage_);
      return absl::StatusOr<ExecutorMap>(std::move(executors));
    });
    service_ = std::make_unique<ActivationService>(
        ServiceParts{.models = &models_,
                     .scheduler = scheduler_.get(),
                     .tensors = tensors_.get(),
                     .authenticator = &authenticator_,
                     .quotas = &quotas_,
                     .planning = &planning_,
                     .delivery = &delivery_,
                     .watch = &watch_,
                     .metrics = &service_metrics_,
                     .clock = &clock_,
                     .limits = options.limits});
    absl::StatusOr<std::unique_ptr<RpcServer>> rpc =
        RpcServer::Start(options.rpc, *service_);
    if (!rpc.ok()) throw std::runtime_error(rpc.status().ToString());
    rpc_ = *std::move(rpc);
    channel_ = grpc::CreateChannel(rpc_->address(),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::ActivationService::NewStub(channel_);
  }
  ~PuppetServer() { stage_.RunFreely(); }

  ManualClock& clock() { return clock_; }
  WaveStage& stage() { return stage_; }
  Scheduler& scheduler() { return *scheduler_; }
  // Those of callers that do not say who they are.
  OwnedTensors tensors() { return tensors_->Of({}); }
  const Metrics& metrics() const { return metrics_; }
  StreamWatch& watch() { return watch_; }
  IdentityFile& identities() { return *identities_; }
  RpcServer& rpc() { return *rpc_; }
  v1::ActivationService::Stub& stub() { return *stub_; }
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

  ManualClock clock_;
  Metrics metrics_;
  ServiceMetrics service_metrics_{metrics_};
  WaveStage stage_;
  ServedModels models_{PuppetModels()};
  std::unique_ptr<NamedTensors> tensors_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<IdentityFile> identities_;
  Authenticator authenticator_;
  QuotaBook quotas_{&clock_};
  WorkerPool planning_;
  WorkerPool delivery_{{}};
  StreamWatch watch_{{.clock = &clock_, .period = absl::InfiniteDuration()}};
  std::unique_ptr<ActivationService> service_;
  std::unique_ptr<RpcServer> rpc_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::ActivationService::Stub> stub_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_PUPPET_SERVER_H_
