#include "client/cpp/response_stream.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "tests/unit/client/canned_server.h"
#include "tests/unit/client/small_streams.h"

namespace phitap::client {
namespace {

constexpr int kMessages = 40;

class ResponseStreamTest : public testing::Test {
 protected:
  // Ten times what may be ahead.
  void SetUp() override {
    service_.messages.assign(kMessages,
                             SmallChunk(0, 0, std::string(1 << 20, 'x')));
    service_.status = grpc::Status(grpc::StatusCode::ABORTED, "after all");
    stream_.emplace(grpc::CreateChannel(server_.address(),
                                        grpc::InsecureChannelCredentials()),
                    &context_, v1::TraceRequest());
  }

  CannedServer server_;
  CannedService& service_ = server_.service();
  grpc::ClientContext context_;
  std::optional<ResponseStream> stream_;
};

TEST_F(ResponseStreamTest, GivesEveryMessageToOneWhoReadsAhead) {
  grpc::ByteBuffer message;
  ASSERT_TRUE(stream_->Read(&message));
  stream_->ReadAhead();
  stream_->ReadAhead();
  int messages = 1;
  while (stream_->Read(&message)) {
    ++messages;
    EXPECT_EQ(message.Length(), service_.messages[0].ByteSizeLong());
  }
  EXPECT_EQ(messages, kMessages);
  EXPECT_FALSE(stream_->Read(&message));
  EXPECT_EQ(stream_->Finish().error_message(), "after all");
}

TEST_F(ResponseStreamTest, FinishesWithoutHavingReadWhatIsAhead) {
  stream_->ReadAhead();
  EXPECT_EQ(stream_->Finish().error_message(), "after all");
}

}  // namespace
}  // namespace phitap::client
