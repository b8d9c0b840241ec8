// Stopping under load: nothing that was accepted is lost, and clients with
// another server to go to notice nothing.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/raw_call.h"
#include "tests/support/readme_config.h"
#include "tests/support/server_process.h"
#include "tests/support/trace_answer.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

// What grpc.health.v1 answers, see health.proto.
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";

// Prompts of other lengths and tokens.
v1::TraceRequest Request(int number, int tokens) {
  v1::TraceRequest request;
  v1::TokenIds& ids = *request.add_runs()->mutable_prompt()->mutable_tokens();
  for (int i = 0; i < tokens + number % 5; ++i) {
    ids.add_ids((i * 7 + number) % 96);
  }
  request.add_captures()->set_hook_points("layers.*.layer_output");
  return request;
}

class DrainTest : public ::testing::Test {
 protected:
  DrainTest() { TinyCheckpoint(TinyKind::kWindow).Write(folder_); }

  std::vector<std::string> Arguments(std::vector<std::string> more = {}) {
    more.insert(more.begin(),
                {"--model=tiny=" + folder_.path(), "--threads", "1",
                 "--max-caller-requests", "256", "--max-wave-tokens", "1024"});
    return more;
  }

  TempFolder folder_;
};

TEST_F(DrainTest, AnswersAllThatItAcceptedAndRefusesTheRest) {
  constexpr int kRequests = 50;
  constexpr int kTokens = 400;
  ServerProcess quiet(Arguments());
  ASSERT_NE(quiet.AwaitAddress(), "") << quiet.Output();
  std::vector<TraceAnswer> expected(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    expected[i] = Trace(quiet.stub(), Request(i, kTokens));
    ASSERT_TRUE(expected[i].status.ok()) << expected[i].status.error_message();
  }

  ServerProcess server(Arguments());
  ASSERT_NE(server.AwaitAddress(), "") << server.Output();
  RawCall watch(server.Connect(), "/grpc.health.v1.Health/Watch", "");
  ASSERT_EQ(watch.Read(), kServing);
  std::atomic<int> accepted = 0;
  std::vector<TraceAnswer> answers(kRequests);
  std::vector<std::thread> callers;
  for (int i = 0; i < kRequests; ++i) {
    callers.emplace_back([&, i] {
      grpc::ClientContext context;
      const auto reader = server.stub().Trace(&context, Request(i, kTokens));
      v1::TraceResponse response;
      // It is accepted once its header is there.
      if (reader->Read(&response)) {
        Take(response, answers[i]);
        ++accepted;
      }
      while (reader->Read(&response)) Take(response, answers[i]);
      answers[i].status = reader->Finish();
    });
  }
  while (accepted < kRequests) std::this_thread::yield();
  server.Signal(SIGTERM);
  EXPECT_EQ(watch.Read(), kNotServing);
  ASSERT_TRUE(server.AwaitLog("stopping"));
  // Those that go on trying keep it from nothing.
  std::atomic<bool> ended = false;
  std::thread late([&] {
    int refused = 0;
    // gRPC cancels the call that is on its way as the server closes.
    int on_the_way = 0;
    while (!ended) {
      const grpc::Status status = Trace(server.stub(), Request(0, 3)).status;
      if (status.error_code() == grpc::StatusCode::CANCELLED) {
        EXPECT_EQ(++on_the_way, 1);
        continue;
      }
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
      if (refused++ == 0) {
        EXPECT_THAT(status.error_message(), HasSubstr("stopping"));
      }
    }
    EXPECT_GT(refused, 0);
  });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(server.Wait(), 0) << server.Output();
  ended = true;
  late.join();
  for (int i = 0; i < kRequests; ++i) {
    EXPECT_TRUE(answers[i].status.ok()) << answers[i].status.error_message();
    EXPECT_TRUE(answers[i].summary.has_value());
    EXPECT_EQ(answers[i].bytes, expected[i].bytes) << i;
  }
}

