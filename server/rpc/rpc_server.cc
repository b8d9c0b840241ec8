#include "server/rpc/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "phitap/v1/activation_service.grpc.pb.h"
#include "phitap/v1/admin_service.grpc.pb.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// Clients may ping this often, also between calls.
constexpr int kMinPingIntervalMs = 10'000;
constexpr int kMaxPingStrikes = 2;

// Health and reflection are plugins of the process, not of a server.
void RegisterPlugins() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

void SetLimits(const RpcServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_request_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             options.max_calls_per_connection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             options.max_metadata_bytes);
  // Finds clients that are gone without a word.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      kMinPingIntervalMs);
  // Who pings more often loses the connection.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kMaxPingStrikes);
}

absl::StatusOr<std::unique_ptr<Listener>> OpenListener(
    const RpcServerOptions& options) {
  absl::StatusOr<std::unique_ptr<Listener>> listener =
      options.sockets.empty() ? Listener::Open(options.listen)
                              : Listener::Adopt(options.sockets);
  if (listener.ok()) return listener;
  return InvalidField(
      {.field = "--listen",
       .problem = absl::StrCat("cannot listen on ", options.listen, " (",
                               listener.status().message(), ")"),
       .valid = "HOST:PORT (port 0 takes a free one) or unix:PATH"});
}

}  // namespace

std::vector<std::string> RpcServerOptions::addresses() const {
  if (sockets.empty()) return {listen};
  std::vector<std::string> addresses;
  for (const PassedSocket& socket : sockets) {
    addresses.push_back(socket.address);
  }
  return addresses;
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const RpcServerOptions& options,
    const std::vector<grpc::Service*>& services) {
  RegisterPlugins();
  ASSIGN_OR_RETURN(const auto credentials, ListeningCredentials(options.tls));
  ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, OpenListener(options));
  grpc::ServerBuilder builder;
  const std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor>
      acceptor = builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::
              FROM_FD,
          credentials);
  SetLimits(options, builder);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError("gRPC does not start");
  std::unique_ptr<RpcServer> started(
      new RpcServer(std::move(server), std::move(listener)));
  started->Tell(false);
  started->listener_->Start([acceptor](const AcceptedConnection& connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
        taken;
    taken.listener_fd = connection.listening_file;
    taken.fd = connection.file;
    acceptor->HandleNewConnection(&taken);
  });
  return started;
}

RpcServer::RpcServer(std::unique_ptr<grpc::Server> server,
                     std::unique_ptr<Listener> listener)
    : server_(std::move(server)),
      address_(listener->address()),
      listener_(std::move(listener)) {}

RpcServer::~RpcServer() { Stop(absl::ZeroDuration()); }

void RpcServer::Tell(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  for (const char* service : {"", v1::ActivationService::service_full_name(),
                              v1::AdminService::service_full_name()}) {
    health->SetServingStatus(service, serving);
  }
}

void RpcServer::TellServing() { Tell(true); }

void RpcServer::TellOfModel(const ModelState& state) {
  server_->GetHealthCheckService()->SetServingStatus(
      absl::StrCat(v1::ActivationService::service_full_name(), "/", state.name),
      state.status == ModelStatus::kReady);
}

void RpcServer::TellNotServing() {
  server_->GetHealthCheckService()->Shutdown();
}

void RpcServer::Stop(absl::Duration patience) {
  listener_.reset();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + patience));
  server_->Wait();
}

}  // namespace phitap
