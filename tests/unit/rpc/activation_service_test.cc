#include "server/rpc/activation_service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/rpc/grpc_status.h"
#include "server/rpc/request_id.h"
#include "tests/support/puppet_server.h"
#include "tests/support/raw_call.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

v1::TraceRequest LayerOutputs(std::vector<int> tokens_of_runs) {
  v1::TraceRequest request;
  for (int tokens : tokens_of_runs) {
    v1::TokenIds& ids = *request.add_runs()->mutable_prompt()->mutable_tokens();
    for (int i = 0; i < tokens; ++i) ids.add_ids(1 + i % 7);
  }
  request.add_captures()->set_hook_points("layers.*.layer_output");
  return request;
}

// A Trace call read by hand.
class TraceCall {
 public:
  TraceCall(PuppetServer& server, const v1::TraceRequest& request)
      : reader_(server.stub().Trace(&context_, request)) {}
  TraceCall(PuppetServer& server, const v1::TraceRequest& request,
            std::chrono::system_clock::time_point deadline)
      : reader_((context_.set_deadline(deadline),
                 server.stub().Trace(&context_, request))) {}

  bool Read(v1::TraceResponse* response) { return reader_->Read(response); }
  // Reads up to the first message of this kind.
  v1::TraceResponse ReadUpTo(v1::TraceResponse::MessageCase kind) {
    v1::TraceResponse response;
    while (Read(&response) && response.message_case() != kind) {
    }
    return response;
  }
  // Reads the rest; keeps the tensors' bytes and the summary.
  grpc::Status Finish() {
    v1::TraceResponse response;
    while (Read(&response)) {
      if (response.has_chunk()) {
        tensors[response.chunk().tensor()] += response.chunk().data();
        if (response.chunk().has_xxh3()) {
          hashes[response.chunk().tensor()] = response.chunk().xxh3();
        }
      }
      if (response.has_summary()) summary = response.summary();
    }
    return reader_->Finish();
  }
  grpc::ClientContext& context() { return context_; }

  std::map<int, std::string> tensors;
  std::map<int, uint64_t> hashes;
  std::optional<v1::TraceSummary> summary;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::TraceResponse>> reader_;
};

TEST(ActivationService, StreamsWhatTheWavesDeliver) {
  PuppetServer server;
  server.stage().RunFreely();
  TraceCall call(server, LayerOutputs({3, 400}));
  const grpc::Status status = call.Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_TRUE(call.summary.has_value());
  EXPECT_EQ(call.summary->tensor_count(), 4);
  EXPECT_EQ(call.summary->runs_size(), 2);
  ASSERT_EQ(call.tensors.size(), 4u);
  for (const auto& [tensor, bytes] : call.tensors) {
    const size_t size = (tensor < 2 ? 3 : 400) * 1024 * 4;
    EXPECT_EQ(bytes, std::string(bytes.size(), static_cast<char>(tensor)));
    EXPECT_EQ(call.hashes[tensor], XXH3_64bits(bytes.data(), bytes.size()));
    EXPECT_TRUE(bytes.size() == size || bytes.size() == 403 * 1024 * 4 - size);
  }
}

TEST(ActivationService, SendsTensorsBeforeTheWaveEnds) {
  PuppetServer server;
  TraceCall call(server, LayerOutputs({3}));
  const std::vector<WaveRun> rows = server.stage().Await();
  EXPECT_EQ(call.ReadUpTo(v1::TraceResponse::kHeader).header().model(), "tiny");
  const PlannedTensor& planned = rows[0].plan->tensors[1];
  rows[0].sink->Deliver(1, CopyOf(planned.dtype, planned.shape,
                                  std::vector<std::byte>(planned.size_bytes)));
  EXPECT_EQ(call.ReadUpTo(v1::TraceResponse::kTensor).tensor().tensor(), 1);
  EXPECT_TRUE(call.ReadUpTo(v1::TraceResponse::kChunk).chunk().has_xxh3());
  server.stage().Complete(
      {{.status = absl::InternalError("stopped half way")}});
  ASSERT_TRUE(call.Finish().ok());
  EXPECT_EQ(call.summary->runs(0).code(), 13);
  EXPECT_EQ(call.summary->runs(0).message(), "stopped half way");
}

TEST(ActivationService, SendsTheRequestIdInMetadataAndHeader) {
  PuppetServer server;
  server.stage().RunFreely();
  TraceCall call(server, LayerOutputs({3}));
  const std::string id =
      call.ReadUpTo(v1::TraceResponse::kHeader).header().request_id();
  ASSERT_TRUE(call.Finish().ok());
  const auto& metadata = call.context().GetServerInitialMetadata();
  const auto entry = metadata.find(kRequestIdMetadata);
  ASSERT_NE(entry, metadata.end());
  EXPECT_EQ(std::string(entry->second.data(), entry->second.size()), id);
}

