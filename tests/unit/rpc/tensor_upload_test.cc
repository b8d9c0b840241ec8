#include "server/rpc/tensor_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/base/field_error.h"
#include "tests/support/manual_clock.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Messages = std::vector<v1::PutTensorRequest>;

// The messages of an upload of a float32 tensor [2, 3], in two chunks.
Messages Upload() {
  std::string bytes;
  for (char i = 0; i < 24; ++i) bytes += i;
  Messages messages(3);
  v1::PutTensorHeader& header = *messages[0].mutable_header();
  header.set_name("sae/W");
  header.set_dtype(v1::DATA_TYPE_F32);
  header.add_shape(2);
  header.add_shape(3);
  messages[1].mutable_chunk()->set_data(bytes.substr(0, 10));
  v1::PutTensorChunk& last = *messages[2].mutable_chunk();
  last.set_offset_bytes(10);
  last.set_data(bytes.substr(10));
  last.set_xxh3(XXH3_64bits(bytes.data(), bytes.size()));
  return messages;
}

class TensorUploadTest : public ::testing::Test {
 protected:
  // What the messages come to, in the order of a call.
  absl::StatusOr<v1::PutTensorResponse> Send(const Messages& messages) {
    TensorUpload upload({.tensors = tensors_->Of({}), .budget = budget_});
    for (const v1::PutTensorRequest& message : messages) {
      const absl::Status status = upload.Take(message);
      if (!status.ok()) return status;
    }
    return upload.Finish();
  }

  ManualClock clock_;
  std::unique_ptr<NamedTensors> tensors_ =
      *NamedTensors::Open({.max_bytes = 1000, .clock = &clock_});
  std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(
      ByteBudgetOptions{.limit_bytes = 100, .purpose = "uploads"});
};

TEST_F(TensorUploadTest, KeepsATensorOnceItIsComplete) {
  const absl::StatusOr<v1::PutTensorResponse> response = Send(Upload());
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->tensor().name(), "sae/W");
  EXPECT_EQ(response->tensor().dtype(), v1::DATA_TYPE_F32);
  EXPECT_THAT(response->tensor().shape(), ::testing::ElementsAre(2, 3));
  EXPECT_EQ(response->tensor().size_bytes(), 24);
  EXPECT_FALSE(response->tensor().persistent());
  EXPECT_EQ(absl::FromUnixSeconds(response->tensor().create_time().seconds()),
            clock_.Now());
  const absl::StatusOr<HostTensor> kept = tensors_->Of({}).Find("sae/W", "");
  ASSERT_THAT(kept, IsOk());
  for (int i = 0; i < 24; ++i) EXPECT_EQ(int(kept->bytes[i]), i);
  EXPECT_EQ(budget_->reserved_bytes(), 0);
}

TEST_F(TensorUploadTest, KeepsAScalar) {
  Messages messages = Upload();
  messages[0].mutable_header()->clear_shape();
  messages.resize(2);
  v1::PutTensorChunk& chunk = *messages[1].mutable_chunk();
  chunk.set_data("abcd");
  chunk.set_xxh3(XXH3_64bits("abcd", 4));
  EXPECT_THAT(Send(messages), IsOk());
}

TEST_F(TensorUploadTest, HoldsTheBytesOfUploadsUnderWay) {
  const Messages messages = Upload();
  TensorUpload upload({.tensors = tensors_->Of({}), .budget = budget_});
  ASSERT_THAT(upload.Take(messages[0]), IsOk());
  EXPECT_EQ(budget_->reserved_bytes(), 24);
  Messages larger = Upload();
  larger[0].mutable_header()->set_shape(0, 7);
  EXPECT_THAT(Send(larger),
              StatusIs(Code::kUnavailable,
                       AllOf(HasSubstr("needs 84"), HasSubstr("uploads"))));
}

TEST_F(TensorUploadTest, RefusesBeforeTheBytesComeWhatWouldNotFit) {
  Messages messages = Upload();
  messages[0].mutable_header()->set_shape(0, 1000);
  TensorUpload upload({.tensors = tensors_->Of({}), .budget = budget_});
  const absl::Status status = upload.Take(messages[0]);
  EXPECT_THAT(status, StatusIs(Code::kResourceExhausted,
                               AllOf(HasSubstr("12000"), HasSubstr("1000"))));
  EXPECT_EQ(FieldOf(status), "header.name");
}

TEST_F(TensorUploadTest, KeepsWhatWasThereWhereAnUploadFails) {
  ASSERT_THAT(Send(Upload()), IsOk());
  Messages messages = Upload();
  messages[2].mutable_chunk()->set_xxh3(1);
  EXPECT_THAT(Send(messages), ::testing::Not(IsOk()));
  EXPECT_THAT(tensors_->Of({}).Find("sae/W", ""), IsOk());
}

