#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/client/assembled.h"

namespace phitap::client {
namespace {

using testing::ElementsAre;

// A small stream whose tensor is not of one run.
SmallStream StreamOfANode() {
  SmallStream stream;
  v1::TensorDescriptor& tensor =
      *stream.messages[SmallStream::kTensor].mutable_tensor();
  tensor.set_run("");
  tensor.set_hook_point("");
  tensor.set_label("node");
  return stream;
}

TEST(TraceAssembler, TakesTensorsThatAreOfNoRun) {
  const absl::StatusOr<Trace> trace = Assemble(StreamOfANode().messages);
  ASSERT_THAT(trace, IsOk());
  EXPECT_EQ(trace->tensors.front().descriptor.label(), "node");
}

TEST(TraceAssembler, NamesATensorOfNoRunByItsLabel) {
  SmallStream stream = StreamOfANode();
  stream.messages.erase(stream.messages.begin() + SmallStream::kLastChunk);
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("tensor 0 (node) is short: 10 of 24 bytes"));
}

// Lets a tensor be missing from the end of a stream.
void LoseTheTensor(SmallStream* stream) {
  v1::TraceSummary& summary =
      *stream->messages[SmallStream::kSummary].mutable_summary();
  summary.set_tensor_count(0);
  summary.set_size_bytes(0);
  stream->messages.erase(stream->messages.begin() + SmallStream::kLastChunk);
}

TEST(TraceAssembler, MissesATensorOfNoRunOnlyWhereARunFailed) {
  SmallStream stream = StreamOfANode();
  LoseTheTensor(&stream);
  EXPECT_THAT(Assemble(stream.messages), IsLost("is short"));
  stream.messages.back().mutable_summary()->mutable_runs(0)->set_code(13);
  const absl::StatusOr<Trace> trace = Assemble(stream.messages);
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->tensors, testing::IsEmpty());
}

TEST(TraceAssembler, KeepsTheCellsOfASweepThatFailed) {
  SmallStream stream = StreamOfANode();
  LoseTheTensor(&stream);
  v1::RunStatus& cell = *stream.messages.back().mutable_summary()->add_runs();
  cell.set_run("sweep[3, 0]");
  EXPECT_THAT(Assemble(stream.messages),
              IsLost("a run `sweep[3, 0]` that was not sent"));
  cell.set_code(8);
  const absl::StatusOr<Trace> trace = Assemble(stream.messages);
  ASSERT_THAT(trace, IsOk());
  ASSERT_EQ(trace->failed_cells.size(), 1);
  EXPECT_TRUE(trace->AnyFailed());
  EXPECT_FALSE(trace->AnyFailed("0"));
}

v1::TraceResponse Token(int32_t step, const std::string& run = "0") {
  v1::TraceResponse message;
  v1::GeneratedToken& token = *message.mutable_token();
  token.set_run(run);
  token.set_step(step);
  token.set_id(40 + step);
  token.set_text(" t");
  token.set_log_probability(-0.5);
  return message;
}

// A small stream with these messages before its summary.
SmallStream StreamWith(const std::vector<v1::TraceResponse>& messages) {
  SmallStream stream;
  stream.messages.insert(stream.messages.begin() + SmallStream::kSummary,
                         messages.begin(), messages.end());
  return stream;
}

TEST(TraceAssembler, PutsGeneratedTokensIntoTheirRuns) {
  SmallStream stream = StreamWith({Token(1), Token(2)});
  stream.messages.back().mutable_summary()->mutable_runs(0)->set_finish_reason(
      v1::FINISH_REASON_STOP);
  const absl::StatusOr<Trace> trace = Assemble(stream.messages);
  ASSERT_THAT(trace, IsOk());
  const TracedRun& run = trace->runs.front();
  ASSERT_EQ(run.generated.size(), 2);
  EXPECT_EQ(run.generated[1].id, 42);
  EXPECT_EQ(run.generated[1].log_probability, -0.5);
  EXPECT_EQ(GeneratedText(run), " t t");
  EXPECT_EQ(run.status.finish_reason(), v1::FINISH_REASON_STOP);
}

TEST(TraceAssembler, FailsOnATokenOutOfPlace) {
  EXPECT_THAT(Assemble(StreamWith({Token(2)}).messages),
              IsLost("a token of step 2 where that of step 1 was to come"));
  EXPECT_THAT(Assemble(StreamWith({Token(1), Token(1)}).messages),
              IsLost("a token of step 1 where that of step 2 was to come"));
  EXPECT_THAT(Assemble(StreamWith({Token(1, "other")}).messages),
              IsLost("a token of run `other` whose prompt was not sent"));
}

TEST(TraceAssembler, TakesFewerTensorsWhereARunGenerated) {
  SmallStream stream;
  stream.messages[SmallStream::kHeader].mutable_header()->set_tensor_count(9);
  stream.messages[SmallStream::kHeader].mutable_header()->set_size_bytes(216);
  EXPECT_THAT(Assemble(stream.messages), IsLost("announced: 9"));
  stream.messages.back().mutable_summary()->mutable_runs(0)->set_finish_reason(
      v1::FINISH_REASON_LENGTH);
  EXPECT_THAT(Assemble(stream.messages), IsOk());
}

TEST(TraceAssembler, TellsOfEachTensorOnceItIsComplete) {
  std::vector<std::string> told;
  TraceAssembler assembler([&told](const TracedTensor& tensor) {
    told.push_back(tensor.descriptor.label());
  });
  const SmallStream stream;
  for (const v1::TraceResponse& message : stream.messages) {
    EXPECT_EQ(told.size(), message.has_summary() ? 1 : 0);
    ASSERT_THAT(assembler.Add(Received(message)), IsOk());
  }
  EXPECT_THAT(told, ElementsAre("layers.0.layer_output"));
}

}  // namespace
}  // namespace phitap::client
