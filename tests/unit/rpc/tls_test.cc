// Encrypted connections and client certificates, through a real gRPC server.
#include "server/rpc/tls.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "tests/support/certificates.h"
#include "tests/support/named_identities.h"
#include "tests/support/puppet_server.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using Code = grpc::StatusCode;

constexpr char kServerNames[] = "DNS:localhost,IP:127.0.0.1";

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    Write("server.pem", pair_.certificate);
    Write("server.key", pair_.key);
    Write("ca.pem", authority_.certificate());
    identities_.Add("alice", {"trace"}, {{"certificates", {"alice.lab"}}});
    identities_.Add("bob", {"tensors"}, {{"certificates", {"Bob"}}});
  }
  void Write(const std::string& name, const std::string& text) {
    folder_.Write(name + ".new", text);
    chmod(folder_.File(name + ".new").c_str(), 0600);
    std::rename(folder_.File(name + ".new").c_str(),
                folder_.File(name).c_str());
  }
  void Start(ClientCertificates certificates) {
    PuppetServerOptions options = {.anonymous_roles = {},
                                   .tokens_path = identities_.path()};
    options.rpc.tls = {.certificate_path = folder_.File("server.pem"),
                       .key_path = folder_.File("server.key"),
                       .client_authority_path = folder_.File("ca.pem"),
                       .client_certificates = certificates,
                       .refresh = absl::Seconds(1)};
    server_ = std::make_unique<PuppetServer>(options);
  }

  // ListModels on a connection of its own.
  grpc::Status Call(const std::string& authority, const KeyPair& own = {},
                    const std::string& token = "") {
    grpc::SslCredentialsOptions options = {.pem_root_certs = authority,
                                           .pem_private_key = own.key,
                                           .pem_cert_chain = own.certificate};
    return CallWith(grpc::SslCredentials(options), token);
  }
  grpc::Status CallWith(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials,
      const std::string& token = "") {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::ActivationService::NewStub(grpc::CreateCustomChannel(
        server_->rpc().address(), credentials, arguments));
    grpc::ClientContext context;
    if (!token.empty()) {
      context.AddMetadata("authorization", "Bearer " + token);
    }
    v1::ListModelsResponse response;
    return stub->ListModels(&context, {}, &response);
  }

  TempFolder folder_;
  NamedIdentities identities_;
  CertificateAuthority authority_{"lab"};
  CertificateAuthority stranger_{"stranger"};
  const KeyPair pair_ = authority_.Issue(
      {.common_name = "server", .alternative_names = kServerNames});
  std::unique_ptr<PuppetServer> server_;
};

TEST_F(TlsTest, AnswersOnlyThoseWhoSpeakIt) {
  Start(ClientCertificates::kNone);
  const std::string& token = identities_.token("alice");
  EXPECT_TRUE(Call(authority_.certificate(), {}, token).ok());
  EXPECT_EQ(CallWith(grpc::InsecureChannelCredentials(), token).error_code(),
            Code::UNAVAILABLE);
}

TEST_F(TlsTest, ShowsACertificateThatClientsCanCheck) {
  Start(ClientCertificates::kNone);
  EXPECT_EQ(Call(stranger_.certificate(), {}, identities_.token("alice"))
                .error_code(),
            Code::UNAVAILABLE);
}

TEST_F(TlsTest, KnowsIdentitiesByTheNamesInTheirCertificates) {
  Start(ClientCertificates::kRequire);
  const KeyPair alice = authority_.Issue(
      {.common_name = "whoever", .alternative_names = "DNS:alice.lab"});
  EXPECT_TRUE(Call(authority_.certificate(), alice).ok());
  // By the common name, but without the role.
  const grpc::Status bob =
      Call(authority_.certificate(), authority_.Issue({.common_name = "Bob"}));
  EXPECT_EQ(bob.error_code(), Code::PERMISSION_DENIED);
  EXPECT_THAT(bob.error_message(), HasSubstr("bob"));
  const grpc::Status unknown =
      Call(authority_.certificate(), authority_.Issue({.common_name = "Eve"}));
  EXPECT_EQ(unknown.error_code(), Code::UNAUTHENTICATED);
}

TEST_F(TlsTest, LetsNobodyInWithoutACertificateWhereOneIsRequired) {
  Start(ClientCertificates::kRequire);
  const std::string& token = identities_.token("alice");
  EXPECT_EQ(Call(authority_.certificate(), {}, token).error_code(),
            Code::UNAVAILABLE);
  EXPECT_TRUE(Call(authority_.certificate(),
                   authority_.Issue({.common_name = "x"}), token)
                  .ok());
}

TEST_F(TlsTest, LetsNobodyInWithACertificateOfAnotherAuthority) {
  const KeyPair forged = stranger_.Issue(
      {.common_name = "x", .alternative_names = "DNS:alice.lab"});
  for (const ClientCertificates certificates :
       {ClientCertificates::kRequire, ClientCertificates::kAccept}) {
    Start(certificates);
    EXPECT_FALSE(Call(authority_.certificate(), forged).ok());
  }
}

TEST_F(TlsTest, TakesATokenInPlaceOfACertificateWhereNoneIsRequired) {
  Start(ClientCertificates::kAccept);
  EXPECT_TRUE(
      Call(authority_.certificate(), {}, identities_.token("alice")).ok());
  EXPECT_TRUE(Call(authority_.certificate(),
                   authority_.Issue({.common_name = "x",
                                     .alternative_names = "DNS:alice.lab"}))
                  .ok());
}

TEST_F(TlsTest, TakesOverACertificateThatIsRenewed) {
  Start(ClientCertificates::kNone);
  CertificateAuthority next("next");
  const KeyPair renewed =
      next.Issue({.common_name = "server", .alternative_names = kServerNames});
  const std::string& token = identities_.token("alice");
  EXPECT_FALSE(Call(next.certificate(), {}, token).ok());
  Write("server.key", renewed.key);
  Write("server.pem", renewed.certificate);
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (!Call(next.certificate(), {}, token).ok()) {
    ASSERT_LT(absl::Now(), deadline);
  }
  EXPECT_FALSE(Call(authority_.certificate(), {}, token).ok());
}

TEST_F(TlsTest, RefusesToListenWithFilesThatDoNotFit) {
  ASSERT_THAT(ListeningCredentials({}), IsOk());
  TlsOptions options = {.certificate_path = folder_.File("server.pem"),
                        .key_path = folder_.File("server.key")};
  ASSERT_THAT(ListeningCredentials(options), IsOk());
  Write("server.key", stranger_.Issue({.common_name = "server"}).key);
  EXPECT_THAT(
      ListeningCredentials(options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--tls-key: ")));
  Write("server.key", pair_.key);
  options.client_certificates = ClientCertificates::kRequire;
  options.client_authority_path = folder_.File("none.pem");
  EXPECT_THAT(ListeningCredentials(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--tls-client-ca: ")));
}

}  // namespace
}  // namespace phitap
