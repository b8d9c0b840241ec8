// The server process: starting, listening, health, stopping.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/checkpoint_files.h"
#include "tests/support/raw_call.h"
#include "tests/support/server_process.h"
#include "tests/support/trace_answer.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Answers of grpc.health.v1, see health.proto.
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";
constexpr char kServiceUnknown[] = "\x08\x03";

// A HealthCheckRequest.
std::string HealthOf(const std::string& service) {
  if (service.empty()) return "";
  return std::string("\x0a") + static_cast<char>(service.size()) + service;
}

class LifecycleTest : public ::testing::Test {
 protected:
  LifecycleTest() { TinyCheckpoint(TinyKind::kWindow).Write(folder_); }

  std::string Model() { return "--model=tiny=" + folder_.path(); }

  // One run of `tokens` tokens, every layer.
  v1::TraceRequest Request(int runs, int tokens) {
    v1::TraceRequest request;
    for (int run = 0; run < runs; ++run) {
      v1::TokenIds& ids =
          *request.add_runs()->mutable_prompt()->mutable_tokens();
      for (int i = 0; i < tokens; ++i) ids.add_ids(i % 96);
    }
    request.add_captures()->set_hook_points("layers.*.mlp_neurons");
    return request;
  }

  TempFolder folder_;
};

TEST_F(LifecycleTest, LetsIdleThreadsSleepSoonUnlessItIsToldHowTheyWait) {
  const auto environment = [this] {
    ServerProcess server({Model()});
    EXPECT_NE(server.AwaitAddress(), "") << server.Output();
    std::ifstream file("/proc/" + std::to_string(server.pid()) + "/environ");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  };
  unsetenv("OMP_WAIT_POLICY");
  EXPECT_THAT(environment(), HasSubstr("GOMP_SPINCOUNT=5000"));
  setenv("OMP_WAIT_POLICY", "passive", 1);
  EXPECT_THAT(environment(), Not(HasSubstr("GOMP_SPINCOUNT")));
  unsetenv("OMP_WAIT_POLICY");
}

TEST_F(LifecycleTest, SaysThatItServes) {
  ServerProcess server({Model()});
  ASSERT_NE(server.AwaitAddress(), "") << server.Output();
  for (const char* service : {"", "phitap.v1.ActivationService"}) {
    RawCall check(server.Connect(), "/grpc.health.v1.Health/Check",
                  HealthOf(service));
    EXPECT_EQ(check.Read(), kServing);
    EXPECT_TRUE(check.Finish().ok());
  }
  RawCall watch(server.Connect(), "/grpc.health.v1.Health/Watch",
                HealthOf("other.Service"));
  EXPECT_EQ(watch.Read(), kServiceUnknown);
}

TEST_F(LifecycleTest, ReflectsItsServices) {
  ServerProcess server({Model()});
  ASSERT_NE(server.AwaitAddress(), "") << server.Output();
  RawCall call(server.Connect(),
               "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
               std::string("\x3a\x00", 2));  // list_services
  const std::optional<std::string> services = call.Read();
  ASSERT_TRUE(services.has_value());
  EXPECT_THAT(*services, AllOf(HasSubstr("phitap.v1.ActivationService"),
                               HasSubstr("grpc.health.v1.Health")));
}

TEST_F(LifecycleTest, FinishesWhatItAcceptedOnSigterm) {
  ServerProcess server({Model()});
  ASSERT_NE(server.AwaitAddress(), "") << server.Output();
  RawCall watch(server.Connect(), "/grpc.health.v1.Health/Watch",
                HealthOf("phitap.v1.ActivationService"));
  ASSERT_EQ(watch.Read(), kServing);

  // Read slowly enough to be under way when the server is told to stop.
  grpc::ClientContext context;
  const auto reader = server.stub().Trace(&context, Request(40, 500));
  v1::TraceResponse response;
  TraceAnswer answer;
  ASSERT_TRUE(reader->Read(&response));
  Take(response, answer);
  server.Signal(SIGTERM);
  EXPECT_EQ(watch.Read(), kNotServing);
  ASSERT_TRUE(server.AwaitLog("stopping"));

  const TraceAnswer late = Trace(server.stub(), Request(1, 3));
  EXPECT_EQ(late.status.error_code(), grpc::StatusCode::UNAVAILABLE);

  while (reader->Read(&response)) Take(response, answer);
  EXPECT_TRUE(reader->Finish().ok());
  ASSERT_TRUE(answer.summary.has_value());
  EXPECT_EQ(answer.summary->size_bytes(), answer.header->size_bytes());
  EXPECT_EQ(server.Wait(), 0);
}

TEST_F(LifecycleTest, EndsAtOnceOnASecondSignal) {
  ServerProcess server({Model()});
  ASSERT_NE(server.AwaitAddress(), "") << server.Output();
  grpc::ClientContext context;
  const auto reader = server.stub().Trace(&context, Request(40, 500));
  v1::TraceResponse response;
  ASSERT_TRUE(reader->Read(&response));
  server.Signal(SIGINT);
  ASSERT_TRUE(server.AwaitLog("stopping"));
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 128 + SIGINT);
}

TEST_F(LifecycleTest, ListensOnAUnixSocket) {
  const std::string path = "unix:" + folder_.File("server.sock");
  ServerProcess server({Model(), "--listen", path});
  ASSERT_EQ(server.AwaitAddress(), path) << server.Output();
  const TraceAnswer answer = Trace(server.stub(), Request(1, 3));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_TRUE(answer.summary.has_value());
}

