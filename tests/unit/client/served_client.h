// A client of the real server.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_CLIENT_SERVED_CLIENT_H_
#define PHITAP_TESTS_UNIT_CLIENT_SERVED_CLIENT_H_

#include <gtest/gtest.h>

#include <memory>

#include "client/cpp/client.h"
#include "tests/support/server_process.h"
#include "tests/support/status_matchers.h"

namespace phitap::client {

inline constexpr char kServedPrompt[] =
    "When Mary and John went to the store, John gave a drink to";

class ServedClient : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new ServerProcess({"--model", "demo=" DEMO_MODEL});
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  void SetUp() override {
    absl::StatusOr<Client> client =
        Client::Connect({.address = server_->AwaitAddress()});
    ASSERT_THAT(client, IsOk()) << server_->Output();
    client_ = std::make_unique<Client>(*std::move(client));
  }

  absl::StatusOr<phitap::client::Trace> Trace(const TraceCall& call) {
    return client_->Trace(ToRequest(call));
  }

  static inline ServerProcess* server_ = nullptr;
  std::unique_ptr<Client> client_;
};

}  // namespace phitap::client

#endif  // PHITAP_TESTS_UNIT_CLIENT_SERVED_CLIENT_H_
