#include "server/rpc/tensor_wire.h"

#include <gmock/gmock.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace phitap {
namespace {

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

v1::TraceResponse Decode(const grpc::ByteBuffer& buffer) {
  v1::TraceResponse response;
  EXPECT_TRUE(response.ParseFromString(BytesOf(buffer)));
  return response;
}

std::shared_ptr<std::vector<std::byte>> RandomBytes(std::mt19937& random,
                                                    size_t count) {
  auto bytes = std::make_shared<std::vector<std::byte>>(count);
  for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(EncodeChunk, IsReadByTheGeneratedClasses) {
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    const size_t size = i == 0 ? kMaxChunkBytes : random() % (1 << (i % 18));
    const auto bytes = RandomBytes(random, size);
    OutgoingChunk chunk = {.tensor = static_cast<int32_t>(random() % 70000),
                           .offset_bytes = static_cast<int64_t>(random())
                                           << (i % 20),
                           .bytes = absl::MakeConstSpan(*bytes),
                           .owner = bytes};
    if (i % 3 == 0) chunk.xxh3 = (uint64_t{random()} << 32) | random();

    const v1::TraceResponse response = Decode(EncodeChunk(chunk));
    ASSERT_TRUE(response.has_chunk());
    EXPECT_EQ(response.chunk().tensor(), chunk.tensor);
    EXPECT_EQ(response.chunk().offset_bytes(), chunk.offset_bytes);
    EXPECT_EQ(response.chunk().has_xxh3(), chunk.xxh3.has_value());
    EXPECT_EQ(response.chunk().xxh3(), chunk.xxh3.value_or(0));
    EXPECT_EQ(response.chunk().data(),
              std::string(reinterpret_cast<const char*>(bytes->data()), size));
    EXPECT_EQ(
        response.GetReflection()->GetUnknownFields(response).field_count(), 0);
  }
}

TEST(EncodeChunk, TakesTheLargestNumbers) {
  const v1::TraceResponse response =
      Decode(EncodeChunk({.tensor = std::numeric_limits<int32_t>::max(),
                          .offset_bytes = std::numeric_limits<int64_t>::max(),
                          .xxh3 = std::numeric_limits<uint64_t>::max()}));
  EXPECT_EQ(response.chunk().tensor(), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(response.chunk().offset_bytes(),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(response.chunk().xxh3(), std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(response.chunk().data().empty());
}

TEST(EncodeChunk, SharesTheBytesAndHoldsTheirOwner) {
  std::mt19937 random(7);
  const auto bytes = RandomBytes(random, 4096);
  {
    const grpc::ByteBuffer buffer =
        EncodeChunk({.bytes = absl::MakeConstSpan(*bytes), .owner = bytes});
    EXPECT_EQ(bytes.use_count(), 2);
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(buffer.Dump(&slices).ok());
    ASSERT_EQ(slices.size(), 2u);
    EXPECT_EQ(static_cast<const void*>(slices[1].begin()),
              static_cast<const void*>(bytes->data()));
  }
  EXPECT_EQ(bytes.use_count(), 1);
}

TEST(DecodeRequest, ReadsARequestInSeveralSlices) {
  v1::TraceRequest request;
  request.set_model("tiny");
  request.add_captures()->set_hook_points("logits");
  const std::string bytes = request.SerializeAsString();
  const grpc::Slice slices[] = {grpc::Slice(bytes.substr(0, 3)),
                                grpc::Slice(bytes.substr(3))};
  const grpc::ByteBuffer buffer(slices, 2);
  for (int i = 0; i < 2; ++i) {  // Reading leaves the buffer as it was.
    const absl::StatusOr<v1::TraceRequest> decoded = DecodeRequest(buffer);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->SerializeAsString(), bytes);
  }
}

TEST(DecodeRequest, RefusesBytesThatAreNoRequest) {
  const grpc::Slice slice(std::string("\x0a\xff\xff"));
  EXPECT_EQ(DecodeRequest(grpc::ByteBuffer(&slice, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EncodeResponse, IsReadByTheGeneratedClasses) {
  v1::TraceResponse response;
  response.mutable_header()->set_request_id("1234");
  EXPECT_EQ(Decode(EncodeResponse(response)).SerializeAsString(),
            response.SerializeAsString());
}

}  // namespace
}  // namespace phitap
