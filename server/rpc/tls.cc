#include "server/rpc/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "server/base/status_macros.h"
#include "server/identity/pem_files.h"

namespace phitap {
namespace {

grpc_ssl_client_certificate_request_type RequestOf(
    ClientCertificates certificates) {
  switch (certificates) {
    case ClientCertificates::kNone:
      return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    case ClientCertificates::kAccept:
      return GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    case ClientCertificates::kRequire:
      return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ListeningCredentials(
    const TlsOptions& options) {
  if (!options.enabled()) return grpc::InsecureServerCredentials();
  RETURN_IF_ERROR(CheckKeyPair({.certificate_path = options.certificate_path,
                                .certificate_field = "--tls-cert",
                                .key_path = options.key_path,
                                .key_field = "--tls-key"}));
  const bool asks = options.client_certificates != ClientCertificates::kNone;
  if (asks) {
    RETURN_IF_ERROR(
        CheckCertificates(options.client_authority_path, "--tls-client-ca"));
  }
  auto files =
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          options.key_path, options.certificate_path,
          options.client_authority_path,
          static_cast<unsigned>(absl::ToInt64Seconds(options.refresh)));
  grpc::experimental::TlsServerCredentialsOptions credentials(files);
  credentials.watch_identity_key_cert_pairs();
  if (asks) credentials.watch_root_certs();
  credentials.set_cert_request_type(RequestOf(options.client_certificates));
  return grpc::experimental::TlsServerCredentials(credentials);
}

}  // namespace phitap
