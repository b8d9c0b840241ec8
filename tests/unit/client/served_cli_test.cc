#include "tests/unit/client/served_cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/unit/client/canned_server.h"
#include "tests/unit/client/command.h"
#include "tests/unit/client/small_streams.h"

namespace phitap {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(ServedCli, ListsModels) {
  EXPECT_THAT(Phitap({"models"}).output,
              AllOf(StartsWith("model  layers"), HasSubstr("\ndemo ")));
  EXPECT_EQ(Phitap({"models", "--names"}).output, "demo\n");
  EXPECT_EQ(JsonOf({"models"})["models"][0]["name"], "demo");
}

TEST_F(ServedCli, ShowsHookPoints) {
  const CommandResult names = Phitap({"hooks", "--names"});
  EXPECT_THAT(names.output, AllOf(StartsWith("input_ids\n"),
                                  HasSubstr("\nlayers.*.attention_queries\n")));
  // Every name is one that a capture takes.
  EXPECT_EQ(Phitap({"plan", "-t", "5,6", "-c", "layers.*.attention_queries"})
                .exit_status,
            0);
  EXPECT_THAT(
      Phitap({"hooks", "demo"}).output,
      AllOf(HasSubstr("layers.*.layer_output "), HasSubstr("hidden_size "),
            HasSubstr("Residual stream on its way out of the block.\n")));
  EXPECT_THAT(Phitap({"hooks", "demo", "--printout"}).output,
              HasSubstr("layer_output"));
}

TEST_F(ServedCli, Tokenizes) {
  const json tokens = JsonOf({"tokenize", kPrompt});
  EXPECT_EQ(tokens["rendered"], kPrompt);
  std::vector<std::string> arguments = {"detokenize"};
  for (const json& id : tokens["ids"]) arguments.push_back(id.dump());
  EXPECT_EQ(Phitap(arguments).output, std::string(kPrompt) + "\n");
}

TEST_F(ServedCli, EndsALensTableWithTheAnswer) {
  const CommandResult result = Phitap(
      {"trace", "-p", kPrompt, "-c", "layers.*.layer_output", "--lens", "3"});
  ASSERT_EQ(result.exit_status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("layer When"));
  EXPECT_THAT(result.output, ContainsRegex("\n    5 .*·Mary█\n"));
  EXPECT_THAT(result.output, ContainsRegex("\nafter ·to:  ·Mary [0-9.]+%"));
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
  EXPECT_EQ(result.errors, "");
}

TEST_F(ServedCli, PaintsWhenItIsTold) {
  EXPECT_THAT(Phitap({"trace", "-p", kPrompt, "-c", "layers.*.layer_output",
                      "--lens", "1", "--color", "always"})
                  .output,
              HasSubstr("\x1b["));
}

TEST_F(ServedCli, PrintsOneJsonDocumentWithTheNumbers) {
  const json trace =
      JsonOf({"trace", "-t", "5,6", "-c",
              "end=logits@positions=-1@reduce=topk:2", "--values"});
  EXPECT_EQ(trace["tensors"][0]["name"], "end/values");
  EXPECT_EQ(trace["tensors"][1]["shape"].dump(), "[1,2]");
  EXPECT_EQ(trace["tensors"][1]["values"][0].size(), 2);
  EXPECT_TRUE(trace["tensors"][0]["values"][0][0].is_number_float());
  EXPECT_TRUE(trace["tensors"][1]["values"][0][0].is_number_integer());
  EXPECT_EQ(trace["runs"][0]["ids"].dump(), "[5,6]");
  EXPECT_EQ(trace["summary"]["tensor_count"], 2);
}

TEST_F(ServedCli, PlansUnderTheNamesThatTheTraceHas) {
  const std::vector<std::string> flags = {"-t", "5,6", "-c",
                                          "layers.*.layer_output@reduce=norm"};
  std::vector<std::string> plan = {"plan"};
  std::vector<std::string> trace = {"trace"};
  plan.insert(plan.end(), flags.begin(), flags.end());
  trace.insert(trace.end(), flags.begin(), flags.end());
  const json planned = JsonOf(plan)["tensors"];
  const json traced = JsonOf(trace)["tensors"];
  ASSERT_EQ(planned.size(), traced.size());
  for (size_t i = 0; i < planned.size(); ++i) {
    EXPECT_EQ(planned[i]["label"], traced[i]["label"]);
    EXPECT_EQ(planned[i]["shape"], traced[i]["shape"]);
  }
}

TEST_F(ServedCli, WritesAFile) {
  const std::string path = FreshPath();
  const CommandResult result =
      Phitap({"trace", "-t", "5,6", "-c", "logits", "--out", path});
  EXPECT_EQ(result.exit_status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("wrote " + path));
  // Two rows of bfloat16 logits and a header.
  EXPECT_GT(std::filesystem::file_size(path), 2u * 1000 * 2);
  std::filesystem::remove(path);
}

TEST_F(ServedCli, PassesARefusalOnInOneLine) {
  const CommandResult result =
      Phitap({"trace", "-t", "5", "-c", "layers.1.layer_outpt"});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(
      result.errors,
      StartsWith("phitap: INVALID_ARGUMENT: captures[0].hook_points: "));
  EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1);
}

