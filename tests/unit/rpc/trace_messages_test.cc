#include "server/rpc/trace_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/manual_clock.h"
#include "tests/support/small_plans.h"
#include "tests/unit/tokenizer/tokenizer_folder.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::TraceResponse Decode(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  v1::TraceResponse response;
  EXPECT_TRUE(response.ParseFromString(bytes));
  return response;
}

class TraceMessagesTest : public ::testing::Test {
 protected:
  void Open(const SmallPlan& small) { OpenPlan(MakePlan(small)); }
  void OpenPlan(std::shared_ptr<const TracePlan> plan) {
    plan_ = std::move(plan);
    stream_ = std::make_shared<ResultStream>(
        ResultStreamOptions{.plan = plan_, .clock = &clock_, .wake = [] {}});
    messages_.emplace(TraceMessagesOptions{.request_id = "0123",
                                           .model = model_,
                                           .plan = plan_,
                                           .stream = stream_});
  }

  HostTensor Ramp(int64_t floats) {
    std::vector<std::byte> bytes(floats * 4);
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(i * 31 >> 3);
    }
    return CopyOf(DType::kF32, {floats}, bytes);
  }

  std::vector<v1::TraceResponse> All() {
    std::vector<v1::TraceResponse> responses;
    while (std::optional<grpc::ByteBuffer> message = messages_->Next()) {
      responses.push_back(Decode(*message));
    }
    return responses;
  }

  ByteBudget budget_{{.limit_bytes = 16 << 20, .purpose = "answers"}};
  ManualClock clock_;
  const std::shared_ptr<ServedModel> model_ = std::make_shared<ServedModel>(
      ServedModel{.name = "tiny",
                  .spec = {.num_layers = 2, .max_positions = 64},
                  .weights_digest = "feed",
                  .batch_invariant = true,
                  .numerics_fingerprint = "print"});
  std::shared_ptr<const TracePlan> plan_;
  std::shared_ptr<ResultStream> stream_;
  std::optional<TraceMessages> messages_;
};

TEST_F(TraceMessagesTest, OpensWithTheHeaderAndTheTokensBeforeAnythingIsMade) {
  Open({.tokens_of_runs = {2, 3}});
  const std::vector<v1::TraceResponse> sent = All();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].header().request_id(), "0123");
  EXPECT_EQ(sent[0].header().model(), "tiny");
  EXPECT_EQ(sent[0].header().weights_digest(), "feed");
  EXPECT_EQ(sent[0].header().numerics_fingerprint(), "print");
  EXPECT_TRUE(sent[0].header().batch_invariant());
  EXPECT_EQ(sent[0].header().numerics(), v1::NUMERICS_CAUSAL);
  EXPECT_EQ(sent[0].header().tensor_count(), 2);
  EXPECT_EQ(sent[0].header().size_bytes(), 20);
  EXPECT_THAT(sent[1].run_tokens().ids(), ElementsAre(1, 1));
  EXPECT_THAT(sent[1].run_tokens().texts(), IsEmpty());
  EXPECT_EQ(sent[2].run_tokens().run(), "1");
  EXPECT_FALSE(messages_->end().has_value());
}

TEST_F(TraceMessagesTest, CutsATensorIntoChunksAndClosesItWithItsHash) {
  const int64_t floats = (5 * (1 << 20) + 400) / 4;
  Open({.tokens_of_runs = {static_cast<int>(floats)}});
  All();
  const HostTensor value = Ramp(floats);
  stream_->Deliver(0, value);
  const std::vector<v1::TraceResponse> sent = All();

  ASSERT_EQ(sent.size(), 1u + 6u);
  EXPECT_EQ(sent[0].tensor().tensor(), 0);
  EXPECT_EQ(sent[0].tensor().size_bytes(), floats * 4);
  EXPECT_THAT(sent[0].tensor().shape(), ElementsAre(floats));
  std::string received;
  for (size_t i = 1; i < sent.size(); ++i) {
    const v1::TensorChunk& chunk = sent[i].chunk();
    EXPECT_EQ(chunk.offset_bytes(), static_cast<int64_t>(received.size()));
    EXPECT_LE(chunk.data().size(), size_t{1} << 20);
    EXPECT_EQ(chunk.has_xxh3(), i + 1 == sent.size());
    received += chunk.data();
  }
  EXPECT_EQ(received,
            std::string(reinterpret_cast<const char*>(value.bytes.data()),
                        value.bytes.size()));
  EXPECT_EQ(sent.back().chunk().xxh3(),
            XXH3_64bits(received.data(), received.size()));
}