TEST(ActivationService, CancelsTheRunsOfAClientThatGoesAway) {
  PuppetServer server;
  {
    TraceCall call(server, LayerOutputs({3}));
    const std::vector<WaveRun> rows = server.stage().Await();
    EXPECT_FALSE(rows[0].sink->Cancelled(0));
    call.context().TryCancel();
    EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  server.watch().AwaitNone();  // The server has seen it.
  EXPECT_TRUE(server.stage().Await()[0].sink->Cancelled(0));
  EXPECT_EQ(server.scheduler().undelivered_bytes(), 0);
  server.stage().Complete({{.status = absl::CancelledError("")}});
  server.stage().RunFreely();
  TraceCall next(server, LayerOutputs({3}));
  EXPECT_TRUE(next.Finish().ok());
}

TEST(ActivationService, CancelsAStreamHalfWayThroughATensor) {
  PuppetServer server;
  server.stage().RunFreely();
  {
    TraceCall call(server, LayerOutputs({20000}));  // 2 tensors of 80 MB.
    EXPECT_TRUE(call.ReadUpTo(v1::TraceResponse::kChunk).has_chunk());
    call.context().TryCancel();
    EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  server.watch().AwaitNone();
  EXPECT_EQ(server.scheduler().undelivered_bytes(), 0);
  TraceCall next(server, LayerOutputs({3}));
  EXPECT_TRUE(next.Finish().ok());
}

TEST(ActivationService, EndsATraceAtTheDefaultDeadline) {
  PuppetServer server({.limits = {.default_deadline = absl::Seconds(30)}});
  TraceCall call(server, LayerOutputs({3}));
  call.ReadUpTo(v1::TraceResponse::kHeader);
  const std::vector<WaveRun> rows = server.stage().Await();
  server.clock().Advance(absl::Seconds(29));
  server.watch().CheckAll();
  EXPECT_FALSE(rows[0].sink->Cancelled(0));
  server.clock().Advance(absl::Seconds(1));
  server.watch().CheckAll();
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(rows[0].sink->Cancelled(0));
}

TEST(ActivationService, CutsTheClientsDeadlineToTheLongest) {
  PuppetServer server({.limits = {.max_deadline = absl::Seconds(5)}});
  TraceCall call(server, LayerOutputs({3}),
                 std::chrono::system_clock::now() + std::chrono::hours(1));
  call.ReadUpTo(v1::TraceResponse::kHeader);
  server.clock().Advance(absl::Seconds(5));
  server.watch().CheckAll();
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST(ActivationService, CountsWhatIsLeftOfADeadlineByItsOwnClock) {
  PuppetServer server({.limits = {.stall_timeout = absl::Hours(1)}});
  TraceCall call(server, LayerOutputs({3}),
                 std::chrono::system_clock::now() + std::chrono::minutes(10));
  call.ReadUpTo(v1::TraceResponse::kHeader);
  const std::vector<WaveRun> rows = server.stage().Await();
  server.clock().Advance(absl::Minutes(9));
  server.watch().CheckAll();
  EXPECT_FALSE(rows[0].sink->Cancelled(0));
  // gRPC rounds up what it sends.
  server.clock().Advance(absl::Minutes(2));
  server.watch().CheckAll();
  EXPECT_TRUE(rows[0].sink->Cancelled(0));
}

TEST(ActivationService, EndsAStreamWhoseReaderTakesNothing) {
  PuppetServer server({.limits = {.stall_timeout = absl::Seconds(60)}});
  server.stage().RunFreely();
  TraceCall call(server, LayerOutputs({20000}));
  EXPECT_TRUE(call.ReadUpTo(v1::TraceResponse::kChunk).has_chunk());
  // Not read on: sooner or later a write waits for the reader.
  while (server.scheduler().undelivered_bytes() > 0) {
    server.clock().Advance(absl::Seconds(61));
    server.watch().CheckAll();
    std::this_thread::yield();
  }
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_FALSE(call.summary.has_value());
}

TEST(ActivationService, RefusesWhileItStopsAndFinishesWhatItAccepted) {
  PuppetServer server;
  TraceCall running(server, LayerOutputs({3}));
  server.stage().Await();
  server.scheduler().StopAccepting();
  TraceCall late(server, LayerOutputs({3}));
  const grpc::Status status = late.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("stopping"));
  server.stage().RunFreely();
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_TRUE(running.summary.has_value());
}

TEST(ActivationService, NamesTheFieldOfARefusalInTheTrailers) {
  PuppetServer server;
  v1::TraceRequest request = LayerOutputs({3});
  request.mutable_captures(0)->set_hook_points("layers.7.layer_output");
  TraceCall call(server, request);
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto& metadata = call.context().GetServerTrailingMetadata();
  const auto entry = metadata.find(kFieldMetadata);
  ASSERT_NE(entry, metadata.end());
  EXPECT_EQ(std::string(entry->second.data(), entry->second.size()),
            "captures[0].hook_points");
}

TEST(ActivationService, RefusesAVeryLongNameWithAMessageThatFits) {
  PuppetServer server;
  v1::TraceRequest request = LayerOutputs({3});
  request.mutable_captures(0)->set_hook_points(std::string(1 << 20, 'x'));
  TraceCall call(server, request);
  const grpc::Status status = call.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("captures[0].hook_points"));
}

TEST(ActivationService, RefusesFieldsThatItDoesNotKnow) {
  PuppetServer server;
  v1::TraceRequest request = LayerOutputs({3});
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(99, 1);
  TraceCall call(server, request);
  const grpc::Status status = call.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("99"));
}

