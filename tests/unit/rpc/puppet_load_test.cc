// Many clients at once over waves that run freely: every call ends, with the
// right bytes or with a reason, and nothing is held afterwards. Links no
// libtorch, so that it can be built with the preset `tsan`.
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/puppet_server.h"
#include "tests/support/trace_answer.h"

namespace phitap {
namespace {

constexpr int kClients = 8;
constexpr int kCallsOfClient = 40;

v1::TraceRequest LayerOutputs(int runs, int tokens) {
  v1::TraceRequest request;
  for (int run = 0; run < runs; ++run) {
    v1::TokenIds& ids = *request.add_runs()->mutable_prompt()->mutable_tokens();
    for (int i = 0; i < tokens; ++i) ids.add_ids(1 + i % 7);
  }
  request.add_captures()->set_hook_points("layers.*.layer_output");
  return request;
}

// One of those that share the server. Thread-compatible.
class LoadClient {
 public:
  LoadClient(PuppetServer& server, unsigned seed)
      : stub_(v1::ActivationService::NewStub(grpc::CreateChannel(
            server.rpc().address(), grpc::InsecureChannelCredentials()))),
        random_(seed),
        name_(absl::StrCat("client", seed)) {}

  void CallAround() {
    for (int i = 0; i < kCallsOfClient; ++i) {
      switch (random_() % 5) {
        case 0:
          GiveUp();
          break;
        case 1:
          Keep();
          break;
        case 2:
          LookAround();
          break;
        default:
          ExpectAnswer();
      }
    }
  }

  int answered() const { return answered_; }

 private:
  // Whole and right, or refused because the server has its hands full.
  void ExpectAnswer() {
    const TraceAnswer answer =
        Trace(*stub_, LayerOutputs(1 + random_() % 3, 1 + random_() % 90));
    if (!answer.status.ok()) {
      EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE)
          << answer.status.error_message();
      return;
    }
    ++answered_;
    ASSERT_TRUE(answer.summary.has_value());
    for (const auto& [tensor, bytes] : answer.bytes) {
      EXPECT_EQ(bytes, std::string(bytes.size(), static_cast<char>(tensor)));
    }
  }

  // Reads some messages, then cancels, expires or lets go.
  void GiveUp() {
    grpc::ClientContext context;
    if (random_() % 3 == 0) {
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::microseconds(random_() % 3000));
    }
    const auto reader = stub_->Trace(&context, LayerOutputs(2, 400));
    v1::TraceResponse response;
    for (int left = static_cast<int>(random_() % 6);
         left > 0 && reader->Read(&response); --left) {
    }
    if (random_() % 2 == 0) context.TryCancel();
    while (reader->Read(&response)) {
    }
    reader->Finish();
  }

  void Keep() {
    grpc::ClientContext context;
    v1::PutTensorResponse response;
    const auto writer = stub_->PutTensor(&context, &response);
    const std::string bytes(4096, 'k');
    v1::PutTensorRequest header, chunk;
    header.mutable_header()->set_name(name_);
    header.mutable_header()->set_dtype(v1::DATA_TYPE_F32);
    header.mutable_header()->add_shape(1024);
    chunk.mutable_chunk()->set_data(bytes);
    chunk.mutable_chunk()->set_xxh3(XXH3_64bits(bytes.data(), bytes.size()));
    const bool sent = writer->Write(header) && writer->Write(chunk);
    if (random_() % 4 == 0) context.TryCancel();
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    EXPECT_TRUE(!status.ok() || sent);
  }

  void LookAround() {
    grpc::ClientContext listing, deleting, planning;
    v1::ListTensorsResponse tensors;
    EXPECT_TRUE(stub_->ListTensors(&listing, {}, &tensors).ok());
    v1::DeleteTensorRequest request;
    request.set_name(name_);
    v1::DeleteTensorResponse deleted;
    stub_->DeleteTensor(&deleting, request, &deleted);
    v1::PlanTraceRequest asked;
    *asked.mutable_trace() = LayerOutputs(2, 20);
    v1::PlanTraceResponse plan;
    EXPECT_TRUE(stub_->PlanTrace(&planning, asked, &plan).ok());
  }

  const std::unique_ptr<v1::ActivationService::Stub> stub_;
  std::mt19937 random_;
  const std::string name_;
  int answered_ = 0;
};

TEST(PuppetLoad, EndsEveryCallAndHoldsNothing) {
  PuppetServer server;
  server.stage().RunFreely();
  std::vector<std::unique_ptr<LoadClient>> clients;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<LoadClient>(server, i));
    threads.emplace_back(
        [client = clients.back().get()] { client->CallAround(); });
  }
  std::atomic<bool> done = false;
  std::thread watch([&] {
    while (!done) {
      server.clock().Advance(absl::Microseconds(100));
      server.watch().CheckAll();
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  watch.join();
  for (const auto& client : clients) EXPECT_GT(client->answered(), 0);
  server.watch().AwaitNone();
  EXPECT_EQ(server.scheduler().undelivered_bytes(), 0);
}

TEST(PuppetLoad, AnswersOrRefusesWhatComesWhileItStops) {
  PuppetServer server;
  server.stage().RunFreely();
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      for (bool accepted = true; accepted;) {
        const TraceAnswer answer = Trace(server.stub(), LayerOutputs(1, 50));
        accepted = answer.status.ok();
        EXPECT_EQ(accepted, answer.summary.has_value());
        if (accepted) continue;
        EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE);
        ++refused;
      }
    });
  }
  server.rpc().TellNotServing();
  server.scheduler().StopAccepting();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, kClients);
  server.watch().AwaitNone();
}

}  // namespace
}  // namespace phitap
