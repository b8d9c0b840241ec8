#include "client/cli/trace_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace phitap::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Flags as a shell hands them over.
absl::StatusOr<TraceInput> Read(std::vector<std::string> arguments) {
  CLI::App app;
  TraceFlags flags;
  AddTraceFlags(&app, &flags);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  return ReadTraceFlags(flags);
}

TEST(TraceFlags, MakeARunOfEveryPrompt) {
  const absl::StatusOr<TraceInput> input =
      Read({"-m", "demo", "-p", "[Hi, you]", "--prompt=-x", "-t", "1,5", "-c",
            "logits"});
  ASSERT_THAT(input, IsOk());
  const v1::TraceRequest& request = input->request;
  EXPECT_EQ(request.model(), "demo");
  ASSERT_EQ(request.runs_size(), 3);
  EXPECT_EQ(request.runs(0).prompt().text(), "[Hi, you]");
  EXPECT_EQ(request.runs(1).prompt().text(), "-x");
  EXPECT_THAT(request.runs(2).prompt().tokens().ids(), ElementsAre(1, 5));
}

TEST(TraceFlags, ApplyToEveryCaptureThatDoesNotSayOtherwise) {
  const absl::StatusOr<TraceInput> input =
      Read({"-t", "1", "--positions", "-1,3:8", "-c", "a", "-c",
            "b@positions=0", "--dtype", "f32"});
  ASSERT_THAT(input, IsOk());
  const v1::TraceRequest& request = input->request;
  EXPECT_EQ(request.captures(0).selection().positions().ranges_size(), 2);
  EXPECT_THAT(request.captures(1).selection().positions().indices(),
              ElementsAre(0));
  EXPECT_EQ(request.captures(1).dtype(), v1::DATA_TYPE_F32);
}

TEST(TraceFlags, HideAndPlaceTokensOfEveryPrompt) {
  const absl::StatusOr<TraceInput> input =
      Read({"-t", "1,2,3", "-p", "x", "-c", "logits", "--hide", "0,-1",
            "--position-ids", "0,1,1"});
  ASSERT_THAT(input, IsOk());
  const v1::TraceRequest& request = input->request;
  for (const v1::Run& run : request.runs()) {
    EXPECT_THAT(run.prompt().hidden_positions().indices(), ElementsAre(0, -1));
    EXPECT_THAT(run.prompt().position_ids(), ElementsAre(0, 1, 1));
  }
}

TEST(TraceFlags, LabelCapturesWithoutANameByTheirText) {
  const absl::StatusOr<TraceInput> input =
      Read({"-t", "1", "-c", "logits@heads=0", "-c", "end=logits"});
  ASSERT_THAT(input, IsOk());
  EXPECT_EQ(input->request.captures(0).label(), "logits@heads=0");
  EXPECT_EQ(input->request.captures(1).label(), "end");
  EXPECT_THAT(input->is_named, ElementsAre(false, true));
}

TEST(TraceFlags, ChooseNumericsAndAttention) {
  const absl::StatusOr<TraceInput> input =
      Read({"-t", "1", "-c", "x", "--numerics", "transformers", "--attention",
            "eager", "--isolate"});
  ASSERT_THAT(input, IsOk());
  EXPECT_EQ(input->request.options().numerics(), v1::NUMERICS_TRANSFORMERS);
  EXPECT_EQ(input->request.options().attention(), v1::ATTENTION_EAGER);
  EXPECT_TRUE(input->request.options().isolate());
}

TEST(TraceFlags, NameTheFlagAtFault) {
  const auto refusal = [](std::vector<std::string> arguments) {
    return std::string(Read(std::move(arguments)).status().message());
  };
  EXPECT_THAT(refusal({"-c", "x"}), HasSubstr("--prompt: there is no prompt"));
  EXPECT_THAT(refusal({"-t", "1"}),
              HasSubstr("--capture: there is nothing to read"));
  EXPECT_THAT(refusal({"-t", "a", "-c", "x"}), HasSubstr("--tokens: `a`"));
  EXPECT_THAT(refusal({"-t", "1", "-c", "x", "--numerics", "fast"}),
              HasSubstr("--numerics: `fast` is not known"));
  EXPECT_THAT(refusal({"-t", "1", "-c", "x", "--attention", "flash"}),
              HasSubstr("--attention: `flash` is not known"));
  EXPECT_THAT(refusal({"-t", "1", "-c", "x", "--hide", "h"}),
              HasSubstr("--hide: `h` is no integer"));
  EXPECT_THAT(refusal({"-t", "1", "-c", "x", "--heads", "h"}),
              HasSubstr("--heads: `h` is no integer"));
}

}  // namespace
}  // namespace phitap::cli