TEST_F(TraceMessagesTest, SumsUpAfterTheLastTensor) {
  Open({.tokens_of_runs = {2, 3}});
  stream_->Deliver(1, Ramp(3));
  stream_->LayerDone(1, 3);
  stream_->EndRun(0, absl::ResourceExhaustedError("out of memory"));
  stream_->EndRun(1, absl::OkStatus());
  stream_->Finish(absl::Milliseconds(1500), absl::Seconds(2));
  const std::vector<v1::TraceResponse> sent = All();

  ASSERT_TRUE(sent.back().has_summary());
  const v1::TraceSummary& summary = sent.back().summary();
  ASSERT_EQ(summary.runs_size(), 2);
  EXPECT_EQ(summary.runs(0).code(), 8);
  EXPECT_EQ(summary.runs(0).message(), "out of memory");
  EXPECT_EQ(summary.runs(1).code(), 0);
  EXPECT_EQ(summary.runs(1).run(), "1");
  EXPECT_EQ(summary.tensor_count(), 1);
  EXPECT_EQ(summary.size_bytes(), 12);
  EXPECT_EQ(summary.queue_time().seconds(), 1);
  EXPECT_EQ(summary.queue_time().nanos(), 500'000'000);
  EXPECT_EQ(summary.compute_time().seconds(), 2);
  EXPECT_EQ(summary.token_layers_computed(), 3);
  EXPECT_EQ(summary.token_layers_saved(), 10 - 3);
  EXPECT_EQ(messages_->end(), absl::OkStatus());
}

TEST_F(TraceMessagesTest, TellsTokensWithTheTextThatTheyComplete) {
  model_->tokenizer = TokenizerFolder().Load().value();
  Open({.tokens_of_runs = {2}, .max_tokens = 3});
  All();
  stream_->DeliverToken(
      {.run = 0, .step = 1, .id = 7, .log_probability = -0.5});
  stream_->Deliver(0, Ramp(2));
  stream_->DeliverToken({.run = 0, .step = 2, .id = 6});
  const std::vector<v1::TraceResponse> sent = All();
  ASSERT_EQ(sent.size(), 4u);  // A descriptor and a chunk between the two.
  EXPECT_EQ(sent[0].token().run(), "0");
  EXPECT_EQ(sent[0].token().step(), 1);
  EXPECT_EQ(sent[0].token().id(), 7);
  EXPECT_EQ(sent[0].token().log_probability(), -0.5);
  EXPECT_EQ(sent[0].token().text(), " ho");
  EXPECT_EQ(sent[3].token().text(), " hi");
}

TEST_F(TraceMessagesTest, TellsTokensWithoutATokenizer) {
  Open({.tokens_of_runs = {2}, .max_tokens = 3});
  All();
  stream_->DeliverToken({.run = 0, .step = 1, .id = 7});
  const std::vector<v1::TraceResponse> sent = All();
  EXPECT_EQ(sent[0].token().id(), 7);
  EXPECT_EQ(sent[0].token().text(), "");
}

// A character that the tokens leave incomplete is told with the last of them.
class LastTokens : public TraceMessagesTest {
 protected:
  // The text of token 8, half a character, at `step`.
  std::string TextAt(int step, const PlannedGeneration& generation) {
    TokenizerFolder folder;
    std::string json = kTinyTokenizerJson;
    json.replace(json.find("<0x0A>"), 6, "<0xE2>");
    folder.Write("tokenizer.json", json);
    model_->tokenizer = folder.Load().value();
    auto plan = std::make_shared<TracePlan>(*MakePlan({.tokens_of_runs = {2}}));
    plan->runs[0].generation = generation;
    OpenPlan(plan);
    All();
    stream_->DeliverToken({.run = 0, .step = step, .id = 8});
    return All()[0].token().text();
  }
};

TEST_F(LastTokens, EndWithWhatIsLeft) {
  const std::string left = "\xEF\xBF\xBD";
  EXPECT_EQ(TextAt(2, {.max_tokens = 3}), "");
  EXPECT_EQ(TextAt(3, {.max_tokens = 3}), left);
  EXPECT_EQ(TextAt(1, {.max_tokens = 3, .stop_ids = {8}}), left);
  EXPECT_EQ(TextAt(1, {.max_tokens = 3, .stop_ids = {8}, .forced_ids = {8}}),
            "");
  // The model's longest sequence is 64 tokens.
  EXPECT_EQ(TextAt(62, {.max_tokens = 100}), "");
  EXPECT_EQ(TextAt(63, {.max_tokens = 100}), left);
}