TEST_F(DrainTest, AcceptsForAWhileYetOnceItSaysThatItStops) {
  ServerProcess server(Arguments({"--drain-grace", "1s"}));
  ASSERT_NE(server.AwaitAddress(), "") << server.Output();
  RawCall watch(server.Connect(), "/grpc.health.v1.Health/Watch", "");
  ASSERT_EQ(watch.Read(), kServing);
  server.Signal(SIGTERM);
  EXPECT_EQ(watch.Read(), kNotServing);
  EXPECT_TRUE(Trace(server.stub(), Request(0, 3)).status.ok());
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.Output(), HasSubstr("accepting for a while yet"));
}

TEST_F(DrainTest, CancelsWhatTakesTooLongAndSaysSo) {
  ServerProcess server(Arguments({"--drain-timeout", "100ms"}));
  ASSERT_NE(server.AwaitAddress(), "") << server.Output();
  v1::TraceRequest request = Request(0, 3);
  // Read by nobody, it would last until it stalls.
  for (int i = 0; i < 60; ++i) *request.add_runs() = Request(i, 400).runs(0);
  request.add_captures()->set_hook_points("layers.*.mlp_gate_up");
  grpc::ClientContext context;
  const auto reader = server.stub().Trace(&context, request);
  v1::TraceResponse response;
  ASSERT_TRUE(reader->Read(&response));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.Output(), HasSubstr("1 requests cancelled"));
  while (reader->Read(&response)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

// Clients that go on asking, over one channel to both servers.
class Callers {
 public:
  Callers(const std::string& addresses, int count) {
    grpc::ChannelArguments arguments;
    // They turn from servers that say NOT_SERVING, and try elsewhere what one
    // refuses as it stops.
    arguments.SetServiceConfigJSON(ReadmeServiceConfig());
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 300);
    stub_ = v1::ActivationService::NewStub(grpc::CreateCustomChannel(
        addresses, grpc::InsecureChannelCredentials(), arguments));
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, i] { Ask(i); });
    }
  }
  // How many answers came; each that failed is a failure of the test.
  int Stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
    return answered_;
  }
  void AwaitMore(int count) {
    const int before = answered_;
    while (answered_ < before + count) std::this_thread::yield();
  }

 private:
  void Ask(int number) {
    const v1::TraceRequest request = Request(number, 40);
    std::map<int, std::string> expected;
    while (!stopping_) {
      const TraceAnswer answer = Trace(*stub_, request);
      EXPECT_TRUE(answer.status.ok())
          << answer.status.error_code() << answer.status.error_message();
      if (expected.empty()) expected = answer.bytes;
      EXPECT_EQ(answer.bytes, expected);
      ++answered_;
    }
  }

  std::unique_ptr<v1::ActivationService::Stub> stub_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> answered_ = 0;
  std::vector<std::thread> threads_;
};

class RollingRestartTest : public DrainTest,
                           public ::testing::WithParamInterface<const char*> {};

// Without a grace, too: then more requests are refused.
INSTANTIATE_TEST_SUITE_P(Graces, RollingRestartTest,
                         ::testing::Values("0s", "300ms"));

TEST_P(RollingRestartTest, LosesNoRequestOfAClientWithTwoServers) {
  const auto start = [&](const std::string& address) {
    auto server = std::make_unique<ServerProcess>(
        Arguments({"--listen", address, "--drain-grace", GetParam()}));
    EXPECT_NE(server->AwaitAddress(), "") << server->Output();
    return server;
  };
  std::vector<std::unique_ptr<ServerProcess>> servers;
  std::vector<std::string> addresses;
  for (int i = 0; i < 2; ++i) {
    servers.push_back(start("127.0.0.1:0"));
    addresses.push_back(servers.back()->AwaitAddress());
  }
  Callers callers(absl::StrCat("ipv4:", addresses[0], ",", addresses[1]), 4);
  callers.AwaitMore(20);
  for (int i = 0; i < 2; ++i) {
    servers[i]->Signal(SIGTERM);
    EXPECT_EQ(servers[i]->Wait(), 0) << servers[i]->Output();
    EXPECT_THAT(servers[i]->Output(), HasSubstr("trace ended"));
    callers.AwaitMore(20);
    servers[i] = start(addresses[i]);
    // Callers come back to it before the other one goes.
    EXPECT_TRUE(servers[i]->AwaitLog("trace ended"));
  }
  EXPECT_GT(callers.Stop(), 60);
}

}  // namespace
}  // namespace phitap
