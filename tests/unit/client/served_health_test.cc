#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/unit/client/served_cli.h"

namespace phitap {
namespace {

using testing::HasSubstr;

TEST_F(ServedCli, SaysThatTheServerTakesRequests) {
  const CommandResult whole = Phitap({"health"});
  EXPECT_EQ(whole.output, "SERVING\n");
  EXPECT_EQ(whole.exit_status, 0);
  const nlohmann::json service =
      JsonOf({"health", "--service", "phitap.v1.ActivationService"});
  EXPECT_EQ(service["service"], "phitap.v1.ActivationService");
  EXPECT_EQ(service["status"], "SERVING");
}

TEST_F(ServedCli, SaysThatAServiceIsNotThere) {
  const CommandResult result = Phitap({"health", "--service", "phitap.v9"});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.errors,
              HasSubstr("the server has no service `phitap.v9`"));
}

TEST(HealthCommand, WaitsForAServerThatStartsLater) {
  const std::string address =
      "unix:" + testing::TempDir() + "late." + std::to_string(getpid());
  Command waiting(PHITAP, {"health", "--wait", "120"}, address);
  ServerProcess server({"--model", "demo=" DEMO_MODEL, "--listen", address});
  const CommandResult result = waiting.Finish();
  EXPECT_EQ(result.exit_status, 0) << result.errors;
  EXPECT_EQ(result.output, "SERVING\n");
}

TEST(HealthCommand, DoesNotWaitUnlessAsked) {
  const CommandResult result =
      Command(PHITAP, {"health"}, "unix:/no/such/socket").Finish();
  EXPECT_EQ(result.exit_status, 3);
  EXPECT_THAT(result.errors, HasSubstr("no server answers"));
}

}  // namespace
}  // namespace phitap
