// Encryption of the server's connections, and who may open one.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_TLS_H_
#define PHITAP_SERVER_RPC_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace phitap {

// Whether clients show certificates.
enum class ClientCertificates {
  // They are not asked to.
  kNone,
  // They may; one that the authority has not signed ends the connection.
  kAccept,
  // They must.
  kRequire,
};

struct TlsOptions {
  // PEM files: the server's certificate with those between it and its
  // authority, and its key. Both empty: connections are not encrypted.
  std::string certificate_path;
  std::string key_path;
  // PEM file of the authorities that sign clients' certificates; empty for
  // none.
  std::string client_authority_path;
  ClientCertificates client_certificates = ClientCertificates::kNone;
  // The files are read again as often as this, in whole seconds.
  absl::Duration refresh = absl::Seconds(10);

  bool enabled() const { return !certificate_path.empty(); }
};

// What to listen with; connections that are opened later use what the files
// hold then. Errors name the flag, the file and what is wrong: one that is
// missing, is no PEM, has a passphrase, does not belong to the other, or is a
// key that others on the machine may read.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ListeningCredentials(
    const TlsOptions& options);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_TLS_H_