TEST_F(LifecycleTest, WritesItsAddressToTheFile) {
  const std::string path = folder_.File("address");
  ServerProcess server({Model(), "--address-file", path});
  const std::string address = server.AwaitAddress();
  ASSERT_NE(address, "");
  std::string written;
  std::getline(std::ifstream(path) >> std::ws, written);
  EXPECT_EQ(written, address);
}

TEST_F(LifecycleTest, LogsJsonWithoutWhatWasAsked) {
  ServerProcess server({Model(), "--log-format", "json"});
  ASSERT_TRUE(server.AwaitLog("\"ready\"")) << server.Output();
  const std::string output = server.Output();
  const size_t begin = output.find("\"address\":\"") + 11;
  const auto stub = v1::ActivationService::NewStub(
      grpc::CreateChannel(output.substr(begin, output.find('"', begin) - begin),
                          grpc::InsecureChannelCredentials()));
  v1::TraceRequest request = Request(1, 3);
  request.mutable_captures(0)->set_label("my secret label");
  const TraceAnswer answer = Trace(*stub, request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.Output(), Not(HasSubstr("secret")));
  std::istringstream lines(server.Output());
  bool ended = false;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    ended |= json["message"] == "trace ended" &&
             json["request"] == answer.header->request_id() &&
             json["code"] == "OK";
  }
  EXPECT_TRUE(ended) << server.Output();
}

TEST_F(LifecycleTest, WarnsWhenOtherMachinesCanConnect) {
  ServerProcess server(
      {Model(), "--listen", "0.0.0.0:0", "--insecure-listen", "on"});
  ASSERT_NE(server.AwaitAddress(), "");
  EXPECT_THAT(server.Output(), HasSubstr("warning other machines"));
}

TEST_F(LifecycleTest, ReadsAConfigurationFile) {
  folder_.Write("phitapd.toml", "model = [\"one=" + folder_.path() +
                                    "\", \"two=" + folder_.path() +
                                    "\"]\ndtype = \"bfloat16\"\n");
  ServerProcess server({"--config", folder_.File("phitapd.toml")});
  ASSERT_NE(server.AwaitAddress(), "") << server.Output();
  grpc::ClientContext context;
  v1::ListModelsResponse models;
  ASSERT_TRUE(server.stub().ListModels(&context, {}, &models).ok());
  ASSERT_EQ(models.models_size(), 2);
  EXPECT_EQ(models.models(1).name(), "two");
  EXPECT_EQ(models.models(1).config().dtype(), v1::DATA_TYPE_BF16);
}

TEST_F(LifecycleTest, EndsWithOneErrorWhereAPortIsTaken) {
  ServerProcess first({Model()});
  const std::string address = first.AwaitAddress();
  ASSERT_NE(address, "");
  ServerProcess second({Model(), "--listen", address});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Output(), HasSubstr("--listen: cannot listen on"));
}

TEST_F(LifecycleTest, EndsWithOneErrorWhereAFlagIsWrong) {
  ServerProcess server({Model(), "--threads", "none"});
  EXPECT_EQ(server.Wait(), 2);
  EXPECT_EQ(server.Output(),
            "phitapd: --threads: \"none\"; valid: 1 to 1024\n");
}

TEST_F(LifecycleTest, PrintsItsVersion) {
  ServerProcess server({"--version"});
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.Output(), ::testing::StartsWith("phitapd "));
}

// Models that do not load: the exit code is 1 and the error says which and why.
struct BrokenModel {
  std::string name;
  std::function<void(const TempFolder&)> write;
  std::string says;
};

class BrokenModels : public ::testing::TestWithParam<BrokenModel> {};

TEST_P(BrokenModels, EndTheServerBeforeItListens) {
  TempFolder folder;
  GetParam().write(folder);
  ServerProcess server({"--model", "broken=" + folder.path()});
  EXPECT_EQ(server.AwaitAddress(), "");
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.Output(),
              AllOf(HasSubstr("--model broken=" + folder.path()),
                    HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    LifecycleTest, BrokenModels,
    ::testing::ValuesIn(std::vector<BrokenModel>{
        {"EmptyFolder", [](const TempFolder&) {}, "config.json"},
        {"ConfigThatIsNoJson",
         [](const TempFolder& folder) {
           TinyCheckpoint(TinyKind::kWindow).Write(folder);
           folder.Write("config.json", "{");
         },
         "config.json"},
        {"AnotherKindOfModel",
         [](const TempFolder& folder) {
           CheckpointFiles files = TinyCheckpoint(TinyKind::kWindow);
           files.config["model_type"] = "phi3small";
           files.Write(folder);
         },
         "phi3small"},
        {"MissingTensor",
         [](const TempFolder& folder) {
           CheckpointFiles files = TinyCheckpoint(TinyKind::kWindow);
           files.Remove("model.norm.weight");
           files.Write(folder);
         },
         "model.norm.weight"},
        {"TruncatedWeights",
         [](const TempFolder& folder) {
           TinyCheckpoint(TinyKind::kWindow).Write(folder);
           folder.Write("model.safetensors", "12345");
         },
         "model.safetensors"},
        {"TokenizerThatIsNoJson",
         [](const TempFolder& folder) {
           TinyCheckpoint(TinyKind::kWindow).Write(folder);
           folder.Write("tokenizer.json", "{");
         },
         "tokenizer.json"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace phitap
