#include "tests/support/certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>

namespace phitap {
namespace {

constexpr int kLifeSeconds = 3600;
constexpr long kVersion3 = 2;

template <typename Write>
std::string Pem(Write write) {
  BIO* memory = BIO_new(BIO_s_mem());
  write(memory);
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory, &text);
  std::string pem(text, static_cast<size_t>(size));
  BIO_free(memory);
  return pem;
}

std::string PemOf(X509* certificate) {
  return Pem([&](BIO* out) { PEM_write_bio_X509(out, certificate); });
}

void SetName(X509_NAME* name, const std::string& common_name) {
  X509_NAME_add_entry_by_txt(
      name, "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(common_name.data()),
      static_cast<int>(common_name.size()), -1, 0);
}

void Extend(X509* certificate, int kind, const std::string& value) {
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Without issuer and signature.
X509* NewCertificate(EVP_PKEY* key, const std::string& common_name) {
  static std::atomic<long> serial = 1;
  X509* certificate = X509_new();
  X509_set_version(certificate, kVersion3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  // Clocks may differ by a moment.
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), kLifeSeconds);
  X509_set_pubkey(certificate, key);
  SetName(X509_get_subject_name(certificate), common_name);
  return certificate;
}

}  // namespace

CertificateAuthority::CertificateAuthority(const std::string& name)
    : key_(EVP_EC_gen("P-256")), certificate_(NewCertificate(key_, name)) {
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  Extend(certificate_, NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(certificate_, key_, EVP_sha256());
}

CertificateAuthority::~CertificateAuthority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

std::string CertificateAuthority::certificate() const {
  return PemOf(certificate_);
}

KeyPair CertificateAuthority::Issue(const CertificateName& name) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = NewCertificate(key, name.common_name);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate_));
  if (!name.alternative_names.empty()) {
    Extend(certificate, NID_subject_alt_name, name.alternative_names);
  }
  X509_sign(certificate, key_, EVP_sha256());
  const KeyPair pair = {.certificate = PemOf(certificate),
                        .key = Pem([&](BIO* out) {
                          PEM_write_bio_PrivateKey(out, key, nullptr, nullptr,
                                                   0, nullptr, nullptr);
                        })};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pair;
}

}  // namespace phitap