TEST(ActivationService, RefusesBytesThatAreNoRequest) {
  PuppetServer server;
  RawCall call(server.channel(), "/phitap.v1.ActivationService/Trace",
               "\x0a\xff\xff");
  EXPECT_FALSE(call.Read().has_value());
  const grpc::Status status = call.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("TraceRequest"));
}

TEST(ActivationService, RefusesMoreCallsThanMayWait) {
  PuppetServer server({.max_waiting_calls = 0});
  grpc::ClientContext context;
  v1::ListModelsResponse response;
  EXPECT_EQ(server.stub().ListModels(&context, {}, &response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  TraceCall call(server, LayerOutputs({3}));
  const grpc::Status status = call.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("0 of at most 0"));
}

TEST(ActivationService, PlansWithoutRunning) {
  PuppetServer server;
  grpc::ClientContext context;
  v1::PlanTraceRequest request;
  *request.mutable_trace() = LayerOutputs({3, 5});
  v1::PlanTraceResponse response;
  const grpc::Status status =
      server.stub().PlanTrace(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.tensors_size(), 4);
  EXPECT_EQ(response.runs_size(), 2);
  EXPECT_EQ(response.size_bytes(), 2 * 8 * 1024 * 4);
}

TEST(ActivationService, DescribesItsModels) {
  PuppetServer server;
  grpc::ClientContext list_context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(server.stub().ListModels(&list_context, {}, &list).ok());
  ASSERT_EQ(list.models_size(), 1);
  EXPECT_EQ(list.models(0).name(), "tiny");
  EXPECT_EQ(list.models(0).weights_digest(), "feed");
  EXPECT_FALSE(list.models(0).has_tokenizer());

  grpc::ClientContext context;
  v1::GetModelResponse response;
  ASSERT_TRUE(server.stub().GetModel(&context, {}, &response).ok());
  EXPECT_EQ(response.model().summary().config().num_layers(), 2);
  EXPECT_GT(response.model().hook_points_size(), 20);
  EXPECT_THAT(response.model().printout(), HasSubstr("layer_output"));
  EXPECT_EQ(response.model().row_rule(), "multiples of 16 rows");
}

TEST(ActivationService, SaysSoWhereAModelHasNoTokenizer) {
  PuppetServer server;
  grpc::ClientContext context;
  v1::TokenizeRequest request;
  request.set_text("hello");
  v1::TokenizeResponse response;
  const grpc::Status status =
      server.stub().Tokenize(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("tokenizer.json"));
}

TEST(ActivationService, ServesManyClientsAtOnce) {
  PuppetServer server;
  server.stage().RunFreely();
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 10; ++i) {
        TraceCall call(server, LayerOutputs({1 + client, 600}));
        const grpc::Status status = call.Finish();
        ASSERT_TRUE(status.ok()) << status.error_message();
        ASSERT_EQ(call.summary->tensor_count(), 4);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  server.watch().AwaitNone();
  EXPECT_EQ(server.scheduler().undelivered_bytes(), 0);
}

TEST(RpcServer, RefusesAnAddressThatIsInUse) {
  PuppetServer server;
  ActivationService service({});
  const absl::Status status =
      RpcServer::Start({.listen = server.rpc().address()}, {&service}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--listen: cannot listen on 127.0.0.1:"));
}

TEST(RpcServer, RefusesARequestLargerThanItsLimit) {
  PuppetServer server(
      {.rpc = {.listen = "127.0.0.1:0", .max_request_bytes = 1000}});
  TraceCall call(server, LayerOutputs({2000}));
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  server.stage().RunFreely();
  TraceCall next(server, LayerOutputs({3}));
  EXPECT_TRUE(next.Finish().ok());
}

}  // namespace
}  // namespace phitap
