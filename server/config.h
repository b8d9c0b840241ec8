// What the command line and the configuration file say.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CONFIG_H_
#define PHITAP_SERVER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/dtype.h"
#include "server/checkpoint/file_bytes.h"
#include "server/identity/identity.h"
#include "server/model/weight_packing.h"
#include "server/models/model_source.h"
#include "server/observe/log.h"
#include "server/rpc/rpc_server.h"
#include "server/rpc/service_parts.h"
#include "server/schedule/scheduler.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

// How the server stops.
struct StopTimes {
  // Requests are still accepted, while health checks say NOT_SERVING.
  absl::Duration grace;
  // Then what was accepted may go on.
  absl::Duration drain_timeout = absl::Hours(1);
};

struct ServerConfig {
  std::vector<ModelSource> models;
  // Below which administrators may load others; empty for none.
  std::string model_folder;
  // Of the weights of all models; 0 is decided by the memory that is there.
  int64_t max_model_bytes = 0;
  // None computes in the element type that the checkpoint is stored in.
  std::optional<DType> dtype;
  WeightStorage weights = WeightStorage::kMap;
  // None lets the memory that is there decide: see DecidePacking.
  std::optional<WeightPacking> packing;
  // Of the compute thread.
  int threads = 1;
  RpcServerOptions rpc;
  // Who may call by name: see IdentityTable::Parse. Empty for nobody.
  std::string tokens_path;
  // Of callers that do not say who they are. Set once the flags are read.
  std::optional<std::set<Role>> anonymous_roles;
  // Whether other machines may connect without encryption.
  bool insecure_listen = false;
  // Where the address is written once the models are ready; empty for nowhere.
  std::string address_file;
  StopTimes stop;
  LogOptions log;
  PromptLogging prompt_logging = PromptLogging::kOff;
  // Where metrics are exposed, HOST:PORT; empty for nowhere.
  std::string metrics_listen;
  ServiceLimits limits;
  // Their clocks are set by main, and what is 0 of their bytes.
  SchedulerOptions schedule;
  NamedTensorsOptions tensors;
};

// A configuration, or a text to print and the code to exit with: help, version,
// or an error that names the flag, its value and what would be valid.
struct ConfigOutcome {
  std::optional<ServerConfig> config;
  std::string text;
  int exit_code = 0;
};

ConfigOutcome ReadServerConfig(int argc, const char* const* argv);

// What --listen says to take the sockets that systemd has passed.
inline constexpr absl::string_view kListenOnPassedSockets = "systemd";

// Whether `listen` can be reached from other machines.
bool ReachableFromElsewhere(const std::string& listen);

}  // namespace phitap

#endif  // PHITAP_SERVER_CONFIG_H_
