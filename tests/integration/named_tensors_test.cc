// Named tensors through the real server, and over its restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/integration/served_models_fixture.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A server with a state folder, started and stopped by the test.
class NamedTensorsTest : public ::testing::Test {
 protected:
  void Start() {
    server_ = std::make_unique<ServerProcess>(Arguments());
    ASSERT_NE(server_->AwaitAddress(), "") << server_->Output();
  }
  std::vector<std::string> Arguments() {
    return {
        "--model",   "demo=" PHITAP_DEMO_MODEL, "--threads", "2", "--state-dir",
        state_dir(), "--max-tensor-bytes",      "64MiB"};
  }
  void Stop() {
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0) << server_->Output();
  }
  std::string state_dir() const { return folder_.File("state"); }
  v1::ActivationService::Stub& stub() { return server_->stub(); }

  v1::ListTensorsResponse List() {
    grpc::ClientContext context;
    v1::ListTensorsResponse response;
    EXPECT_TRUE(stub().ListTensors(&context, {}, &response).ok());
    return response;
  }
  TraceAnswer Get(const v1::TraceRequest& request) {
    TraceAnswer answer = Trace(stub(), request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    return answer;
  }

  TempFolder folder_;
  std::unique_ptr<ServerProcess> server_;
};

// The last position's residual stream after layer 2.
v1::TraceRequest ResidualOf(std::initializer_list<int> ids) {
  v1::TraceRequest request;
  AddRun(request, ids, "a");
  v1::Capture& capture = AddCapture(request, "layers.2.layer_output");
  capture.set_label("residual");
  capture.mutable_selection()->mutable_positions()->add_indices(-1);
  return request;
}

TEST_F(NamedTensorsTest, KeepsACaptureForLaterRequestsAndOverARestart) {
  Start();
  const std::string sent = Get(ResidualOf({1, 5, 9})).Bytes("a", "residual");
  v1::TraceRequest keeping = ResidualOf({1, 5, 9});
  keeping.mutable_captures(0)->set_tensor_name("means/last");
  AddCapture(keeping, "logits");
  const TraceAnswer kept = Get(keeping);
  EXPECT_EQ(kept.header->tensor_count(), 1);
  EXPECT_EQ(kept.bytes.size(), 1u);
  EXPECT_EQ(kept.summary->tensor_count(), 1);

  const v1::ListTensorsResponse before = List();
  ASSERT_EQ(before.tensors_size(), 1);
  EXPECT_EQ(before.tensors(0).name(), "means/last");
  EXPECT_EQ(before.tensors(0).dtype(), v1::DATA_TYPE_BF16);
  EXPECT_TRUE(before.tensors(0).persistent());
  EXPECT_EQ(before.used_bytes(), static_cast<int64_t>(sent.size()));
  Stop();

  Start();
  EXPECT_EQ(List().SerializeAsString(), before.SerializeAsString());
  v1::TraceRequest patched = ResidualOf({7, 7, 2});
  v1::Intervention& edit = *patched.mutable_runs(0)->add_interventions();
  edit.set_hook_points("layers.2.layer_output");
  edit.mutable_selection()->mutable_positions()->add_indices(-1);
  edit.mutable_set()->mutable_value()->set_tensor_name("means/last");
  EXPECT_EQ(Get(patched).Bytes("a", "residual"), sent);
}

TEST_F(NamedTensorsTest, ForgetsOverARestartWhatWasDeleted) {
  Start();
  v1::TraceRequest keeping = ResidualOf({1, 5, 9});
  keeping.mutable_captures(0)->set_tensor_name("gone");
  Get(keeping);
  grpc::ClientContext context;
  v1::DeleteTensorRequest request;
  request.set_name("gone");
  v1::DeleteTensorResponse response;
  EXPECT_TRUE(stub().DeleteTensor(&context, request, &response).ok());
  Stop();
  Start();
  EXPECT_EQ(List().tensors_size(), 0);
}

TEST_F(NamedTensorsTest, StartsAgainAfterItWasKilled) {
  Start();
  v1::TraceRequest keeping = ResidualOf({1, 5, 9});
  keeping.mutable_captures(0)->set_tensor_name("a");
  Get(keeping);
  server_->Signal(SIGKILL);
  EXPECT_EQ(server_->Wait(), -SIGKILL);
  folder_.Write("state/.unfinished", "half");
  Start();
  // Written behind: it may or may not have been on the disk, but not in part.
  const v1::ListTensorsResponse kept = List();
  for (const v1::StoredTensor& tensor : kept.tensors()) {
    EXPECT_EQ(tensor.name(), "a");
    EXPECT_EQ(tensor.size_bytes(), 192 * 2);
  }
}

TEST_F(NamedTensorsTest, EndsWithOneErrorWhereAFileIsNoTensor) {
  Start();
  Stop();
  folder_.Write("state/sae.safetensors", "this is no tensor");
  ServerProcess server(Arguments());
  EXPECT_EQ(server.AwaitAddress(), "");
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.Output(),
              AllOf(HasSubstr("--state-dir"), HasSubstr("sae.safetensors")));
}

TEST_F(NamedTensorsTest, EndsWithOneErrorWhereAnotherServerUsesTheFolder) {
  Start();
  ServerProcess second(Arguments());
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Output(), HasSubstr("in use by another server"));
}

TEST_F(NamedTensorsTest, RefusesNamesThatAreNotThereAndCapturesThatDoNotFit) {
  Start();
  v1::TraceRequest request = ResidualOf({1, 5, 9});
  v1::Intervention& edit = *request.mutable_runs(0)->add_interventions();
  edit.set_hook_points("layers.2.layer_output");
  edit.mutable_add()->mutable_value()->set_tensor_name("steer");
  const TraceAnswer missing = Trace(stub(), request);
  EXPECT_EQ(missing.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(missing.status.error_message(),
              HasSubstr("runs[0].interventions[0].add.value.tensor_name"));

  v1::TraceRequest keeping = ResidualOf({1, 5, 9});
  keeping.mutable_captures(0)->set_tensor_name("not a name");
  const TraceAnswer wrong = Trace(stub(), keeping);
  EXPECT_EQ(wrong.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(wrong.status.error_message(),
              HasSubstr("captures[0].tensor_name"));
}

}  // namespace
}  // namespace phitap
