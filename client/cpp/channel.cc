#include "client/cpp/channel.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/client_interceptor.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::client {
namespace {

// A window large enough to keep a fast link busy from the first byte on. The
// estimate of the bandwidth-delay product that would size it otherwise starts
// small and costs more time than it saves.
constexpr int kWindowBytes = 8 << 20;
// A chunk of a tensor fits into one frame.
constexpr int kFrameBytes = 1 << 20;
constexpr char kPemMark[] = "-----BEGIN ";

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// Adds the token to the headers of a call. Not by the credentials of gRPC: they
// refuse unencrypted connections, also those that do not leave the machine.
class TokenSender final : public Interceptor {
 public:
  explicit TokenSender(std::string authorization)
      : authorization_(std::move(authorization)) {}
  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert(
          {"authorization", authorization_});
    }
    methods->Proceed();
  }

 private:
  const std::string authorization_;
};

class TokenSenders final : public ClientInterceptorFactoryInterface {
 public:
  explicit TokenSenders(const std::string& token)
      : authorization_("Bearer " + token) {}
  Interceptor* CreateClientInterceptor(ClientRpcInfo* /*info*/) override {
    return new TokenSender(authorization_);
  }

 private:
  const std::string authorization_;
};

absl::Status CheckAddress(absl::string_view address) {
  if (absl::StartsWith(address, "unix:") && address.size() > 5) {
    return absl::OkStatus();
  }
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon != absl::string_view::npos && colon > 0 &&
      absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 &&
      port <= 65535) {
    return absl::OkStatus();
  }
  return InvalidField(
      {.field = "server",
       .problem = absl::StrCat("`", address, "` is not an address"),
       .valid = "HOST:PORT or unix:PATH"});
}

// Whether what is sent there stays on this machine.
bool IsLocal(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const absl::string_view host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" ||
         absl::StartsWith(host, "127.");
}

absl::Status CheckToken(const ClientOptions& options) {
  const std::string& token = options.token;
  if (!std::all_of(token.begin(), token.end(), absl::ascii_isgraph)) {
    return InvalidField({.field = "token",
                         .problem = "has letters that no token has",
                         .valid = "one line of letters, digits and `_`, as "
                                  "`phitap token new` prints it"});
  }
  if (token.empty() || options.tls.has_value() || IsLocal(options.address)) {
    return absl::OkStatus();
  }
  return InvalidField(
      {.field = "token",
       .problem = absl::StrCat("would go to ", options.address,
                               " for everybody on the way to read"),
       .valid = "with TLS, or to this machine or a unix socket"});
}

// Empty for no path.
absl::StatusOr<std::string> ReadPem(absl::string_view field,
                                    const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()) ||
      !absl::StrContains(text.str(), kPemMark)) {
    return InvalidField({.field = std::string(field),
                         .problem = absl::StrCat(path,
                                                 " cannot be read, or "
                                                 "has nothing in PEM"),
                         .valid = "a file in PEM"});
  }
  return text.str();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const ClientOptions& options) {
  if (!options.tls.has_value()) return grpc::InsecureChannelCredentials();
  const Tls& tls = *options.tls;
  if (tls.certificate_path.empty() != tls.key_path.empty()) {
    return InvalidField({.field = tls.key_path.empty() ? "key" : "cert",
                         .problem = "none given",
                         .valid = "a certificate with its key, or neither"});
  }
  grpc::SslCredentialsOptions credentials;
  ASSIGN_OR_RETURN(credentials.pem_root_certs,
                   ReadPem("ca", tls.authority_path));
  ASSIGN_OR_RETURN(credentials.pem_cert_chain,
                   ReadPem("cert", tls.certificate_path));
  ASSIGN_OR_RETURN(credentials.pem_private_key, ReadPem("key", tls.key_path));
  return grpc::SslCredentials(credentials);
}

grpc::ChannelArguments ArgumentsOf(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  // The tensors decide how large an answer is, and the header announces it.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  // The address names the server, not something that a proxy is to look for.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (options.tls.has_value() && !options.tls->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  return arguments;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const ClientOptions& options) {
  RETURN_IF_ERROR(CheckAddress(options.address));
  RETURN_IF_ERROR(CheckToken(options));
  ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(options));
  std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> interceptors;
  if (!options.token.empty()) {
    interceptors.push_back(std::make_unique<TokenSenders>(options.token));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      options.address, credentials, ArgumentsOf(options),
      std::move(interceptors));
}

}  // namespace phitap::client
