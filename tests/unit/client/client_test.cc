#include "client/cpp/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "tests/support/status_matchers.h"
#include "tests/unit/client/canned_server.h"
#include "tests/unit/client/small_streams.h"

namespace phitap::client {
namespace {

using testing::HasSubstr;

class ClientTest : public testing::Test {
 protected:
  absl::StatusOr<phitap::client::Trace> Trace(const CallOptions& options = {}) {
    absl::StatusOr<Client> client =
        Client::Connect({.address = server_.address()});
    if (!client.ok()) return client.status();
    return client->Trace(v1::TraceRequest(), options,
                         {.on_progress = [this](const TraceProgress& progress) {
                           progress_.push_back(progress);
                         }});
  }

  CannedServer server_;
  CannedService& service_ = server_.service();
  std::vector<TraceProgress> progress_;
};

TEST_F(ClientTest, ReceivesATraceAndTellsHowFarItIs) {
  service_.messages = SmallStream().messages;
  const absl::StatusOr<phitap::client::Trace> trace = Trace();
  ASSERT_THAT(trace, IsOk());
  EXPECT_EQ(trace->tensors.size(), 1);
  ASSERT_EQ(progress_.size(), service_.messages.size());
  EXPECT_EQ(progress_[SmallStream::kFirstChunk].received_bytes, 10);
  EXPECT_EQ(progress_.back().received_bytes, 24);
  EXPECT_EQ(progress_.back().total_bytes, 24);
}

TEST_F(ClientTest, ReceivesMessagesLargerThanGrpcsOwnLimit) {
  // Nothing keeps a later server from larger chunks.
  const std::string bytes(8 << 20, 'x');
  SmallStream stream;
  v1::TensorDescriptor& tensor =
      *stream.messages[SmallStream::kTensor].mutable_tensor();
  tensor.set_shape(0, static_cast<int64_t>(bytes.size()) / 8);
  tensor.set_size_bytes(static_cast<int64_t>(bytes.size()));
  stream.messages[SmallStream::kHeader].mutable_header()->set_size_bytes(
      tensor.size_bytes());
  stream.messages[SmallStream::kSummary].mutable_summary()->set_size_bytes(
      tensor.size_bytes());
  stream.messages[SmallStream::kLastChunk] = SmallChunk(0, 0, bytes);
  stream.messages[SmallStream::kLastChunk].mutable_chunk()->set_xxh3(
      XXH3_64bits(bytes.data(), bytes.size()));
  stream.messages.erase(stream.messages.begin() + SmallStream::kFirstChunk);
  service_.messages = stream.messages;
  EXPECT_THAT(Trace(), IsOk());
}

TEST_F(ClientTest, FailsOnABadChecksumWithoutWaitingForTheServer) {
  SmallStream stream;
  stream.messages[SmallStream::kLastChunk].mutable_chunk()->set_xxh3(1);
  service_.messages = stream.messages;
  service_.waits = true;
  EXPECT_THAT(Trace(), StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr("the server sent 0000000000000001")));
}

TEST_F(ClientTest, FailsWhereTheStreamEndsWellButWithoutASummary) {
  service_.messages = SmallStream().messages;
  service_.messages.pop_back();
  EXPECT_THAT(Trace(), StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr("without its summary")));
}

TEST_F(ClientTest, PassesTheServersStatusOn) {
  service_.messages = {SmallStream().messages.front()};
  service_.status =
      grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "captures: too much");
  EXPECT_THAT(Trace(), StatusIs(absl::StatusCode::kResourceExhausted,
                                "captures: too much"));
}

TEST_F(ClientTest, FailsWhereTheStatusIsBadThoughTheStreamIsComplete) {
  service_.messages = SmallStream().messages;
  service_.status = grpc::Status(grpc::StatusCode::INTERNAL, "broke");
  EXPECT_THAT(Trace(), StatusIs(absl::StatusCode::kInternal, "broke"));
}

