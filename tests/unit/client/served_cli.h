// The real server and command line, for tests of what they say to each other.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_CLIENT_SERVED_CLI_H_
#define PHITAP_TESTS_UNIT_CLIENT_SERVED_CLI_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/support/server_process.h"
#include "tests/unit/client/command.h"

namespace phitap {

inline constexpr char kPrompt[] =
    "When Mary and John went to the store, John gave a drink to";

// Where no file is, not even one of an earlier run.
inline std::string FreshPath() {
  const std::string path = testing::TempDir() + "/served_cli." +
                           std::to_string(getpid()) + ".safetensors";
  std::filesystem::remove(path);
  return path;
}

class ServedCli : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new ServerProcess({"--model", "demo=" DEMO_MODEL});
    address_ = server_->AwaitAddress();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override { ASSERT_NE(address_, "") << server_->Output(); }

  static CommandResult Phitap(const std::vector<std::string>& arguments) {
    return Command(PHITAP, arguments, address_).Finish();
  }

  // The document of a command that must succeed.
  static nlohmann::json JsonOf(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const CommandResult result = Phitap(arguments);
    EXPECT_EQ(result.exit_status, 0) << result.errors;
    return nlohmann::json::parse(result.output, nullptr, false);
  }

  static inline ServerProcess* server_ = nullptr;
  static inline std::string address_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_CLIENT_SERVED_CLI_H_
