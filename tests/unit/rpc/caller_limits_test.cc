#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <memory>
#include <string>
#include <thread>

#include "server/rpc/grpc_status.h"
#include "tests/support/puppet_server.h"
#include "tests/support/readme_config.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A client with a connection of its own.
class Client {
 public:
  explicit Client(PuppetServer& server, const std::string& config = "{}") {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetServiceConfigJSON(config);
    stub_ = v1::ActivationService::NewStub(grpc::CreateCustomChannel(
        server.rpc().address(), grpc::InsecureChannelCredentials(), arguments));
  }
  v1::ActivationService::Stub& stub() { return *stub_; }

 private:
  std::unique_ptr<v1::ActivationService::Stub> stub_;
};

// A call for the outputs of both layers: 8,192 bytes a token, which may be
// views of twice as many.
class LayersCall {
 public:
  LayersCall(Client& client, int token_count)
      : reader_(client.stub().Trace(&context_, Request(token_count))) {}

  // Blocks until it has been accepted, or has ended.
  bool Accepted() {
    v1::TraceResponse response;
    return reader_->Read(&response) && response.has_header();
  }
  grpc::Status Finish() {
    v1::TraceResponse response;
    while (reader_->Read(&response)) {
    }
    return reader_->Finish();
  }
  // Of the trailers; empty where there is none.
  std::string RetryHint() {
    const auto& metadata = context_.GetServerTrailingMetadata();
    const auto entry = metadata.find(kRetryMetadata);
    if (entry == metadata.end()) return "";
    return std::string(entry->second.data(), entry->second.size());
  }

 private:
  static v1::TraceRequest Request(int token_count) {
    v1::TraceRequest request;
    v1::TokenIds& ids = *request.add_runs()->mutable_prompt()->mutable_tokens();
    for (int i = 0; i < token_count; ++i) ids.add_ids(1 + i % 7);
    request.add_captures()->set_hook_points("layers.*.layer_output");
    return request;
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::TraceResponse>> reader_;
};

TEST(CallerLimits, SayWhenToTryAgainWhereTheQueueIsFull) {
  PuppetServer server({.schedule = {.queue = {.max_requests = 1}}});
  Client client(server);
  LayersCall running(client, 3);
  server.stage().Await();
  LayersCall queued(client, 3);
  EXPECT_TRUE(queued.Accepted());
  LayersCall refused(client, 3);
  const grpc::Status status = refused.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("1 of at most 1"), HasSubstr("try again in 1s")));
  EXPECT_EQ(refused.RetryHint(), "1000");
  server.stage().RunFreely();
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_TRUE(queued.Finish().ok());
}

// Blocks until the queue has been too full for somebody.
void AwaitRefusal(const PuppetServer& server) {
  const std::string counted = "reason=\"queue_full\"} 1\n";
  while (prometheus::TextSerializer()
             .Serialize(server.metrics().Collect())
             .find(counted) == std::string::npos) {
    std::this_thread::yield();
  }
}

TEST(CallerLimits, AreWaitedOutByClientsThatAreConfiguredToTryAgain) {
  PuppetServer server({.schedule = {.queue = {.max_requests = 1}}});
  Client client(server);
  LayersCall running(client, 3);
  server.stage().Await();
  LayersCall queued(client, 3);
  EXPECT_TRUE(queued.Accepted());
  Client patient(server, ReadmeServiceConfig());
  const absl::Time asked_at = absl::Now();
  LayersCall tried_again(patient, 3);
  AwaitRefusal(server);
  server.stage().RunFreely();
  const grpc::Status status = tried_again.Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  // Not after the client's own 0.1 s, but when the server said.
  EXPECT_GE(absl::Now() - asked_at, absl::Milliseconds(900));
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_TRUE(queued.Finish().ok());
}

TEST(CallerLimits, SayWhenToTryAgainWhereBytesAreTaken) {
  PuppetServer server({.schedule = {.memory = {.max_undelivered_bytes = 200'000,
                                               .max_caller_bytes = 200'000}}});
  Client client(server);
  LayersCall running(client, 10);  // Up to 163,840 bytes.
  server.stage().Await();
  LayersCall refused(client, 10);
  const grpc::Status status = refused.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(
      status.error_message(),
      AllOf(HasSubstr("needs 163840"), HasSubstr("not free of the 200000")));
  EXPECT_EQ(refused.RetryHint(), "1000");
  server.stage().RunFreely();
  EXPECT_TRUE(running.Finish().ok());
  LayersCall next(client, 10);
  EXPECT_TRUE(next.Finish().ok());
}

TEST(CallerLimits, HintAtNothingWhereARequestCanNeverFit) {
  PuppetServer server(
      {.schedule = {.memory = {.max_undelivered_bytes = 100'000}}});
  Client client(server);
  LayersCall refused(client, 10);
  const grpc::Status status = refused.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("at most 50000 of the 100000"));
  EXPECT_EQ(refused.RetryHint(), "");
}

TEST(CallerLimits, CountTheCallsOfAConnectionTogetherAndOthersApart) {
  PuppetServer server(
      {.schedule = {.memory = {.max_undelivered_bytes = 100'000}}});
  Client client(server);
  Client other(server);
  LayersCall running(client, 2);  // Up to 32,768 bytes of 50,000.
  server.stage().Await();
  LayersCall refused(client, 2);
  EXPECT_THAT(refused.Finish().error_message(),
              HasSubstr("17232 of the 50000"));
  LayersCall accepted(other, 2);
  EXPECT_TRUE(accepted.Accepted());
  server.stage().RunFreely();
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_TRUE(accepted.Finish().ok());
}

}  // namespace
}  // namespace phitap
