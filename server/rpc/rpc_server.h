// The gRPC server: where it listens, its limits, health and reflection.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_RPC_SERVER_H_
#define PHITAP_SERVER_RPC_RPC_SERVER_H_

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/models/model_state.h"
#include "server/rpc/listener.h"
#include "server/rpc/passed_sockets.h"
#include "server/rpc/tls.h"

namespace phitap {

struct RpcServerOptions {
  // HOST:PORT (port 0 takes a free one) or unix:PATH.
  std::string listen = "127.0.0.1:7777";
  // Taken in place of `listen`, where there are some.
  std::vector<PassedSocket> sockets;
  // Longest request message.
  int max_request_bytes = 64 << 20;
  // Calls of one connection at once.
  int max_calls_per_connection = 1024;
  // Headers of one call.
  int max_metadata_bytes = 16 << 10;
  TlsOptions tls;

  // Where it will listen.
  std::vector<std::string> addresses() const;
};

// Thread-safe.
class RpcServer {
 public:
  // Listens; what it tells health checks is NOT_SERVING until TellServing.
  // `services` outlive the server. INVALID_ARGUMENT against `--listen` if it
  // cannot, and the errors of ListeningCredentials.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const RpcServerOptions& options,
      const std::vector<grpc::Service*>& services);
  // Stops at once.
  ~RpcServer();

  // Where clients reach it, with the port that was taken.
  const std::string& address() const { return address_; }

  // Tells health checks that the server and its services are SERVING.
  void TellServing();
  // Tells them whether a model takes requests: it is the service
  // `phitap.v1.ActivationService/MODEL`.
  void TellOfModel(const ModelState& state);
  // Tells them that nothing is SERVING any more, whatever is told later.
  void TellNotServing();
  // Stops listening, lets calls end for at most `patience`, cancels the rest.
  void Stop(absl::Duration patience);

 private:
  void Tell(bool serving);

  RpcServer(std::unique_ptr<grpc::Server> server,
            std::unique_ptr<Listener> listener);

  std::unique_ptr<grpc::Server> server_;
  const std::string address_;
  // Null once it is stopped.
  std::unique_ptr<Listener> listener_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_RPC_SERVER_H_
