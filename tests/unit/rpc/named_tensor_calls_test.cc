// PutTensor, ListTensors and DeleteTensor through a real gRPC server.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/grpc_status.h"
#include "tests/support/puppet_server.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

// A PutTensor call, message by message.
class PutCall {
 public:
  explicit PutCall(PuppetServer& server)
      : writer_(server.stub().PutTensor(&context_, &response)) {}

  bool SendHeader(const std::string& name, int64_t floats) {
    v1::PutTensorRequest request;
    v1::PutTensorHeader& header = *request.mutable_header();
    header.set_name(name);
    header.set_dtype(v1::DATA_TYPE_F32);
    header.add_shape(floats);
    return writer_->Write(request);
  }
  // All of `bytes` in pieces of at most `piece_bytes`.
  void SendAll(const std::string& bytes, size_t piece_bytes) {
    for (size_t offset = 0; offset < bytes.size(); offset += piece_bytes) {
      v1::PutTensorRequest request;
      v1::PutTensorChunk& chunk = *request.mutable_chunk();
      chunk.set_offset_bytes(static_cast<int64_t>(offset));
      chunk.set_data(bytes.substr(offset, piece_bytes));
      if (offset + piece_bytes >= bytes.size()) {
        chunk.set_xxh3(XXH3_64bits(bytes.data(), bytes.size()));
      }
      if (!writer_->Write(request)) return;
    }
  }
  grpc::Status Finish() {
    writer_->WritesDone();
    return writer_->Finish();
  }
  // Waits for the server to end the call.
  grpc::Status FinishWithoutEnding() { return writer_->Finish(); }
  grpc::ClientContext& context() { return context_; }

  v1::PutTensorResponse response;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientWriter<v1::PutTensorRequest>> writer_;
};

grpc::Status Put(PuppetServer& server, const std::string& name,
                 const std::string& bytes) {
  PutCall call(server);
  call.SendHeader(name, static_cast<int64_t>(bytes.size()) / 4);
  call.SendAll(bytes, 1000);
  return call.Finish();
}

v1::ListTensorsResponse List(PuppetServer& server, const std::string& prefix) {
  grpc::ClientContext context;
  v1::ListTensorsRequest request;
  request.set_prefix(prefix);
  v1::ListTensorsResponse response;
  EXPECT_TRUE(server.stub().ListTensors(&context, request, &response).ok());
  return response;
}

grpc::Status Delete(PuppetServer& server, const std::string& name) {
  grpc::ClientContext context;
  v1::DeleteTensorRequest request;
  request.set_name(name);
  v1::DeleteTensorResponse response;
  return server.stub().DeleteTensor(&context, request, &response);
}

std::string Ramp(size_t bytes) {
  std::string ramp;
  for (size_t i = 0; i < bytes; ++i) ramp += static_cast<char>(i * 7 >> 2);
  return ramp;
}

TEST(NamedTensorCalls, KeepsWhatComesInManyPieces) {
  PuppetServer server;
  const std::string bytes = Ramp(40'000);
  PutCall call(server);
  call.SendHeader("sae/W", 10'000);
  call.SendAll(bytes, 999);
  const grpc::Status status = call.Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(call.response.tensor().name(), "sae/W");
  EXPECT_EQ(call.response.tensor().size_bytes(), 40'000);
  const HostTensor kept = *server.tensors().Find("sae/W", "");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(kept.bytes.data()),
                        kept.bytes.size()),
            bytes);
}

TEST(NamedTensorCalls, ListsByPrefixAndSaysHowMuchIsUsed) {
  PuppetServer server;
  ASSERT_TRUE(Put(server, "b", Ramp(8)).ok());
  ASSERT_TRUE(Put(server, "sae/b", Ramp(12)).ok());
  ASSERT_TRUE(Put(server, "sae/a", Ramp(16)).ok());
  const v1::ListTensorsResponse all = List(server, "");
  ASSERT_EQ(all.tensors_size(), 3);
  EXPECT_EQ(all.used_bytes(), 36);
  EXPECT_EQ(all.limit_bytes(), 1 << 20);
  const v1::ListTensorsResponse some = List(server, "sae/");
  ASSERT_EQ(some.tensors_size(), 2);
  EXPECT_EQ(some.tensors(0).name(), "sae/a");
  EXPECT_EQ(some.tensors(0).shape(0), 4);
}

TEST(NamedTensorCalls, DeletesAndSaysWhatIsNotThere) {
  PuppetServer server;
  ASSERT_TRUE(Put(server, "means", Ramp(8)).ok());
  const grpc::Status missing = Delete(server, "mean");
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(missing.error_message(), HasSubstr("means"));
  EXPECT_TRUE(Delete(server, "means").ok());
  EXPECT_EQ(List(server, "").tensors_size(), 0);
}

TEST(NamedTensorCalls, RefusesAtTheHeaderWithoutReadingOn) {
  PuppetServer server({.max_tensor_bytes = 100});
  PutCall call(server);
  call.SendHeader("a", 26);
  // Not one chunk is sent: the answer is there already.
  const grpc::Status status = call.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("104"));
  const auto& metadata = call.context().GetServerTrailingMetadata();
  const auto field = metadata.find(kFieldMetadata);
  ASSERT_NE(field, metadata.end());
  EXPECT_EQ(std::string(field->second.data(), field->second.size()),
            "header.name");
}

TEST(NamedTensorCalls, EndsAnUploadOfTooManyBytesWhileItComes) {
  PuppetServer server;
  PutCall call(server);
  call.SendHeader("a", 100);
  call.SendAll(Ramp(4'000'000), 1000);  // Stops once the server has refused.
  const grpc::Status status = call.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("chunk."));
  EXPECT_EQ(server.tensors().used_bytes(), 0);
}

TEST(NamedTensorCalls, KeepsNothingOfAnUploadThatIsCancelled) {
  PuppetServer server;
  {
    PutCall call(server);
    call.SendHeader("a", 10);
    call.context().TryCancel();
    EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  server.watch().AwaitNone();  // The server has seen it.
  EXPECT_EQ(server.tensors().used_bytes(), 0);
  EXPECT_TRUE(Put(server, "a", Ramp(40)).ok());
}

TEST(NamedTensorCalls, EndsAnUploadThatSendsNothing) {
  PuppetServer server({.limits = {.stall_timeout = absl::Seconds(60)}});
  PutCall call(server);
  call.SendHeader("a", 10);
  // Until the call has come, there is nothing to end.
  std::atomic<bool> ended = false;
  std::thread watcher([&] {
    while (!ended) {
      server.clock().Advance(absl::Seconds(61));
      server.watch().CheckAll();
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(call.FinishWithoutEnding().error_code(),
            grpc::StatusCode::CANCELLED);
  ended = true;
  watcher.join();
  EXPECT_EQ(server.tensors().used_bytes(), 0);
}

TEST(NamedTensorCalls, TakesUploadsOfManyClientsAtOnce) {
  PuppetServer server;
  std::vector<std::thread> clients;
  for (int client = 0; client < 6; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 8; ++i) {
        const std::string name = absl::StrCat("t", (client + i) % 3);
        ASSERT_TRUE(Put(server, name, Ramp(9'000)).ok());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(List(server, "").tensors_size(), 3);
  EXPECT_EQ(server.tensors().used_bytes(), 27'000);
}

}  // namespace
}  // namespace phitap
