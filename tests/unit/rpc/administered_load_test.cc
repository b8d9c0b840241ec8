// Models that come and go, identities that change, watchers, scrapes and log
// levels, all while clients call: whatever is accepted is answered, and nothing
// is held afterwards.
// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/observe/log.h"
#include "server/rpc/live_samples.h"
#include "tests/support/busy_executor.h"
#include "tests/support/load_seed.h"
#include "tests/support/meanwhile.h"
#include "tests/support/named_identities.h"
#include "tests/support/puppet_server.h"
#include "tests/unit/rpc/load_client.h"

namespace phitap {
namespace {

using Code = grpc::StatusCode;

constexpr int kClients = 3;
constexpr int kCallsOfClient = 25;

class AdministeredLoad : public ::testing::Test {
 protected:
  AdministeredLoad() {
    SetLogLevel(LogLevel::kError);
    std::filesystem::create_directory(folder_.File("phi"));
    folder_.Write("phi/config.json", "{}");
    for (int i = 0; i < kClients; ++i) {
      // One at a time: a place that is not given back is missed.
      identities_.Add(absl::StrCat("client", i), {"trace", "tensors"},
                      {{"quotas", {{"max_requests", 1}}}});
    }
    identities_.Add("eve", {"trace", "tensors"});
    identities_.Add("ops", {"admin"});
    server_.emplace(PuppetServerOptions{
        .model_folder = folder_.path(),
        .load = [](LoadSteps& steps) { return steps.Begin("weights", 0.5); },
        .make_executor =
            [this] { return std::make_unique<BusyExecutor>(&counts_); },
        .anonymous_roles = {},
        .tokens_path = identities_.path()});
  }
  ~AdministeredLoad() override {
    server_.reset();
    SetLogLevel(LogLevel::kInfo);
  }

  std::unique_ptr<LoadClient> NewClient(const std::string& name, int seed,
                                        std::set<Code> refusals) {
    return std::make_unique<LoadClient>(
        LoadClientOptions{.address = server_->rpc().address(),
                          .models = {"tiny", "phi"},
                          .name = name,
                          .seed = LoadSeed(seed),
                          .sign =
                              [=, this](grpc::ClientContext& call) {
                                identities_.Sign(name, call);
                              },
                          .refusals = std::move(refusals)});
  }

  // One of ops' calls.
  std::unique_ptr<grpc::ClientContext> NewCall() const {
    auto context = std::make_unique<grpc::ClientContext>();
    identities_.Sign("ops", *context);
    return context;
  }

  Code Load() {
    const auto context = NewCall();
    v1::LoadModelRequest request;
    request.set_name("phi");
    const auto reader = server_->admin().LoadModel(context.get(), request);
    v1::LoadModelResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish().error_code();
  }

  Code Reload() { return Reload(*NewCall()); }
  // What has begun goes on.
  void ReloadAndHangUp() {
    const auto context = NewCall();
    std::thread hanging_up([&] { context->TryCancel(); });
    Reload(*context);
    hanging_up.join();
  }

  Code Unload() {
    v1::UnloadModelRequest request;
    request.set_name("phi");
    v1::UnloadModelResponse response;
    return server_->admin()
        .UnloadModel(NewCall().get(), request, &response)
        .error_code();
  }

  // Looks so often at what goes on, and hangs up.
  void Watch(int looks) {
    const auto context = NewCall();
    v1::WatchActivityRequest request;
    request.mutable_interval()->set_nanos(100'000'000);
    const auto reader = server_->admin().WatchActivity(context.get(), request);
    v1::WatchActivityResponse seen;
    while (looks-- > 0 && reader->Read(&seen)) EXPECT_GT(seen.models_size(), 0);
    context->TryCancel();
    while (reader->Read(&seen)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), Code::CANCELLED);
  }

  // Every model that there is, and every memory.
  void Scrape() {
    EXPECT_FALSE(server_->metrics().Collect().empty());
    EXPECT_FALSE(ReadLiveSamples({.scheduler = &server_->scheduler(),
                                  .tensors = &server_->all_tensors(),
                                  .models = &server_->models()})
                     .empty());
  }

  void ExpectNothingLeft() {
    server_->watch().AwaitNone();
    server_->scheduler().Drain();
    EXPECT_EQ(server_->scheduler().undelivered_bytes(), 0);
    EXPECT_TRUE(server_->scheduler().activity().callers.empty());
    EXPECT_EQ(counts_.memories, 0);
    EXPECT_EQ(counts_.waves, 0);
    EXPECT_EQ(counts_.lost_roots, 0);
  }

