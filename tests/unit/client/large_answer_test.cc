// Answers that are large enough to be read ahead.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/client.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/canned_server.h"
#include "tests/unit/client/small_streams.h"

namespace phitap::client {
namespace {

using testing::HasSubstr;

constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kChunks = 12;

std::string LargeBytes() {
  std::string bytes(kChunks * kChunkBytes, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 31 + (i >> 13));
  }
  return bytes;
}

// One tensor in chunks of the largest size; chunk i is message kFirstChunk + i.
std::vector<v1::TraceResponse> LargeStream(const std::string& bytes) {
  SmallStream stream;
  const auto size = static_cast<int64_t>(bytes.size());
  v1::TensorDescriptor& tensor =
      *stream.messages[SmallStream::kTensor].mutable_tensor();
  tensor.set_shape(0, size / 8);
  tensor.set_size_bytes(size);
  stream.messages[SmallStream::kHeader].mutable_header()->set_size_bytes(size);
  stream.messages[SmallStream::kSummary].mutable_summary()->set_size_bytes(
      size);
  std::vector<v1::TraceResponse> messages(
      stream.messages.begin(),
      stream.messages.begin() + SmallStream::kFirstChunk);
  for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
    messages.push_back(
        SmallChunk(0, static_cast<int64_t>(at), bytes.substr(at, kChunkBytes)));
  }
  messages.back().mutable_chunk()->set_xxh3(
      XXH3_64bits(bytes.data(), bytes.size()));
  messages.push_back(stream.messages[SmallStream::kSummary]);
  return messages;
}

class LargeAnswer : public testing::Test {
 protected:
  LargeAnswer() { service_.messages = LargeStream(bytes_); }

  absl::StatusOr<phitap::client::Trace> Trace(
      const CallOptions& options = {}, const TraceCallbacks& callbacks = {}) {
    absl::StatusOr<Client> client =
        Client::Connect({.address = server_.address()});
    if (!client.ok()) return client.status();
    return client->Trace(v1::TraceRequest(), options, callbacks);
  }

  v1::TensorChunk& Chunk(size_t number) {
    return *service_.messages[SmallStream::kFirstChunk + number]
                .mutable_chunk();
  }

  const std::string bytes_ = LargeBytes();
  CannedServer server_;
  CannedService& service_ = server_.service();
};

TEST_F(LargeAnswer, ArrivesWhole) {
  const absl::StatusOr<phitap::client::Trace> trace = Trace();
  ASSERT_THAT(trace, IsOk());
  ASSERT_EQ(trace->tensors.size(), 1);
  const absl::Span<const std::byte> bytes = trace->tensors[0].value.bytes;
  ASSERT_EQ(bytes.size(), bytes_.size());
  EXPECT_EQ(std::memcmp(bytes.data(), bytes_.data(), bytes.size()), 0);
}

TEST_F(LargeAnswer, TellsOfEachMessageOnTheCallersThread) {
  std::vector<int64_t> received;
  bool elsewhere = false;
  const auto caller = std::this_thread::get_id();
  ASSERT_THAT(Trace({}, {.on_progress =
                             [&](const TraceProgress& progress) {
                               received.push_back(progress.received_bytes);
                               elsewhere |=
                                   std::this_thread::get_id() != caller;
                             }}),
              IsOk());
  EXPECT_FALSE(elsewhere);
  ASSERT_EQ(received.size(), service_.messages.size());
  EXPECT_EQ(received[SmallStream::kFirstChunk + 4], 5 << 20);
  EXPECT_TRUE(std::is_sorted(received.begin(), received.end()));
}

TEST_F(LargeAnswer, FailsOnABadChecksumWithoutWaitingForTheServer) {
  Chunk(kChunks - 1).set_xxh3(1);
  service_.waits = true;
  EXPECT_THAT(Trace(), StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr("the server sent 0000000000000001")));
  service_.ended.WaitForNotification();
}

TEST_F(LargeAnswer, FailsWhereAByteHasChanged) {
  (*Chunk(5).mutable_data())[kChunkBytes / 2] ^= 1;
  EXPECT_THAT(Trace(), StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr("its bytes have the checksum")));
}

TEST_F(LargeAnswer, FailsAtAMissingChunkWithAllThatMayBeReadAheadThere) {
  service_.messages.erase(service_.messages.begin() + SmallStream::kFirstChunk +
                          1);
  service_.waits = true;
  // The rest is more than the window, so some of it is ahead by then.
  const auto on_progress = [&](const TraceProgress& progress) {
    if (progress.received_bytes == 1 << 20) {
      service_.sent.WaitForNotification();
    }
  };
  EXPECT_THAT(Trace({}, {.on_progress = on_progress}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("a chunk at byte 2097152 where "
                                 "1048576 of 12582912 bytes")));
  service_.ended.WaitForNotification();
}

TEST_F(LargeAnswer, FailsWithoutASummary) {
  service_.messages.pop_back();
  EXPECT_THAT(Trace(), StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr("without its summary")));
}

TEST_F(LargeAnswer, PassesTheServersStatusOn) {
  service_.messages.resize(SmallStream::kFirstChunk + 6);
  service_.status = grpc::Status(grpc::StatusCode::INTERNAL, "broke");
  EXPECT_THAT(Trace(), StatusIs(absl::StatusCode::kInternal, "broke"));
}

TEST_F(LargeAnswer, EndsWithCancelledWhenItIsCancelled) {
  service_.messages.pop_back();
  service_.waits = true;
  Cancellation cancellation;
  // From within: messages are ahead, and the caller takes none for now.
  EXPECT_THAT(Trace({.cancellation = &cancellation},
                    {.on_progress =
                         [&](const TraceProgress& progress) {
                           if (progress.received_bytes == 1 << 20) {
                             cancellation.Cancel();
                           }
                         }}),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
}

}  // namespace
}  // namespace phitap::client
