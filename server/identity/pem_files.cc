#include "server/identity/pem_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/identity/private_file.h"

namespace phitap {
namespace {

template <auto kFree>
struct Freed {
  template <typename Object>
  void operator()(Object* object) const {
    kFree(object);
  }
};
using Bytes = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

absl::Status Wrong(absl::string_view field, const std::string& path,
                   absl::string_view problem, absl::string_view valid) {
  return InvalidField({.field = std::string(field),
                       .problem = absl::StrCat(path, " ", problem),
                       .valid = std::string(valid)});
}

// Nobody is asked for a passphrase.
int NoPassphrase(char*, int, int, void*) { return 0; }

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     absl::string_view field) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file && text << file.rdbuf()) return text.str();
  return Wrong(field, path,
               absl::StrCat("cannot be read: ", std::strerror(errno)),
               "a file of certificates in PEM");
}

Bytes View(const std::string& text) {
  return Bytes(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<Certificate> FirstCertificate(const std::string& path,
                                             absl::string_view field) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, field));
  Certificate certificate(
      PEM_read_bio_X509(View(text).get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (certificate != nullptr) return certificate;
  return Wrong(field, path, "has no certificate in PEM",
               "a file that begins with -----BEGIN CERTIFICATE-----");
}

absl::StatusOr<Key> ReadKey(const std::string& path, absl::string_view field) {
  const absl::StatusOr<std::string> text = ReadPrivateFile(path);
  if (!text.ok()) {
    return InvalidField({.field = std::string(field),
                         .problem = std::string(text.status().message())},
                        text.status().code());
  }
  Key key(PEM_read_bio_PrivateKey(View(*text).get(), nullptr, NoPassphrase,
                                  nullptr));
  ERR_clear_error();
  if (key != nullptr) return key;
  return Wrong(field, path, "has no key in PEM that needs no passphrase",
               "a file that begins with -----BEGIN PRIVATE KEY-----");
}

}  // namespace

absl::Status CheckKeyPair(const KeyPairFiles& files) {
  ASSIGN_OR_RETURN(
      const Certificate certificate,
      FirstCertificate(files.certificate_path, files.certificate_field));
  ASSIGN_OR_RETURN(const Key key, ReadKey(files.key_path, files.key_field));
  const bool belong = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (belong) return absl::OkStatus();
  return Wrong(files.key_field, files.key_path,
               absl::StrCat("is not the key of the first certificate in ",
                            files.certificate_path),
               "the key that the certificate was made with, and the server's "
               "own certificate before those of its authorities");
}

absl::Status CheckCertificates(const std::string& path,
                               absl::string_view field) {
  return FirstCertificate(path, field).status();
}

}  // namespace phitap
