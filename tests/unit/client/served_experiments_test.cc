#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/unit/client/canned_server.h"
#include "tests/unit/client/served_cli.h"
#include "tests/unit/client/small_streams.h"

namespace phitap {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

using ServedExperiments = ServedCli;

constexpr char kCorrupt[] =
    "When Mary and John went to the store, Mary gave a drink to";

const std::vector<std::string> kTwoRuns = {
    "--run", std::string("clean=") + kPrompt, "--run",
    std::string("corrupt=") + kCorrupt};

// A command with both runs and these arguments.
std::vector<std::string> WithTwoRuns(
    const std::string& command, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {command};
  all.insert(all.end(), kTwoRuns.begin(), kTwoRuns.end());
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

TEST_F(ServedExperiments, PatchesARunWithAnother) {
  const CommandResult result = Phitap(WithTwoRuns(
      "trace", {"-i", "corrupt: token_embeddings@positions=9 set run=clean",
                "-c", "logits@positions=-1", "-n", "2"}));
  ASSERT_EQ(result.exit_status, 0) << result.errors;
  EXPECT_THAT(
      result.output,
      HasSubstr("\n  edit token_embeddings@positions=9 set run=clean\n  goes "
                "on ·Mary|."));
  EXPECT_THAT(result.output,
              ContainsRegex("logits@positions=-1, run corrupt\n.*\n.*·Mary"));
}

TEST_F(ServedExperiments, DrawsWhereAnAnswerComesFrom) {
  const CommandResult result = Phitap(
      WithTwoRuns("sweep", {"-i", "corrupt: layers.*.layer_input set run=clean",
                            "--metric", "logit-diff: Mary, John"}));
  ASSERT_EQ(result.exit_status, 0) << result.errors;
  EXPECT_THAT(result.output,
              ContainsRegex("\nlogit-diff: Mary, John   run corrupt: "
                            "-[0-9.]+ = 0%, run clean: [0-9.]+ = 100%\n"));
  // The second name alone, where the layers begin.
  EXPECT_THAT(result.output, ContainsRegex("\nlayer 0 +100█\n"));
  // Last layer on top; the answer is at the last token there.
  EXPECT_THAT(result.output,
              ContainsRegex("\nlayer 5 .*[0-9]+[^0-9]*\nlayer 4 "));
  const json document = JsonOf(WithTwoRuns(
      "sweep", {"-i", "corrupt: layers.2-3.layer_input set run=clean", "--axes",
                "layers,positions:9,-1", "--metric", "kl:clean"}))["sweep"];
  EXPECT_EQ(document["axes"][0]["values"].dump(), "[2.0,3.0]");
  EXPECT_EQ(document["axes"][1]["labels"].dump(), R"(["·Mary","·to"])");
  EXPECT_EQ(document["metrics"][0]["reference"]["value"], 0);
  EXPECT_EQ(document["metrics"][0]["values"].size(), 2);
}

TEST_F(ServedExperiments, SaysWhichTokensAMetricsTextIs) {
  EXPECT_THAT(Phitap({"sweep", "-p", kPrompt, "-i", "layers.*.x zero",
                      "--metric", "logit: Mary gave"})
                  .errors,
              HasSubstr("--metric: ` Mary gave` is 2 tokens, ·Mary|·gave"));
}

TEST_F(ServedExperiments, GeneratesPlainAndSteered) {
  EXPECT_EQ(Phitap({"generate", "-p", kPrompt, "-n", "1"}).output, " Mary\n");
  const CommandResult both =
      Phitap({"generate", "-p", kPrompt, "-n", "1", "--run",
              std::string("other=") + kCorrupt, "-i",
              "token_embeddings@positions=9 set run=other"});
  EXPECT_EQ(both.output, "plain:\n Mary\n\nsteered:\n John\n") << both.errors;
  EXPECT_EQ(Phitap({"generate", "-p", kPrompt, "-n", "1", "--no-compare", "-i",
                    "layers.5.layer_output scale 1"})
                .output,
            " Mary\n");
}

TEST_F(ServedExperiments, GeneratesLinesOfJson) {
  const CommandResult result =
      Phitap({"generate", "-p", kPrompt, "-n", "2", "--json"});
  ASSERT_EQ(result.exit_status, 0) << result.errors;
  std::istringstream lines(result.output);
  std::string line;
  std::vector<json> documents;
  while (std::getline(lines, line)) documents.push_back(json::parse(line));
  ASSERT_EQ(documents.size(), 3);
  EXPECT_EQ(documents[0]["token"]["text"], " Mary");
  EXPECT_EQ(documents[1]["token"]["step"], 2);
  EXPECT_EQ(documents[2]["summary"]["runs"][0]["finish_reason"], "length");
}

TEST_F(ServedExperiments, KeepsTensors) {
  const std::string path = FreshPath();
  ASSERT_EQ(
      Phitap({"trace", "-p", kPrompt, "-c",
              "v=layers.2.layer_output@positions=-1@dtype=f32", "-o", path})
          .exit_status,
      0);
  EXPECT_EQ(Phitap({"tensors", "put", "mine", path + ":v"}).output,
            "kept mine [1, 192] float32, 768 B\n");
  EXPECT_EQ(Phitap({"tensors", "put", "mine", path + ":*"}).output,
            "kept mine.v [1, 192] float32, 768 B\n");
  EXPECT_THAT(Phitap({"tensors", "put", "mine", path + ":w"}).errors,
              HasSubstr("has no tensor `w`; it has v"));
  EXPECT_THAT(Phitap({"tensors"}).output,
              ContainsRegex("\nmine +\\[1, 192\\] +float32 +768 B "));
  for (const std::string& source :
       {std::string("tensor=mine"), "file=" + path}) {
    EXPECT_EQ(Phitap({"trace", "-p", kPrompt, "-i",
                      "layers.2.layer_output@positions=-1 set " + source, "-c",
                      "layers.2.layer_output@positions=-1@reduce=norm",
                      "--values", "--json"})
                  .exit_status,
              0);
  }
  EXPECT_THAT(Phitap({"trace", "-p", kPrompt, "-c",
                      "layers.0.layer_output@positions=-1@keep=mine.w"})
                  .output,
              HasSubstr("\nkept mine.w on the server\n"));
  EXPECT_EQ(JsonOf({"tensors", "--prefix", "mi"})["tensors"][0]["name"],
            "mine");
  EXPECT_EQ(Phitap({"tensors", "delete", "mine"}).output, "deleted mine\n");
  EXPECT_THAT(Phitap({"tensors", "delete", "mine"}).errors,
              StartsWith("phitap: NOT_FOUND"));
  std::filesystem::remove(path);
}

TEST_F(ServedExperiments, TakesWholeRequests) {
  const CommandResult result =
      Phitap({"trace", "--request", TECHNIQUES "/patchscope.json"});
  EXPECT_EQ(result.exit_status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("  edit layers.1.layer_output@positions="
                                       "-1 set run=clean:"));
  EXPECT_EQ(
      Phitap({"plan", "--request", TECHNIQUES "/gradients.json"}).exit_status,
      0);
}

TEST(UnservedExperiments, CancelsGenerationOnCtrlC) {
  client::CannedServer server;
  server.service().messages = client::SmallStream().messages;
  server.service().messages.resize(2);
  v1::TraceResponse& token = server.service().messages.emplace_back();
  server.service().messages[1].mutable_run_tokens()->set_run("plain");
  token.mutable_token()->set_run("plain");
  token.mutable_token()->set_step(1);
  token.mutable_token()->set_text(" Mary");
  server.service().waits = true;
  Command command(PHITAP, {"generate", "-t", "1"}, server.address());
  server.service().sent.WaitForNotification();
  command.Send(SIGINT);
  const CommandResult result = command.Finish();
  EXPECT_EQ(result.exit_status, 130);
  EXPECT_EQ(result.errors, "phitap: cancelled\n");
  server.service().ended.WaitForNotification();
}

TEST(UnservedExperiments, FailsWhereACellFailed) {
  client::CannedServer server;
  client::SmallStream stream;
  v1::RunStatus& cell = *stream.messages[client::SmallStream::kSummary]
                             .mutable_summary()
                             ->add_runs();
  cell.set_run("sweep[3, 0]");
  cell.set_code(8);
  cell.set_message("no room");
  server.service().messages = stream.messages;
  const CommandResult result =
      Command(PHITAP,
              {"sweep", "-t", "1", "-i", "x zero", "--metric", "logit:#1"},
              server.address())
          .Finish();
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.errors,
            "phitap: RESOURCE_EXHAUSTED: cell sweep[3, 0]: no room\n");
}

}  // namespace
}  // namespace phitap