TEST_F(ServedCli, LeavesTheServersModelsToAdministrators) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"models", "states"},
                                             {"models", "load", "demo"},
                                             {"models", "reload", "demo"},
                                             {"models", "unload", "demo"},
                                             {"log-level", "debug"},
                                             {"drain"}}) {
    const CommandResult result = Phitap(arguments);
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_THAT(result.errors,
                StartsWith("phitap: PERMISSION_DENIED: this call needs"));
  }
  EXPECT_EQ(Phitap({"models", "--names"}).output, "demo\n");
}

TEST_F(ServedCli, PutsARefusalIntoTheDocument) {
  const CommandResult result = Phitap({"hooks", "nobody", "--json"});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(json::parse(result.output)["error"]["code"], "NOT_FOUND");
}

// What bash would put in place of the end of a line.
TEST_F(ServedCli, CompletesHookPointsInBash) {
  const std::string script =
      "PATH=$(dirname " PHITAP
      "):$PATH\n"
      "source <(phitap completion bash)\n"
      "complete_line() {\n"
      "  COMP_LINE=\"$1\"; COMP_POINT=${#1}; _phitap\n"
      "  echo \"${COMPREPLY[*]}\"\n"
      "}\n"
      "complete_line 'phitap tr'\n"
      "complete_line 'phitap trace --capture layers.3.attention_q'\n"
      "complete_line 'phitap trace -c name=logi'\n"
      "complete_line 'phitap trace --capture=logi'\n"
      "complete_line 'phitap trace -c logits@pos'\n"
      "complete_line 'phitap trace -c logits@heads=1@le'\n"
      "complete_line \"phitap trace -c 'a=layers.*.mlp_n\"\n"
      "complete_line \"phitap trace -c 'a=layers.*.mlp_neurons@q\"\n"
      "complete_line 'phitap trace -i layers.3.layer_output@st'\n"
      "complete_line \"phitap trace -i 'a: layers.3.attention_pro\"\n"
      "complete_line \"phitap trace -i 'a: x@heads=1 sc\"\n"
      "complete_line 'phitap tensors '\n"
      "complete_line 'phitap trace --model '\n"
      "complete_line 'phitap hooks '\n"
      "complete_line 'phitap trace --dtype f'\n"
      "complete_line 'phitap trace -p x --num'\n";
  EXPECT_EQ(Command("/bin/bash", {"-c", script}, address_).Finish().output,
            "trace\n"
            "layers.3.attention_qkv layers.3.attention_queries_pre_rotary "
            "layers.3.attention_queries\n"
            "logits\n"
            "logits\n"
            "@positions=\n"
            "@lens= @lens-normed=\n"
            "a=layers.*.mlp_norm_output a=layers.*.mlp_neurons\n"
            "a=layers.*.mlp_neurons@queries=\n"
            "@steps=\n"
            "a: layers.3.attention_probabilities\n"
            "a: x@heads=1 scale a: x@heads=1 scale=\n"
            "put delete\n"
            "demo\n"
            "demo\n"
            "f32 f16\n"
            "--numerics\n");
}