struct WrongUpload {
  std::string name;
  std::function<void(Messages&)> spoil;
  std::string field;
  std::string says;
};

class WrongUploads : public TensorUploadTest,
                     public ::testing::WithParamInterface<WrongUpload> {};

TEST_P(WrongUploads, AreRefusedAndNothingIsKept) {
  Messages messages = Upload();
  GetParam().spoil(messages);
  const absl::Status status = Send(messages).status();
  EXPECT_THAT(status,
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  EXPECT_EQ(FieldOf(status), GetParam().field);
  EXPECT_EQ(tensors_->used_bytes(), 0);
  EXPECT_EQ(budget_->reserved_bytes(), 0);
}

v1::PutTensorHeader& HeaderOf(Messages& messages) {
  return *messages[0].mutable_header();
}
v1::PutTensorChunk& ChunkOf(Messages& messages, int chunk) {
  return *messages[1 + chunk].mutable_chunk();
}

INSTANTIATE_TEST_SUITE_P(
    TensorUploadTest, WrongUploads,
    ::testing::ValuesIn(std::vector<WrongUpload>{
        {"Nothing", [](Messages& m) { m.clear(); }, "header", "0 of 0"},
        {"OnlyAHeader", [](Messages& m) { m.resize(1); }, "chunk", "0 of 24"},
        {"LastChunkMissing", [](Messages& m) { m.resize(2); }, "chunk",
         "10 of 24"},
        {"ChunkFirst", [](Messages& m) { m.erase(m.begin()); }, "message",
         "no header"},
        {"HeaderTwice", [](Messages& m) { m[1] = m[0]; }, "message",
         "second header"},
        {"EmptyMessage", [](Messages& m) { m[1].Clear(); }, "message",
         "neither"},
        {"Name", [](Messages& m) { HeaderOf(m).set_name("../x"); },
         "header.name", "../x"},
        {"NoDtype", [](Messages& m) { HeaderOf(m).clear_dtype(); },
         "header.dtype", "UNSPECIFIED"},
        {"IntegerDtype",
         [](Messages& m) { HeaderOf(m).set_dtype(v1::DATA_TYPE_I32); },
         "header.dtype", "DATA_TYPE_I32"},
        {"NegativeSize", [](Messages& m) { HeaderOf(m).set_shape(1, -3); },
         "header.shape[1]", "-3"},
        {"NoElements", [](Messages& m) { HeaderOf(m).set_shape(0, 0); },
         "header.shape[0]", "0"},
        {"OverflowingShape",
         [](Messages& m) {
           HeaderOf(m).set_shape(0, int64_t{1} << 40);
           HeaderOf(m).set_shape(1, int64_t{1} << 40);
         },
         "header.shape[1]", "1099511627776"},
        {"TooManyDimensions",
         [](Messages& m) {
           for (int i = 0; i < 15; ++i) HeaderOf(m).add_shape(1);
         },
         "header.shape", "17"},
        {"Gap", [](Messages& m) { ChunkOf(m, 1).set_offset_bytes(11); },
         "chunk.offset_bytes", "valid: 10"},
        {"Overlap", [](Messages& m) { ChunkOf(m, 1).set_offset_bytes(9); },
         "chunk.offset_bytes", "valid: 10"},
        {"TooMuch",
         [](Messages& m) { ChunkOf(m, 1).mutable_data()->push_back('x'); },
         "chunk.data", "15 bytes after 10 of the tensor's 24"},
        {"ChunkAfterTheLast",
         [](Messages& m) {
           m.push_back(m[1]);
           m[3].mutable_chunk()->set_offset_bytes(24);
         },
         "chunk.data", "no chunk after the last"},
        {"EmptyChunk", [](Messages& m) { ChunkOf(m, 0).clear_data(); },
         "chunk.data", "0 bytes"},
        {"LongChunk",
         [](Messages& m) { ChunkOf(m, 0).set_data(std::string(1048577, 'x')); },
         "chunk.data", "1048577"},
        {"NoHash", [](Messages& m) { ChunkOf(m, 1).clear_xxh3(); },
         "chunk.xxh3", "not set"},
        {"EarlyHash", [](Messages& m) { ChunkOf(m, 0).set_xxh3(1); },
         "chunk.xxh3", "before the last"},
        {"WrongHash", [](Messages& m) { ChunkOf(m, 1).set_xxh3(1); },
         "chunk.xxh3", "0000000000000001"},
        {"UnknownField",
         [](Messages& m) {
           m[0].GetReflection()->MutableUnknownFields(&m[0])->AddVarint(99, 1);
         },
         "PutTensorRequest", "99"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace phitap
