// Certificates made on the spot, signed by an authority made on the spot.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_CERTIFICATES_H_
#define PHITAP_TESTS_SUPPORT_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace phitap {

// In PEM.
struct KeyPair {
  std::string certificate;
  std::string key;
};

struct CertificateName {
  std::string common_name;
  // As OpenSSL writes them, e.g. `DNS:localhost,IP:127.0.0.1`; empty for none.
  std::string alternative_names;
};

// Signs what it is asked to. Certificates are good for an hour.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name);
  ~CertificateAuthority();
  CertificateAuthority(const CertificateAuthority&) = delete;
  CertificateAuthority& operator=(const CertificateAuthority&) = delete;

  // Its own certificate, in PEM.
  std::string certificate() const;
  KeyPair Issue(const CertificateName& name);

 private:
  EVP_PKEY* key_;
  X509* certificate_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_CERTIFICATES_H_