TEST_F(ClientTest, EndsWithCancelledWhenItIsCancelled) {
  service_.messages = SmallStream().messages;
  service_.messages.pop_back();
  service_.waits = true;
  Cancellation cancellation;
  std::thread canceller([&] {
    service_.sent.WaitForNotification();
    cancellation.Cancel();
  });
  EXPECT_THAT(Trace({.cancellation = &cancellation}),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
  canceller.join();
}

TEST_F(ClientTest, StartsNoCallAfterItWasCancelled) {
  service_.messages = SmallStream().messages;
  Cancellation cancellation;
  cancellation.Cancel();
  EXPECT_THAT(Trace({.cancellation = &cancellation}),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
}

TEST_F(ClientTest, EndsAtItsDeadline) {
  service_.messages = SmallStream().messages;
  service_.messages.pop_back();
  service_.waits = true;
  EXPECT_THAT(Trace({.timeout = absl::Milliseconds(200)}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, testing::_));
}

HostTensor TensorOfBytes(int64_t count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 7);
  return CopyOf(
      DType::kF32, {count / 4},
      {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

TEST_F(ClientTest, UploadsATensorInChunks) {
  const HostTensor tensor = TensorOfBytes((2 << 20) + 8);
  const absl::StatusOr<Client> client =
      Client::Connect({.address = server_.address()});
  ASSERT_THAT(client, IsOk());
  std::vector<int64_t> sent;
  const absl::StatusOr<v1::StoredTensor> stored = client->PutTensor(
      "joy", tensor, {},
      [&sent](int64_t bytes, int64_t) { sent.push_back(bytes); });
  ASSERT_THAT(stored, IsOk());
  EXPECT_EQ(stored->name(), "joy");
  EXPECT_THAT(sent, testing::ElementsAre(0, 1 << 20, 2 << 20, (2 << 20) + 8));
  ASSERT_EQ(service_.uploaded.size(), 4);
  EXPECT_EQ(service_.uploaded[0].header().dtype(), v1::DATA_TYPE_F32);
  EXPECT_THAT(service_.uploaded[0].header().shape(),
              testing::ElementsAre((2 << 18) + 2));
  std::string bytes;
  for (size_t i = 1; i < service_.uploaded.size(); ++i) {
    const v1::PutTensorChunk& chunk = service_.uploaded[i].chunk();
    EXPECT_EQ(chunk.offset_bytes(), static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(chunk.has_xxh3(), i == 3);
    bytes += chunk.data();
  }
  EXPECT_EQ(service_.uploaded[3].chunk().xxh3(),
            XXH3_64bits(bytes.data(), bytes.size()));
  EXPECT_EQ(bytes.size(), tensor.bytes.size());
}

TEST_F(ClientTest, UploadsATensorOfNoBytesAsOneChunk) {
  const absl::StatusOr<Client> client =
      Client::Connect({.address = server_.address()});
  ASSERT_THAT(client, IsOk());
  ASSERT_THAT(client->PutTensor("none", TensorOfBytes(0)), IsOk());
  ASSERT_EQ(service_.uploaded.size(), 2);
  EXPECT_TRUE(service_.uploaded[1].chunk().has_xxh3());
}

TEST_F(ClientTest, PassesARefusedUploadOn) {
  service_.status =
      grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room");
  const absl::StatusOr<Client> client =
      Client::Connect({.address = server_.address()});
  ASSERT_THAT(client, IsOk());
  EXPECT_THAT(client->PutTensor("joy", TensorOfBytes(64 << 20)),
              StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
}

TEST_F(ClientTest, TellsOfTokensAndTensorsAsTheyCome) {
  SmallStream stream;
  v1::TraceResponse token;
  token.mutable_token()->set_run("0");
  token.mutable_token()->set_step(1);
  stream.messages.insert(stream.messages.begin() + SmallStream::kTensor, token);
  stream.messages.back().mutable_summary()->mutable_runs(0)->set_finish_reason(
      v1::FINISH_REASON_LENGTH);
  service_.messages = stream.messages;
  const absl::StatusOr<Client> client =
      Client::Connect({.address = server_.address()});
  ASSERT_THAT(client, IsOk());
  std::vector<std::string> told;
  ASSERT_THAT(client->Trace(v1::TraceRequest(), {},
                            {.on_token =
                                 [&told](const v1::GeneratedToken& token) {
                                   told.push_back(token.run());
                                 },
                             .on_tensor =
                                 [&told](const TracedTensor& tensor) {
                                   told.push_back(tensor.descriptor.label());
                                 }}),
              IsOk());
  EXPECT_THAT(told, testing::ElementsAre("0", "layers.0.layer_output"));
}

TEST_F(ClientTest, ReportsWhatAServerDoesNotImplement) {
  const absl::StatusOr<Client> client =
      Client::Connect({.address = server_.address()});
  ASSERT_THAT(client, IsOk());
  EXPECT_THAT(client->ListModels(),
              StatusIs(absl::StatusCode::kUnimplemented, testing::_));
}

TEST(ClientConnect, FailsAtOnceWhereNobodyListens) {
  // A port that was free a moment ago.
  const std::string address = CannedServer().address();
  const absl::Time start = absl::Now();
  EXPECT_THAT(Client::Connect(
                  {.address = address, .connect_timeout = absl::Minutes(1)}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(address)));
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

TEST(ClientConnect, RefusesWhatIsNoAddress) {
  for (const char* address :
       {"", "localhost", ":7777", "host:", "host:x", "host:65536", "unix:"}) {
    EXPECT_THAT(Client::Connect({.address = address}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("HOST:PORT or unix:PATH")))
        << address;
  }
}

}  // namespace
}  // namespace phitap::client
