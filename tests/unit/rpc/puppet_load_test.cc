// Many clients at once over an engine that computes nothing: every call ends,
// with the right bytes or with a reason, and nothing is held afterwards. Links
// no libtorch, so that it can be built with the preset `tsan`.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/observe/log.h"
#include "tests/support/busy_executor.h"
#include "tests/support/load_seed.h"
#include "tests/support/meanwhile.h"
#include "tests/support/puppet_server.h"
#include "tests/unit/rpc/load_client.h"

namespace phitap {
namespace {

constexpr int kClients = 5;
constexpr int kCallsOfClient = 30;

class PuppetLoad : public ::testing::Test {
 protected:
  PuppetLoad() {
    SetLogLevel(LogLevel::kError);
    server_.emplace(
        PuppetServerOptions{.schedule = {.max_wave_tokens = 512,
                                         .queue = {.max_requests = 6},
                                         .memory = {.max_root_bytes = 2000}},
                            .make_executor = [this] {
                              return std::make_unique<BusyExecutor>(&counts_);
                            }});
    for (int i = 0; i < kClients; ++i) {
      clients_.push_back(std::make_unique<LoadClient>(
          LoadClientOptions{.address = server_->rpc().address(),
                            .name = absl::StrCat("client", i),
                            .seed = LoadSeed(i)}));
    }
  }
  ~PuppetLoad() override {
    server_.reset();
    SetLogLevel(LogLevel::kInfo);
  }

  // Each on a thread, until `call` of each has returned.
  template <typename Call>
  void CallTogether(Call call) {
    std::vector<std::thread> threads;
    for (const auto& client : clients_) {
      threads.emplace_back([&call, client = client.get()] { call(*client); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void ExpectNothingLeft() {
    server_->watch().AwaitNone();
    server_->scheduler().Drain();
    EXPECT_EQ(server_->scheduler().queued_requests(), 0);
    EXPECT_EQ(server_->scheduler().undelivered_bytes(), 0);
    EXPECT_TRUE(server_->scheduler().activity().callers.empty());
    EXPECT_EQ(server_->scheduler().requests_of("tiny"), 0);
    EXPECT_EQ(counts_.memories, 0);
    EXPECT_EQ(counts_.waves, 0);
    EXPECT_EQ(counts_.lost_roots, 0);
  }

  // The compute thread's, until it has been drained.
  BusyCounts counts_;
  std::optional<PuppetServer> server_;
  std::vector<std::unique_ptr<LoadClient>> clients_;
};

TEST_F(PuppetLoad, EndsEveryCallAndHoldsNothing) {
  {
    const Meanwhile time([&] {
      server_->clock().Advance(absl::Microseconds(100));
      server_->watch().CheckAll();
    });
    CallTogether([](LoadClient& client) {
      for (int i = 0; i < kCallsOfClient; ++i) client.CallOnce();
    });
  }
  for (const auto& client : clients_) EXPECT_GT(client->counts().answered, 0);
  for (int i = 0; i < kClients; ++i) {
    server_->tensors().Delete(absl::StrCat("client", i), "").IgnoreError();
  }
  server_->watch().AwaitNone();
  EXPECT_EQ(server_->all_tensors().used_bytes(), 0);
  ExpectNothingLeft();
  EXPECT_GT(counts_.rows_from_roots, 0);
}

TEST_F(PuppetLoad, AnswersOrRefusesWhatComesWhileItStops) {
  std::atomic<int> answered = 0;
  std::thread stop([&] {
    while (answered < 3 * kClients) std::this_thread::yield();
    server_->rpc().TellNotServing();
    server_->keeper().Stop();
    server_->scheduler().StopAccepting();
    server_->watch().Close();
    server_->watch().AwaitNone();
  });
  CallTogether([&](LoadClient& client) {
    // Refused, too, where the queue is full.
    while (client.TraceOnce().ok() || !server_->scheduler().stopping()) {
      answered += 1;
    }
  });
  stop.join();
  ExpectNothingLeft();
}

}  // namespace
}  // namespace phitap
