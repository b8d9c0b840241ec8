#include "client/cpp/response_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "grpcpp/support/slice.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/small_streams.h"

namespace phitap::client {
namespace {

// The bytes of a message cut into slices of `size`, as sockets deliver them.
grpc::ByteBuffer BufferOf(const std::string& bytes, size_t size) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += size) {
    slices.emplace_back(bytes.substr(at, size));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Joined(const ReceivedResponse& response) {
  std::string data;
  for (const auto piece : response.chunk_data) {
    data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return data;
}

TEST(DecodeResponse, ReadsAChunkHoweverItIsCutIntoSlices) {
  v1::TraceResponse message = SmallChunk(3, 1 << 30, std::string(5000, 'x'));
  message.mutable_chunk()->mutable_data()->append("end");
  message.mutable_chunk()->set_xxh3(0xfedcba9876543210);
  for (const size_t size : {1, 7, 4096, 1 << 20}) {
    grpc::ByteBuffer buffer = BufferOf(message.SerializeAsString(), size);
    const absl::StatusOr<ReceivedResponse> response = DecodeResponse(&buffer);
    ASSERT_THAT(response, IsOk()) << size;
    EXPECT_EQ(Joined(*response), message.chunk().data()) << size;
    v1::TraceResponse rest = message;
    rest.mutable_chunk()->clear_data();
    EXPECT_EQ(response->message.SerializeAsString(), rest.SerializeAsString());
  }
}

TEST(DecodeResponse, PointsIntoTheBuffer) {
  const v1::TraceResponse message = SmallChunk(0, 0, std::string(5000, 'x'));
  grpc::ByteBuffer buffer = BufferOf(message.SerializeAsString(), 1 << 20);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer.Dump(&slices).ok());
  const absl::StatusOr<ReceivedResponse> response = DecodeResponse(&buffer);
  ASSERT_THAT(response, IsOk());
  ASSERT_EQ(response->chunk_data.size(), 1);
  const auto* data =
      reinterpret_cast<const uint8_t*>(response->chunk_data[0].data());
  EXPECT_GE(data, slices[0].begin());
  EXPECT_LE(data + 5000, slices[0].end());
}

TEST(DecodeResponse, ReadsEveryOtherKindOfMessageAsProtobufDoes) {
  for (const v1::TraceResponse& message : SmallStream().messages) {
    if (message.has_chunk()) continue;
    grpc::ByteBuffer buffer = BufferOf(message.SerializeAsString(), 5);
    const absl::StatusOr<ReceivedResponse> response = DecodeResponse(&buffer);
    ASSERT_THAT(response, IsOk());
    EXPECT_EQ(response->message.SerializeAsString(),
              message.SerializeAsString());
    EXPECT_TRUE(response->chunk_data.empty());
  }
}

TEST(DecodeResponse, RefusesEveryTruncationOfAChunk) {
  const std::string bytes =
      SmallChunk(3, 9, "some data of a tensor").SerializeAsString();
  for (size_t size = 1; size < bytes.size(); ++size) {
    grpc::ByteBuffer buffer = BufferOf(bytes.substr(0, size), 4);
    EXPECT_THAT(DecodeResponse(&buffer),
                StatusIs(absl::StatusCode::kDataLoss, testing::_))
        << size;
  }
}

TEST(DecodeResponse, RefusesAnythingBesideAChunk) {
  const std::string bytes = SmallChunk(3, 9, "data").SerializeAsString();
  const std::string unknown("\x78\x01");  // field 15
  for (const std::string& sent : {bytes + bytes, unknown + bytes}) {
    grpc::ByteBuffer buffer = BufferOf(sent, 1 << 20);
    EXPECT_THAT(DecodeResponse(&buffer),
                StatusIs(absl::StatusCode::kDataLoss, testing::_));
  }
}

TEST(DecodeResponse, RefusesAChunkThatEndsInATagOfZero) {
  std::string bytes = SmallChunk(3, 9, "data").SerializeAsString();
  bytes.push_back('\0');
  ++bytes[1];  // its length
  ASSERT_FALSE(v1::TraceResponse().ParseFromString(bytes));
  grpc::ByteBuffer buffer = BufferOf(bytes, 1 << 20);
  EXPECT_THAT(DecodeResponse(&buffer),
              StatusIs(absl::StatusCode::kDataLoss, testing::_));
}

TEST(DecodeResponse, RefusesBytesThatAreNoMessage) {
  grpc::ByteBuffer buffer = BufferOf("\x0a\xff\xff", 1 << 20);
  EXPECT_THAT(DecodeResponse(&buffer),
              StatusIs(absl::StatusCode::kDataLoss, testing::_));
}

}  // namespace
}  // namespace phitap::client
