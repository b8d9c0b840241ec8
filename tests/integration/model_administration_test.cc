// Models that come and go while others are asked, and readiness while they
// load.
#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "phitap/v1/admin_service.grpc.pb.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/raw_call.h"
#include "tests/support/server_process.h"
#include "tests/support/trace_answer.h"

namespace phitap {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// What grpc.health.v1 answers, see health.proto.
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";
constexpr char kAdmin[] = "--anonymous-roles=trace,tensors,admin";

v1::TraceRequest RequestTo(const std::string& model, int number = 0) {
  v1::TraceRequest request;
  request.set_model(model);
  v1::TokenIds& ids = *request.add_runs()->mutable_prompt()->mutable_tokens();
  for (int i = 0; i < 40 + number; ++i) ids.add_ids((i * 7 + number) % 96);
  request.add_captures()->set_hook_points("layers.*.layer_output");
  return request;
}

std::string Health(ServerProcess& server, const std::string& service) {
  RawCall check(
      server.Connect(), "/grpc.health.v1.Health/Check",
      service.empty()
          ? ""
          : std::string("\x0a") + static_cast<char>(service.size()) + service);
  return check.Read().value_or("");
}

class ModelAdministration : public ::testing::Test {
 protected:
  ModelAdministration() {
    Write("window", TinyKind::kWindow);
    Write("rope", TinyKind::kLongRope);
  }

  void Write(const std::string& name, TinyKind kind) {
    fs::create_directory(folder_.File(name));
    TempFolder temporary;
    TinyCheckpoint(kind).Write(temporary);
    fs::copy(
        temporary.path(), folder_.File(name),
        fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }

  void Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(),
                     {"--model-folder", folder_.path(), "--threads", "1"});
    server_ = std::make_unique<ServerProcess>(arguments);
    ASSERT_NE(server_->AwaitAddress(), "") << server_->Output();
    admin_ = v1::AdminService::NewStub(server_->Connect());
  }

  grpc::Status Load(const std::string& name, const std::string& path = "") {
    grpc::ClientContext context;
    v1::LoadModelRequest request;
    request.set_name(name);
    request.set_path(path);
    const auto reader = admin_->LoadModel(&context, request);
    v1::LoadModelResponse response;
    told_.clear();
    while (reader->Read(&response)) told_.push_back(last_ = response.model());
    return reader->Finish();
  }
  grpc::Status Reload(const std::string& name) {
    grpc::ClientContext context;
    v1::ReloadModelRequest request;
    request.set_name(name);
    const auto reader = admin_->ReloadModel(&context, request);
    v1::ReloadModelResponse response;
    while (reader->Read(&response)) last_ = response.model();
    return reader->Finish();
  }
  grpc::Status Unload(const std::string& name) {
    grpc::ClientContext context;
    v1::UnloadModelRequest request;
    request.set_name(name);
    v1::UnloadModelResponse response;
    return admin_->UnloadModel(&context, request, &response);
  }

  TempFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
  v1::ModelState last_;
  // All that the last Load told.
  std::vector<v1::ModelState> told_;
};

TEST_F(ModelAdministration, StartsWithoutAModelAndLoadsFromItsFolder) {
  Start({kAdmin});
  EXPECT_EQ(Health(*server_, ""), kServing);
  grpc::ClientContext context;
  v1::ListModelStatesResponse states;
  ASSERT_TRUE(admin_->ListModelStates(&context, {}, &states).ok());
  ASSERT_EQ(states.models_size(), 2);
  EXPECT_EQ(states.models(0).name(), "rope");
  EXPECT_EQ(states.models(0).status(), v1::MODEL_STATUS_AVAILABLE);

  const grpc::Status loaded = Load("mine", "window");
  ASSERT_TRUE(loaded.ok()) << loaded.error_message();
  EXPECT_EQ(last_.status(), v1::MODEL_STATUS_READY);
  EXPECT_GT(last_.weight_bytes(), 0);
  EXPECT_TRUE(Trace(server_->stub(), RequestTo("mine")).status.ok());
  EXPECT_EQ(Health(*server_, "phitap.v1.ActivationService/mine"), kServing);
  ASSERT_TRUE(Unload("mine").ok());
  EXPECT_EQ(Trace(server_->stub(), RequestTo("mine")).status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Health(*server_, "phitap.v1.ActivationService/mine"), kNotServing);
}

