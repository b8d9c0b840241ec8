// Runs a phitap server: its models, its log, its end.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_ADMIN_H_
#define PHITAP_CLIENT_CPP_ADMIN_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/call.h"
#include "grpcpp/channel.h"
#include "phitap/v1/admin_service.grpc.pb.h"

namespace phitap::client {

// Is told how far a model is, on the thread that called.
using ModelStateCallback = std::function<void(const v1::ModelState&)>;
// The same for what the server is doing; returns whether it wants more.
using ActivityCallback = std::function<bool(const v1::WatchActivityResponse&)>;

// Every call needs the role `admin`, and returns the server's status where it
// refuses. Thread-safe; copies share the connection. Made by Client::admin.
class Admin {
 public:
  explicit Admin(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::AdminService::NewStub(channel)) {}

  // Every model that the server knows of, loaded or not.
  absl::StatusOr<std::vector<v1::ModelState>> ListModelStates(
      const CallOptions& options = {}) const;
  // `path` is below the server's model folder; empty for the folder of that
  // name. Blocks until the model is ready. A call that is cancelled does not
  // stop the loading.
  absl::Status LoadModel(absl::string_view name, absl::string_view path,
                         const ModelStateCallback& on_state = nullptr,
                         const CallOptions& options = {}) const;
  // Blocks until the traces that the model has accepted have ended.
  absl::Status UnloadModel(absl::string_view name,
                           const CallOptions& options = {}) const;
  // Blocks until the new one is ready and the traces of the old one have ended.
  absl::Status ReloadModel(absl::string_view name,
                           const ModelStateCallback& on_state = nullptr,
                           const CallOptions& options = {}) const;
  // Now and then once every `interval`, from 100 ms to 1 hour. Blocks until
  // `on_activity` wants no more, the call is cancelled, or the server stops.
  absl::Status WatchActivity(absl::Duration interval,
                             const ActivityCallback& on_activity,
                             const CallOptions& options = {}) const;
  absl::Status SetLogLevel(v1::LogVerbosity level,
                           const CallOptions& options = {}) const;
  // Returns once the server has begun to stop.
  absl::Status DrainServer(const CallOptions& options = {}) const;

 private:
  std::shared_ptr<v1::AdminService::Stub> stub_;
};

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_ADMIN_H_
