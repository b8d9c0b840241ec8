#include "client/cpp/trace_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/float_values.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/assembled.h"
#include "tests/unit/client/small_streams.h"

namespace phitap::client {
namespace {

using testing::ElementsAre;

TEST(TraceAssembler, PutsATensorTogetherFromItsChunks) {
  const absl::StatusOr<Trace> trace = Assemble(SmallStream().messages);
  ASSERT_THAT(trace, IsOk());
  ASSERT_EQ(trace->tensors.size(), 1);
  const TracedTensor& tensor = trace->tensors.front();
  EXPECT_THAT(tensor.value.shape, ElementsAre(3, 2));
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(tensor.value.bytes.data()),
                  tensor.value.bytes.size()),
      SmallBytes());
  EXPECT_THAT(trace->runs.front().ids, ElementsAre(7, 8, 9));
  EXPECT_THAT(trace->runs.front().texts, ElementsAre("When", " Mary", "\n"));
  EXPECT_EQ(trace->summary.token_layers_computed(), 6);
}

TEST(TraceAssembler, PutsTensorsInTheOrderOfTheRequest) {
  SmallStream stream;
  stream.messages[SmallStream::kHeader].mutable_header()->set_tensor_count(2);
  stream.messages[SmallStream::kHeader].mutable_header()->set_size_bytes(48);
  v1::TraceSummary& summary =
      *stream.messages[SmallStream::kSummary].mutable_summary();
  summary.set_tensor_count(2);
  summary.set_size_bytes(48);
  // Tensor 1 begins before tensor 0 and ends within it.
  std::vector<v1::TraceResponse> messages = stream.messages;
  const std::string bytes = SmallBytes();
  v1::TraceResponse second = SmallChunk(1, 0, bytes);
  second.mutable_chunk()->set_xxh3(XXH3_64bits(bytes.data(), bytes.size()));
  messages.insert(messages.begin() + SmallStream::kTensor,
                  SmallDescriptor(1, "layers.1.layer_output"));
  messages.insert(messages.begin() + SmallStream::kLastChunk + 1, second);
  const absl::StatusOr<Trace> trace = Assemble(messages);
  ASSERT_THAT(trace, IsOk());
  ASSERT_EQ(trace->tensors.size(), 2);
  EXPECT_EQ(trace->tensors[0].descriptor.hook_point(), "layers.0.layer_output");
  EXPECT_EQ(trace->tensors[1].descriptor.hook_point(), "layers.1.layer_output");
}

TEST(TraceAssembler, FailsWithoutASummary) {
  SmallStream stream;
  stream.messages.pop_back();
  EXPECT_THAT(Assemble(stream.messages), IsLost("without its summary"));
}

TEST(TraceAssembler, FailsOnAnEmptyStream) {
  EXPECT_THAT(Assemble({}), IsLost("without its summary"));
}

TEST(TraceAssembler, FailsWhereAByteOfATensorHasChanged) {
  SmallStream stream;
  (*stream.messages[SmallStream::kFirstChunk]
        .mutable_chunk()
        ->mutable_data())[3] ^= 1;
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("tensor 0 (layers.0.layer_output of run `0`): its bytes "
                     "have the checksum"));
}

TEST(TraceAssembler, FailsWithoutAChecksum) {
  SmallStream stream;
  stream.messages[SmallStream::kLastChunk].mutable_chunk()->clear_xxh3();
  EXPECT_THAT(Assemble(stream.messages), IsLost("no checksum after 24 of 24"));
}

TEST(TraceAssembler, FailsOnAChecksumBeforeTheEnd) {
  SmallStream stream;
  stream.messages[SmallStream::kFirstChunk].mutable_chunk()->set_xxh3(1);
  EXPECT_THAT(Assemble(stream.messages), IsLost("a checksum after 10 of 24"));
}

TEST(TraceAssembler, FailsOnAShortTensor) {
  SmallStream stream;
  stream.messages.erase(stream.messages.begin() + SmallStream::kLastChunk);
  EXPECT_THAT(Assemble(stream.messages), IsLost("is short: 10 of 24 bytes"));
}

TEST(TraceAssembler, FailsOnALongTensor) {
  SmallStream stream;
  stream.messages[SmallStream::kLastChunk]
      .mutable_chunk()
      ->mutable_data()
      ->append("x");
  EXPECT_THAT(Assemble(stream.messages), IsLost("is longer than its 24 bytes"));
}

TEST(TraceAssembler, FailsOnAChunkOutOfPlace) {
  SmallStream stream;
  stream.messages[SmallStream::kLastChunk].mutable_chunk()->set_offset_bytes(
      11);
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("a chunk at byte 11 where 10 of 24 bytes had come"));
}

TEST(TraceAssembler, FailsOnAChunkSentTwice) {
  SmallStream stream;
  stream.messages.insert(stream.messages.begin() + SmallStream::kSummary,
                         stream.messages[SmallStream::kLastChunk]);
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("a chunk at byte 10 where 24 of 24 bytes had come"));
}

TEST(TraceAssembler, FailsOnAChunkBeforeItsDescriptor) {
  SmallStream stream;
  std::swap(stream.messages[SmallStream::kTensor],
            stream.messages[SmallStream::kFirstChunk]);
  EXPECT_THAT(Assemble(stream.messages), IsLost("before its descriptor"));
}

