#include "client/cpp/health.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cpp/client.h"
#include "phitap/v1/activation_service.grpc.pb.h"

namespace phitap::client {
namespace {

// gRPC's own health service, in front of services that are not called.
class HealthTest : public testing::Test {
 protected:
  HealthTest() {
    grpc::EnableDefaultHealthCheckService(true);
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
    health()->SetServingStatus("open", true);
    health()->SetServingStatus("closed", false);
  }
  ~HealthTest() override { server_->Shutdown(); }

  grpc::HealthCheckServiceInterface* health() {
    return server_->GetHealthCheckService();
  }

  absl::StatusOr<ServingStatus> Check(const std::string& service) {
    const absl::StatusOr<Client> client = Client::Connect({address_});
    if (!client.ok()) return client.status();
    return client->CheckHealth(service);
  }

  v1::ActivationService::Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(HealthTest, TellsOfEachServiceAndOfTheWhole) {
  EXPECT_EQ(Check("").value(), ServingStatus::kServing);
  EXPECT_EQ(Check("open").value(), ServingStatus::kServing);
  EXPECT_EQ(Check("closed").value(), ServingStatus::kNotServing);
  health()->SetServingStatus(false);
  EXPECT_EQ(Check("").value(), ServingStatus::kNotServing);
}

TEST_F(HealthTest, NamesAServiceThatTheServerDoesNotHave) {
  const absl::Status missing = Check("phitap.v2").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "the server has no service `phitap.v2`");
}

TEST(ServingStatus, HasTheNamesOfTheProtocol) {
  EXPECT_EQ(NameOf(ServingStatus::kServing), "SERVING");
  EXPECT_EQ(NameOf(ServingStatus::kNotServing), "NOT_SERVING");
  EXPECT_EQ(NameOf(ServingStatus::kServiceUnknown), "SERVICE_UNKNOWN");
  EXPECT_EQ(NameOf(ServingStatus::kUnknown), "UNKNOWN");
}

}  // namespace
}  // namespace phitap::client