TEST(UnservedCli, CancelsItsCallOnCtrlC) {
  client::CannedServer server;
  server.service().messages = client::SmallStream().messages;
  server.service().messages.pop_back();
  server.service().waits = true;
  Command command(PHITAP, {"trace", "-t", "1", "-c", "x"}, server.address());
  server.service().sent.WaitForNotification();
  command.Send(SIGINT);
  const CommandResult result = command.Finish();
  EXPECT_EQ(result.exit_status, 130);
  EXPECT_EQ(result.errors, "phitap: cancelled\n");
  // The server saw the call end.
  server.service().ended.WaitForNotification();
}

TEST(UnservedCli, FailsWhereTheDeadlinePasses) {
  client::CannedServer server;
  server.service().waits = true;
  const CommandResult result =
      Command(PHITAP, {"trace", "-t", "1", "-c", "x", "--timeout", "0.2"},
              server.address())
          .Finish();
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.errors,
            "phitap: DEADLINE_EXCEEDED: no full answer within --timeout 0.2 "
            "s\n");
}

TEST(UnservedCli, FailsWhereARunFailed) {
  client::CannedServer server;
  client::SmallStream stream;
  v1::TraceSummary& summary =
      *stream.messages[client::SmallStream::kSummary].mutable_summary();
  summary.mutable_runs(0)->set_code(8);
  summary.mutable_runs(0)->set_message("no room");
  server.service().messages = stream.messages;
  const std::string path = FreshPath();
  const CommandResult result =
      Command(PHITAP, {"trace", "-t", "1", "-c", "x", "--out", path},
              server.address())
          .Finish();
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.errors, "phitap: RESOURCE_EXHAUSTED: run 0: no room\n");
  EXPECT_FALSE(std::filesystem::exists(path));
  const CommandResult as_json =
      Command(PHITAP, {"trace", "-t", "1", "-c", "x", "--json"},
              server.address())
          .Finish();
  EXPECT_EQ(as_json.exit_status, 1);
  EXPECT_EQ(json::parse(as_json.output)["runs"][0]["status"]["code"], 8);
}

TEST(UnservedCli, SaysHowToStartAServer) {
  const CommandResult result =
      Command(PHITAP, {"models"}, "127.0.0.1:1").Finish();
  EXPECT_EQ(result.exit_status, 3);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("phitapd --model")));
}

TEST(UnservedCli, EndsWithTwoOnWrongUsage) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {},
           {"trase"},
           {"trace"},
           {"trace", "-t", "x", "-c", "logits"},
           {"trace", "-t", "1", "-c", "logits@bad=1"},
           {"trace", "-t", "1", "-c", "logits", "--timeout", "-1"},
           {"trace", "-t", "1", "-c", "logits", "--values"},
           {"trace", "-t", "1", "-c", "logits", "-i", "x nothing"},
           {"trace", "--request", "/nowhere.json"},
           {"sweep", "-t", "1", "-i", "x zero"},
           {"sweep", "-t", "1", "--metric", "logit:#1"},
           {"sweep", "-t", "1", "-i", "x zero", "--metric", "logit"},
           {"generate"},
           {"generate", "-t", "1", "-t", "2"},
           {"generate", "-t", "1", "-n", "0"},
           {"tensors", "put", "x"},
           {"tokenize"},
           {"models", "load"},
           {"models", "unload"},
           {"log-level", "loud"},
           {"top", "--interval", "0.05"},
           {"models", "--server", "nowhere"}}) {
    const CommandResult result =
        Command(PHITAP, arguments, "127.0.0.1:1").Finish();
    EXPECT_EQ(result.exit_status, 2) << testing::PrintToString(arguments);
    EXPECT_NE(result.errors, "");
  }
}

TEST(UnservedCli, HelpsWithExamples) {
  for (const char* command :
       {"models", "hooks", "tokenize", "detokenize", "plan", "trace", "sweep",
        "generate", "tensors", "top", "drain", "log-level", "completion"}) {
    const CommandResult result =
        Command(PHITAP, {command, "--help"}, "127.0.0.1:1").Finish();
    EXPECT_EQ(result.exit_status, 0);
    EXPECT_THAT(result.output, HasSubstr("Examples:\n  ")) << command;
  }
}

}  // namespace
}  // namespace phitap
