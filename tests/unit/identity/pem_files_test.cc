#include "server/identity/pem_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "server/base/field_error.h"
#include "tests/support/certificates.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class PemFilesTest : public ::testing::Test {
 protected:
  PemFilesTest() {
    Write("cert.pem", pair_.certificate);
    Write("key.pem", pair_.key);
  }
  void Write(const std::string& name, const std::string& text,
             mode_t mode = 0600) {
    folder_.Write(name, text);
    chmod(folder_.File(name).c_str(), mode);
  }
  absl::Status Check() {
    return CheckKeyPair({.certificate_path = folder_.File("cert.pem"),
                         .certificate_field = "--tls-cert",
                         .key_path = folder_.File("key.pem"),
                         .key_field = "--tls-key"});
  }

  TempFolder folder_;
  CertificateAuthority authority_{"test authority"};
  const KeyPair pair_ = authority_.Issue({.common_name = "server"});
};

TEST_F(PemFilesTest, TakesACertificateWithItsKey) {
  EXPECT_THAT(Check(), IsOk());
  Write("cert.pem", pair_.certificate + authority_.certificate());
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(PemFilesTest, RefusesTheKeyOfAnother) {
  Write("key.pem", authority_.Issue({.common_name = "server"}).key);
  const absl::Status status = Check();
  EXPECT_THAT(status, StatusIs(Code::kInvalidArgument,
                               AllOf(HasSubstr("key.pem is not the key"),
                                     HasSubstr("cert.pem"))));
  EXPECT_EQ(FieldOf(status), "--tls-key");
}

TEST_F(PemFilesTest, RefusesWhatIsNoPem) {
  Write("cert.pem", "not a certificate");
  EXPECT_THAT(Check(), StatusIs(Code::kInvalidArgument,
                                HasSubstr("cert.pem has no certificate")));
  Write("cert.pem", pair_.certificate);
  Write("key.pem", pair_.certificate);
  EXPECT_THAT(Check(), StatusIs(Code::kInvalidArgument,
                                HasSubstr("key.pem has no key")));
  EXPECT_THAT(CheckCertificates(folder_.File("key.pem"), "--x"), IsOk());
  Write("key.pem", pair_.key);
  EXPECT_THAT(CheckCertificates(folder_.File("key.pem"), "--tls-client-ca"),
              StatusIs(Code::kInvalidArgument, HasSubstr("--tls-client-ca: ")));
}

TEST_F(PemFilesTest, RefusesAKeyThatOthersMayRead) {
  Write("key.pem", pair_.key, 0644);
  EXPECT_THAT(Check(),
              StatusIs(Code::kFailedPrecondition,
                       AllOf(HasSubstr("--tls-key: "), HasSubstr("key.pem"))));
}

TEST_F(PemFilesTest, NamesAFileThatIsNotThere) {
  EXPECT_THAT(CheckKeyPair({.certificate_path = folder_.File("none.pem"),
                            .certificate_field = "--tls-cert",
                            .key_path = folder_.File("key.pem"),
                            .key_field = "--tls-key"}),
              StatusIs(Code::kInvalidArgument,
                       AllOf(HasSubstr("--tls-cert: "),
                             HasSubstr("none.pem cannot be read"))));
}

}  // namespace
}  // namespace phitap
