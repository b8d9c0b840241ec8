#include "server/rpc/admin_service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "server/observe/log.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/puppet_server.h"
#include "tests/support/raw_call.h"
#include "tests/support/trace_answer.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

// What grpc.health.v1 answers, see health.proto.
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";

v1::TraceRequest RequestTo(const std::string& model) {
  v1::TraceRequest request;
  request.set_model(model);
  request.add_runs()->mutable_prompt()->mutable_tokens()->add_ids(1);
  request.add_captures()->set_hook_points("layers.*.layer_output");
  return request;
}

class AdminServiceTest : public ::testing::Test {
 protected:
  AdminServiceTest() {
    std::filesystem::create_directory(folder_.File("phi"));
    folder_.Write("phi/config.json", "{}");
  }

  void Start(std::function<absl::Status(LoadSteps&)> load = nullptr,
             std::set<Role> roles = {Role::kTrace, Role::kAdmin}) {
    PuppetServerOptions options = {.load = std::move(load),
                                   .anonymous_roles = std::move(roles)};
    options.model_folder = folder_.path();
    server_.emplace(std::move(options));
    server_->stage().RunFreely();
  }

  // The states that are told.
  grpc::Status Load(const std::string& name,
                    std::vector<v1::ModelState>* told = nullptr) {
    grpc::ClientContext context;
    v1::LoadModelRequest request;
    request.set_name(name);
    const auto reader = server_->admin().LoadModel(&context, request);
    v1::LoadModelResponse response;
    while (reader->Read(&response)) {
      if (told != nullptr) told->push_back(response.model());
    }
    return reader->Finish();
  }

  grpc::Status Unload(const std::string& name) {
    grpc::ClientContext context;
    v1::UnloadModelRequest request;
    request.set_name(name);
    v1::UnloadModelResponse response;
    return server_->admin().UnloadModel(&context, request, &response);
  }

  grpc::Status Reload(const std::string& name) {
    grpc::ClientContext context;
    v1::ReloadModelRequest request;
    request.set_name(name);
    const auto reader = server_->admin().ReloadModel(&context, request);
    v1::ReloadModelResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }

  std::string Health(const std::string& service) {
    RawCall check(
        server_->channel(), "/grpc.health.v1.Health/Check",
        std::string("\x0a") + static_cast<char>(service.size()) + service);
    return check.Read().value_or("");
  }

  TempFolder folder_;
  std::optional<PuppetServer> server_;
};