TEST_F(ModelAdministration, TellsHowFarTheLoadingIs) {
  Start({kAdmin});
  ASSERT_TRUE(Load("mine", "window").ok());
  for (size_t i = 1; i < told_.size(); ++i) {
    EXPECT_GE(told_[i].progress(), told_[i - 1].progress());
  }
  EXPECT_EQ(told_.back().progress(), 1);
}

TEST_F(ModelAdministration, LoadsNothingFromElsewhereNorMoreThanFits) {
  Start({kAdmin, "--max-model-bytes", "100KiB"});
  EXPECT_EQ(Load("x", "../window").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  const grpc::Status refused = Load("window");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("102400 are free"));
}

TEST_F(ModelAdministration, NeedsTheRole) {
  Start({"--model=tiny=" + folder_.File("window")});
  EXPECT_EQ(Load("rope").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Unload("tiny").error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(ModelAdministration, DrainsWhenItIsTold) {
  Start({kAdmin});
  grpc::ClientContext context;
  v1::DrainServerResponse response;
  EXPECT_TRUE(admin_->DrainServer(&context, {}, &response).ok());
  EXPECT_EQ(server_->Wait(), 0);
  EXPECT_THAT(server_->Output(), HasSubstr("reason=DrainServer"));
}

// Every request is answered, with the bytes that it has on a quiet server.
TEST_F(ModelAdministration, ChangesNobodysBytes) {
  constexpr int kCallers = 3;
  Start({kAdmin, "--model=stays=" + folder_.File("window"),
         "--model=changes=" + folder_.File("rope")});
  const std::vector<std::string> models = {"stays", "changes"};
  std::map<std::string, TraceAnswer> expected;
  for (const std::string& model : models) {
    for (int number = 0; number < kCallers; ++number) {
      expected[model + std::to_string(number)] =
          Trace(server_->stub(), RequestTo(model, number));
    }
  }
  std::atomic<bool> stopping = false;
  std::atomic<int> answered = 0;
  std::vector<std::thread> callers;
  for (const std::string& model : models) {
    for (int number = 0; number < kCallers; ++number) {
      callers.emplace_back([&, model, number] {
        while (!stopping) {
          const TraceAnswer answer =
              Trace(server_->stub(), RequestTo(model, number));
          EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
          EXPECT_EQ(answer.bytes,
                    expected[model + std::to_string(number)].bytes);
          ++answered;
        }
      });
    }
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Load("comes", "rope").ok());
    const int before = answered;
    while (answered < before + 10) std::this_thread::yield();
    const grpc::Status reloaded = Reload("changes");
    EXPECT_TRUE(reloaded.ok()) << reloaded.error_message();
    EXPECT_TRUE(Unload("comes").ok());
  }
  // A checkpoint that has become bad since leaves the model as it was.
  fs::remove(folder_.File("rope/config.json"));
  EXPECT_FALSE(Reload("changes").ok());
  const int before = answered;
  while (answered < before + 10) std::this_thread::yield();
  stopping = true;
  for (std::thread& caller : callers) caller.join();
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);
}

// Whatever it still says while it loads, it says that it serves no sooner than
// the last model does.
TEST_F(ModelAdministration, ListensBeforeItsModelsAreReady) {
  ServerProcess server({"--model=one=" + folder_.File("rope"),
                        "--model=two=" + folder_.File("window"), "--threads",
                        "1"});
  const std::string address = server.AwaitListening();
  ASSERT_NE(address, "") << server.Output();
  RawCall watch(server.Connect(), "/grpc.health.v1.Health/Watch", "");
  while (watch.Read() != kServing) {
  }
  EXPECT_EQ(Health(server, "phitap.v1.ActivationService/one"), kServing);
  EXPECT_EQ(Health(server, "phitap.v1.ActivationService/two"), kServing);
  EXPECT_TRUE(Trace(server.stub(), RequestTo("two")).status.ok());
  EXPECT_EQ(server.AwaitAddress(), address);
  EXPECT_LT(server.Output().find(" listening "),
            server.Output().find(" loaded "));
}

}  // namespace
}  // namespace phitap
