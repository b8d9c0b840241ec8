#include "client/cli/trace_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

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
            "eager", "--isolate", "--priority", "7"});
  ASSERT_THAT(input, IsOk());
  EXPECT_EQ(input->request.options().numerics(), v1::NUMERICS_TRANSFORMERS);
  EXPECT_EQ(input->request.options().attention(), v1::ATTENTION_EAGER);
  EXPECT_TRUE(input->request.options().isolate());
  EXPECT_EQ(input->request.options().priority(), 7);
}

TEST(TraceFlags, PutInterventionsIntoTheirRuns) {
  const absl::StatusOr<TraceInput> input =
      Read({"-t", "1", "-r", "a=x=y", "--run", "b=z", "-c", "logits", "-i",
            "x zero", "-i", "0,a: y zero", "--intervene", "*: z zero"});
  ASSERT_THAT(input, IsOk());
  const v1::TraceRequest& request = input->request;
  EXPECT_EQ(request.runs(0).label(), "0");
  EXPECT_EQ(request.runs(1).prompt().text(), "x=y");
  const auto hooks = [&request](int run) {
    std::string text;
    for (const v1::Intervention& edit : request.runs(run).interventions()) {
      text += edit.hook_points();
    }
    return text;
  };
  EXPECT_EQ(hooks(0), "yz");
  EXPECT_EQ(hooks(1), "yz");
  EXPECT_EQ(hooks(2), "xz");
}

TEST(TraceFlags, LetEveryRunGenerate) {
  const absl::StatusOr<TraceInput> input =
      Read({"-t", "1", "-t", "2", "-n", "5", "--temperature", "0.5", "--top-p",
            "0.9", "--seed", "3", "--stop-ids", "7,8", "--force", "4"});
  ASSERT_THAT(input, IsOk());
  for (const v1::Run& run : input->request.runs()) {
    EXPECT_EQ(run.generation().max_tokens(), 5);
    EXPECT_EQ(run.generation().top_p(), 0.9);
    EXPECT_EQ(run.generation().seed(), 3);
    EXPECT_THAT(run.generation().stop_ids(), ElementsAre(7, 8));
    EXPECT_THAT(run.generation().forced_ids(), ElementsAre(4));
  }
}

TEST(TraceFlags, AddToARequestFromAFile) {
  const std::string path =
      testing::TempDir() + "/trace_flags." + std::to_string(getpid());
  std::ofstream(path) << R"({"model": "demo",
      "runs": [{"label": "a", "prompt": {"text": "Hi"}}],
      "captures": [{"hook_points": "logits"}, {"node": "n"},
                   {"label": "mine", "hook_points": "logits"}]})";
  const absl::StatusOr<TraceInput> input =
      Read({"--request", path, "-t", "1", "-c", "x", "-i", "a: y zero"});
  unlink(path.c_str());
  ASSERT_THAT(input, IsOk());
  EXPECT_EQ(input->request.model(), "demo");
  EXPECT_EQ(input->request.runs_size(), 2);
  EXPECT_EQ(input->request.runs(1).label(), "1");
  EXPECT_EQ(input->request.runs(0).interventions_size(), 1);
  EXPECT_THAT(input->is_named, ElementsAre(false, true, true, false));
  EXPECT_EQ(input->request.captures(1).label(), "n");
}

TEST(TraceFlags, NameTheFlagAtFault) {
  const auto refusal = [](std::vector<std::string> arguments) {
    return std::string(Read(std::move(arguments)).status().message());
  };
  EXPECT_THAT(refusal({"-c", "x"}), HasSubstr("--prompt: there is no prompt"));
  EXPECT_THAT(refusal({"-t", "1"}),
              HasSubstr("--capture: there is nothing to read"));
  EXPECT_THAT(refusal({"--run", "x", "-c", "x"}),
              HasSubstr("--run: `x` has no label; valid: LABEL=TEXT"));
  EXPECT_THAT(refusal({"-t", "1", "-c", "x", "-i", "a: y zero"}),
              HasSubstr("there is no run `a`; valid: 0\n  a: y zero\n  ^"));
  EXPECT_THAT(refusal({"-t", "1", "-n", "2", "--force", "f"}),
              HasSubstr("--force: `f` is no integer"));
  EXPECT_THAT(refusal({"-t", "1", "-c", "x", "--longrope-cache", "drop"}),
              HasSubstr("--longrope-cache: `drop` is not known; valid: keep or "
                        "recompute"));
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