  Code Reload(grpc::ClientContext& context) {
    v1::ReloadModelRequest request;
    request.set_name("phi");
    const auto reader = server_->admin().ReloadModel(&context, request);
    v1::ReloadModelResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish().error_code();
  }

  // The compute thread's, until it has been drained.
  BusyCounts counts_;
  TempFolder folder_;
  NamedIdentities identities_;
  std::optional<PuppetServer> server_;
};

TEST_F(AdministeredLoad, ModelsComeAndGoWhileTheyAreAskedOf) {
  std::vector<std::unique_ptr<LoadClient>> clients;
  std::vector<std::thread> threads;
  std::atomic<int> calling = kClients;
  for (int i = 0; i < kClients; ++i) {
    // Of a model that is not there.
    clients.push_back(
        NewClient(absl::StrCat("client", i), i, {Code::NOT_FOUND}));
    threads.emplace_back([&, client = clients.back().get()] {
      for (int n = 0; n < kCallsOfClient; ++n) client->CallOnce();
      --calling;
    });
  }
  int round = 0;
  for (; calling > 0; ++round) {
    EXPECT_EQ(Load(), Code::OK);
    EXPECT_EQ(Load(), Code::ALREADY_EXISTS);
    EXPECT_EQ(Reload(), Code::OK);
    ReloadAndHangUp();
    Code unloaded = Unload();
    while (unloaded == Code::FAILED_PRECONDITION) unloaded = Unload();
    EXPECT_EQ(unloaded, Code::OK);
    Watch(round % 3);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(round, 1);
  server_->watch().AwaitNone();
  for (const auto& client : clients) {
    EXPECT_GT(client->counts().answered, 0);
    // Its one place is free.
    Code last = client->TraceOnce().error_code();
    while (last == Code::NOT_FOUND) last = client->TraceOnce().error_code();
    EXPECT_EQ(last, Code::OK);
  }
  ExpectNothingLeft();
}

TEST_F(AdministeredLoad, IdentitiesLevelsAndLooksChangeWhileClientsCall) {
  const auto client = NewClient("client0", 0, {});
  const auto eve = NewClient("eve", 1, {Code::UNAUTHENTICATED});
  ASSERT_EQ(Load(), Code::OK);
  {
    bool known = true;
    const Meanwhile rereads([&] {
      known = !known;
      known ? identities_.Add("eve", {"trace", "tensors"})
            : identities_.Remove("eve");
      server_->identities().Reread();
    });
    const Meanwhile scrapes([&] { Scrape(); });
    const Meanwhile watches([&] { Watch(1); });
    bool quiet = false;
    const Meanwhile levels([&] {
      quiet = !quiet;
      v1::SetLogLevelRequest request;
      request.set_level(quiet ? v1::LOG_VERBOSITY_ERROR
                              : v1::LOG_VERBOSITY_WARNING);
      v1::SetLogLevelResponse response;
      EXPECT_TRUE(server_->admin()
                      .SetLogLevel(NewCall().get(), request, &response)
                      .ok());
    });
    std::thread caller([&] {
      for (int i = 0; i < kCallsOfClient; ++i) client->CallOnce();
    });
    for (int i = 0; i < kCallsOfClient; ++i) eve->CallOnce();
    caller.join();
  }
  EXPECT_GT(client->counts().answered, 0);
  ExpectNothingLeft();
}

TEST_F(AdministeredLoad, StopsWhileItIsAdministeredAndAsked) {
  std::atomic<int> rounds = 0;
  std::thread models([&] {
    while (!server_->scheduler().stopping()) {
      Load();
      Reload();
      Unload();
      ++rounds;
    }
  });
  const auto client = NewClient("client0", 0, {Code::NOT_FOUND});
  std::thread caller([&] {
    while (!server_->scheduler().stopping()) client->CallOnce();
  });
  v1::WatchActivityRequest request;
  request.mutable_interval()->set_nanos(100'000'000);
  const auto context = NewCall();
  const auto watch = server_->admin().WatchActivity(context.get(), request);

  while (rounds < 2) std::this_thread::yield();
  v1::DrainServerResponse drained;
  EXPECT_TRUE(server_->admin().DrainServer(NewCall().get(), {}, &drained).ok());
  EXPECT_EQ(server_->asked_to_stop(), 1);
  server_->rpc().TellNotServing();
  server_->keeper().Stop();
  server_->scheduler().StopAccepting();
  server_->watch().Close();
  models.join();
  caller.join();
  v1::WatchActivityResponse seen;
  while (watch->Read(&seen)) {
  }
  EXPECT_TRUE(watch->Finish().ok());
  ExpectNothingLeft();
}

}  // namespace
}  // namespace phitap