TEST_F(AdminServiceTest, LoadsAModelThatThenTakesRequests) {
  Start([](LoadSteps& steps) { return steps.Begin("weights", 0.5); });
  EXPECT_EQ(Trace(server_->stub(), RequestTo("phi")).status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  std::vector<v1::ModelState> told;
  const grpc::Status status = Load("phi", &told);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back().status(), v1::MODEL_STATUS_READY);
  EXPECT_EQ(told.back().progress(), 1);
  EXPECT_GT(told.back().status_time().seconds(), 0);
  EXPECT_TRUE(Trace(server_->stub(), RequestTo("phi")).status.ok());
  EXPECT_EQ(Load("phi").error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(AdminServiceTest, RefusesTracesWithHowFarALoadingModelIs) {
  absl::Notification begun;
  absl::Notification go_on;
  Start([&](LoadSteps& steps) {
    const absl::Status status = steps.Begin("weights", 0.5);
    begun.Notify();
    go_on.WaitForNotification();
    return status;
  });
  auto loaded = std::async([&] { return Load("phi"); });
  begun.WaitForNotification();
  const grpc::Status refused = Trace(server_->stub(), RequestTo("phi")).status;
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(),
              HasSubstr("still loading (weights, 50%)"));
  EXPECT_EQ(Health("phitap.v1.ActivationService/phi"), kNotServing);
  // Others are not disturbed.
  EXPECT_TRUE(Trace(server_->stub(), RequestTo("tiny")).status.ok());
  go_on.Notify();
  EXPECT_TRUE(loaded.get().ok());
  EXPECT_EQ(Health("phitap.v1.ActivationService/phi"), kServing);
}

TEST_F(AdminServiceTest, LoadsOnThoughTheCallerHasHungUp) {
  absl::Notification begun;
  absl::Notification go_on;
  Start([&](LoadSteps& steps) {
    const absl::Status status = steps.Begin("weights", 0.5);
    begun.Notify();
    go_on.WaitForNotification();
    return status;
  });
  absl::Notification ready;
  server_->models().Observe([&](const ModelState& state) {
    if (state.name == "phi" && state.status == ModelStatus::kReady) {
      ready.Notify();
    }
  });
  {
    grpc::ClientContext context;
    v1::LoadModelRequest request;
    request.set_name("phi");
    const auto reader = server_->admin().LoadModel(&context, request);
    begun.WaitForNotification();
    context.TryCancel();
    v1::LoadModelResponse response;
    while (reader->Read(&response)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  go_on.Notify();
  ready.WaitForNotification();
}

TEST_F(AdminServiceTest, EndsALoadWithWhyItFailed) {
  Start([](LoadSteps&) { return absl::DataLossError("cut short"); });
  const grpc::Status status = Load("phi");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(status.error_message(), "cut short");
  grpc::ClientContext context;
  v1::ListModelStatesResponse states;
  ASSERT_TRUE(server_->admin().ListModelStates(&context, {}, &states).ok());
  ASSERT_EQ(states.models_size(), 2);
  EXPECT_EQ(states.models(0).name(), "phi");
  EXPECT_EQ(states.models(0).status(), v1::MODEL_STATUS_FAILED);
  EXPECT_EQ(states.models(0).failure(), "cut short");
  EXPECT_EQ(states.models(1).name(), "tiny");
  EXPECT_EQ(states.models(1).status(), v1::MODEL_STATUS_READY);
}

TEST_F(AdminServiceTest, UnloadsAndReloads) {
  Start();
  EXPECT_TRUE(Reload("tiny").ok());
  EXPECT_TRUE(Trace(server_->stub(), RequestTo("tiny")).status.ok());
  EXPECT_TRUE(Unload("tiny").ok());
  EXPECT_EQ(Trace(server_->stub(), RequestTo("tiny")).status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Health("phitap.v1.ActivationService/tiny"), kNotServing);
  EXPECT_EQ(Unload("tiny").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Reload("tiny").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(AdminServiceTest, AsksTheServerToStop) {
  Start();
  grpc::ClientContext context;
  v1::DrainServerResponse response;
  EXPECT_TRUE(server_->admin().DrainServer(&context, {}, &response).ok());
  EXPECT_EQ(server_->asked_to_stop(), 1);
}

TEST_F(AdminServiceTest, ChangesTheLogLevel) {
  Start();
  const auto set = [&](v1::LogVerbosity level) {
    grpc::ClientContext context;
    v1::SetLogLevelRequest request;
    request.set_level(level);
    v1::SetLogLevelResponse response;
    return server_->admin().SetLogLevel(&context, request, &response);
  };
  EXPECT_EQ(set(v1::LOG_VERBOSITY_UNSPECIFIED).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(set(v1::LOG_VERBOSITY_ERROR).ok());
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kWarning, "not this");
  ASSERT_TRUE(set(v1::LOG_VERBOSITY_INFO).ok());
  Log(LogLevel::kWarning, "but this");
  const std::string output = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(output, ::testing::Not(HasSubstr("not this")));
  EXPECT_THAT(output, HasSubstr("but this"));
}

TEST(RpcServer, TellsHealthChecksWhatItIsTold) {
  ActivationService service({});
  const auto rpc = *RpcServer::Start({.listen = "127.0.0.1:0"}, {&service});
  const auto channel =
      grpc::CreateChannel(rpc->address(), grpc::InsecureChannelCredentials());
  RawCall watch(channel, "/grpc.health.v1.Health/Watch", "");
  EXPECT_EQ(watch.Read(), kNotServing);
  rpc->TellServing();
  EXPECT_EQ(watch.Read(), kServing);
  rpc->TellNotServing();
  EXPECT_EQ(watch.Read(), kNotServing);
  // It is for good.
  rpc->TellServing();
  RawCall check(channel, "/grpc.health.v1.Health/Check", "");
  EXPECT_EQ(check.Read(), kNotServing);
}

TEST_F(AdminServiceTest, IsForAdministratorsAlone) {
  Start(nullptr, {Role::kTrace, Role::kTensors});
  EXPECT_EQ(Load("phi").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Unload("tiny").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Reload("tiny").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext list_context;
  v1::ListModelStatesResponse states;
  EXPECT_EQ(
      server_->admin().ListModelStates(&list_context, {}, &states).error_code(),
      grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext level_context;
  v1::SetLogLevelRequest level;
  level.set_level(v1::LOG_VERBOSITY_INFO);
  v1::SetLogLevelResponse level_response;
  EXPECT_EQ(server_->admin()
                .SetLogLevel(&level_context, level, &level_response)
                .error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext drain_context;
  v1::DrainServerResponse drained;
  EXPECT_EQ(
      server_->admin().DrainServer(&drain_context, {}, &drained).error_code(),
      grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(server_->asked_to_stop(), 0);
  EXPECT_TRUE(Trace(server_->stub(), RequestTo("tiny")).status.ok());
}

}  // namespace
}  // namespace phitap