TEST_F(TraceMessagesTest, TellsWhyGenerationEndedAndWhatItSaved) {
  Open({.tokens_of_runs = {2, 3}, .max_tokens = 3});
  stream_->Deliver(0, Ramp(2));
  stream_->Deliver(1, Ramp(3));
  stream_->DeliverToken({.run = 0, .step = 1, .id = 7});
  stream_->DeliverToken({.run = 0, .step = 2, .id = 7});
  for (int layer = 0; layer < 2; ++layer) stream_->LayerDone(0, 2);
  stream_->LayerDone(0, 1);
  stream_->EndRun(0, absl::OkStatus(), FinishReason::kStop);
  stream_->EndRun(1, absl::OkStatus(), FinishReason::kLength);
  stream_->Finish({}, {});
  const v1::TraceSummary summary = All().back().summary();
  EXPECT_EQ(summary.runs(0).finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(summary.runs(1).finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(summary.token_layers_computed(), 5);
  // Two layers of 5 tokens of prompts and one that was generated.
  EXPECT_EQ(summary.token_layers_saved(), 2 * 6 - 5);
}

TEST_F(TraceMessagesTest, NamesASweepsCellsOnlyWhereTheyFail) {
  auto plan =
      std::make_shared<TracePlan>(*MakePlan({.tokens_of_runs = {2, 2, 2}}));
  for (int cell : {1, 2}) {
    plan->runs[cell].sweep = 0;
    plan->runs[cell].label = absl::StrCat("sweep[", cell - 1, "]");
  }
  OpenPlan(plan);
  for (int tensor : {0, 1}) stream_->Deliver(tensor, Ramp(2));
  stream_->EndRun(0, absl::OkStatus());
  stream_->EndRun(1, absl::OkStatus());
  stream_->EndRun(2, absl::AbortedError("no"));
  stream_->Finish({}, {});
  const std::vector<v1::TraceResponse> sent = All();
  EXPECT_TRUE(sent[1].has_run_tokens());
  EXPECT_FALSE(sent[2].has_run_tokens());
  const v1::TraceSummary& summary = sent.back().summary();
  ASSERT_EQ(summary.runs_size(), 2);
  EXPECT_EQ(summary.runs(0).run(), "0");
  EXPECT_EQ(summary.runs(1).run(), "sweep[1]");
  EXPECT_EQ(summary.runs(1).code(), 10);
}

TEST_F(TraceMessagesTest, LeavesTensorsThatAreKeptOutOfTheHeader) {
  auto plan =
      std::make_shared<TracePlan>(*MakePlan({.tokens_of_runs = {2, 3}}));
  plan->tensors[0].kept_as = "mean";
  OpenPlan(plan);
  const v1::TraceHeader header = All()[0].header();
  EXPECT_EQ(header.tensor_count(), 1);
  EXPECT_EQ(header.size_bytes(), 12);
}

TEST_F(TraceMessagesTest, EndsWithTheErrorInPlaceOfASummary) {
  Open({});
  All();
  stream_->Fail(absl::DeadlineExceededError("too late"));
  EXPECT_THAT(All(), IsEmpty());
  EXPECT_EQ(messages_->end(), absl::DeadlineExceededError("too late"));
}

TEST_F(TraceMessagesTest, BreaksOffATensorWhoseRequestFailed) {
  Open({.tokens_of_runs = {1 << 20}});
  All();
  stream_->Deliver(0, Ramp(1 << 20));
  messages_->Next();  // Descriptor.
  EXPECT_TRUE(messages_->Next().has_value());
  stream_->Fail(absl::DeadlineExceededError("too late"));
  EXPECT_FALSE(messages_->Next().has_value());
  EXPECT_EQ(messages_->end(), absl::DeadlineExceededError("too late"));
}

TEST_F(TraceMessagesTest, TellsProgress) {
  Open({.report_progress = true});
  All();
  stream_->SetQueuePosition(4);
  stream_->LayerDone(0, 3);
  const std::vector<v1::TraceResponse> sent = All();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].progress().queue_position(), 4);
  EXPECT_EQ(sent[0].progress().layers_done(), 1);
  EXPECT_EQ(sent[0].progress().layers_total(), 2);
}

TEST_F(TraceMessagesTest, HoldsTheBudgetUntilAllOfATensorIsOnItsWay) {
  plan_ = MakePlan({.tokens_of_runs = {1 << 20}});
  stream_ = std::make_shared<ResultStream>(
      ResultStreamOptions{.plan = plan_,
                          .clock = &clock_,
                          .wake = [] {},
                          .reservation = *budget_.Reserve(plan_->size_bytes)});
  messages_.emplace(
      TraceMessagesOptions{.model = model_, .plan = plan_, .stream = stream_});
  stream_->Deliver(0, Ramp(1 << 20));
  for (int i = 0; i < 3 + 3; ++i) messages_->Next();
  EXPECT_EQ(budget_.reserved_bytes(), 4 << 20);
  messages_->Next();
  EXPECT_EQ(budget_.reserved_bytes(), 0);
}

}  // namespace
}  // namespace phitap