TEST(TraceAssembler, FailsOnATensorDescribedTwice) {
  SmallStream stream;
  stream.messages.insert(stream.messages.begin() + SmallStream::kTensor,
                         stream.messages[SmallStream::kTensor]);
  EXPECT_THAT(Assemble(stream.messages), IsLost("is described twice"));
}

TEST(TraceAssembler, FailsOnATensorThatWasNotAnnounced) {
  SmallStream stream;
  stream.messages.insert(stream.messages.begin() + SmallStream::kTensor,
                         SmallDescriptor(1, "layers.1.layer_output"));
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("is not one of the 1 announced"));
  stream = SmallStream();
  stream.messages[SmallStream::kTensor].mutable_tensor()->set_tensor(-1);
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("is not one of the 1 announced"));
}

TEST(TraceAssembler, TakesNumbersThatLeaveOthersOut) {
  SmallStream stream;
  for (const auto place : {SmallStream::kFirstChunk, SmallStream::kLastChunk}) {
    stream.messages[place].mutable_chunk()->set_tensor(5);
  }
  stream.messages[SmallStream::kTensor].mutable_tensor()->set_tensor(5);
  EXPECT_THAT(Assemble(stream.messages), IsOk());
}

TEST(TraceAssembler, FailsWhereShapeAndBytesDisagree) {
  SmallStream stream;
  stream.messages[SmallStream::kTensor].mutable_tensor()->set_shape(0, 2);
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("its shape and its 24 bytes disagree"));
}

TEST(TraceAssembler, FailsOnADimensionWithoutAName) {
  SmallStream stream;
  stream.messages[SmallStream::kTensor]
      .mutable_tensor()
      ->mutable_dimension_names()
      ->RemoveLast();
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("has 2 dimensions and 1 names for them"));
}

TEST(TraceAssembler, FailsOnAShapeThatOverflows) {
  SmallStream stream;
  v1::TensorDescriptor& tensor =
      *stream.messages[SmallStream::kTensor].mutable_tensor();
  tensor.set_shape(0, int64_t{1} << 62);
  tensor.set_size_bytes(0);
  EXPECT_THAT(Assemble(stream.messages), IsLost("disagree"));
}

TEST(TraceAssembler, AllocatesNoMoreThanTheHeaderAnnounced) {
  SmallStream stream;
  stream.messages[SmallStream::kHeader].mutable_header()->set_size_bytes(23);
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("brings the answer over the 23 bytes announced"));
}

TEST(TraceAssembler, FailsOnAnElementTypeItDoesNotKnow) {
  SmallStream stream;
  stream.messages[SmallStream::kTensor].mutable_tensor()->set_dtype(
      static_cast<v1::DataType>(99));
  EXPECT_THAT(Assemble(stream.messages), IsLost("element type 99"));
}

TEST(TraceAssembler, FailsOnAStreamThatDoesNotBeginWithItsHeader) {
  SmallStream stream;
  stream.messages.erase(stream.messages.begin());
  EXPECT_THAT(Assemble(stream.messages), IsLost("begin with its header"));
}

TEST(TraceAssembler, FailsOnAMessageThatItDoesNotKnow) {
  SmallStream stream;
  stream.messages.insert(stream.messages.begin() + 1, v1::TraceResponse());
  EXPECT_THAT(Assemble(stream.messages), IsLost("a kind that this client"));
}

TEST(TraceAssembler, FailsOnAMessageAfterTheSummary) {
  SmallStream stream;
  stream.messages.push_back(stream.messages[SmallStream::kSummary]);
  EXPECT_THAT(Assemble(stream.messages), IsLost("goes on after its summary"));
}

TEST(TraceAssembler, FailsWhereTheSummaryCountsOtherTensors) {
  SmallStream stream;
  stream.messages[SmallStream::kSummary].mutable_summary()->set_tensor_count(2);
  EXPECT_THAT(Assemble(stream.messages), IsLost("1 tensors came"));
}

TEST(TraceAssembler, FailsWhereTheSummaryCountsOtherBytes) {
  SmallStream stream;
  stream.messages[SmallStream::kSummary].mutable_summary()->set_size_bytes(25);
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("24 bytes of tensors came, 25 according to the summary"));
}

TEST(TraceAssembler, FailsWhereARunHasNoStatus) {
  SmallStream stream;
  stream.messages[SmallStream::kSummary].mutable_summary()->clear_runs();
  EXPECT_THAT(Assemble(stream.messages), IsLost("the status of 0 of 1 runs"));
}

TEST(TraceAssembler, FailsWhereAnAnnouncedTensorNeverCame) {
  SmallStream stream;
  stream.messages[SmallStream::kHeader].mutable_header()->set_tensor_count(2);
  EXPECT_THAT(Assemble(stream.messages), IsLost("announced: 2"));
}

TEST(TraceAssembler, TakesAFailedRunWithoutItsTensors) {
  SmallStream stream;
  v1::TraceSummary& summary =
      *stream.messages[SmallStream::kSummary].mutable_summary();
  summary.mutable_runs(0)->set_code(13);
  summary.mutable_runs(0)->set_message("no luck");
  summary.set_tensor_count(0);
  summary.set_size_bytes(0);
  stream.messages.erase(stream.messages.begin() + SmallStream::kLastChunk);
  const absl::StatusOr<Trace> trace = Assemble(stream.messages);
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->tensors, testing::IsEmpty());
  EXPECT_EQ(trace->runs.front().status.message(), "no luck");
}

}  // namespace
}  // namespace phitap::client
