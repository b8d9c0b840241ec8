// What one identity keeps is to another one as if it were not there, whatever a
// request uses it for.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tests/support/named_identities.h"
#include "tests/support/puppet_server.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using Code = grpc::StatusCode;

v1::TraceRequest OneRun() {
  v1::TraceRequest request;
  request.add_runs()->mutable_prompt()->mutable_tokens()->add_ids(1);
  request.add_captures()->set_hook_points("layers.0.layer_output");
  return request;
}

v1::TraceRequest Adding(const std::string& tensor) {
  v1::TraceRequest request = OneRun();
  v1::Intervention& edit = *request.mutable_runs(0)->add_interventions();
  edit.set_hook_points("layers.0.layer_input");
  edit.mutable_add()->mutable_value()->set_tensor_name(tensor);
  return request;
}

v1::TraceRequest Computing(const std::string& tensor) {
  v1::TraceRequest request = OneRun();
  v1::Node& node = *request.mutable_program()->add_nodes();
  node.set_name("kept");
  node.set_tensor_name(tensor);
  request.mutable_captures(0)->clear_hook_points();
  request.mutable_captures(0)->set_node("kept");
  return request;
}

v1::TraceRequest Keeping(const std::string& tensor) {
  v1::TraceRequest request = OneRun();
  request.mutable_captures(0)->set_tensor_name(tensor);
  return request;
}

class ForeignTensorsTest : public ::testing::Test {
 protected:
  ForeignTensorsTest() {
    identities_.Add("alice", {"trace", "tensors"});
    identities_.Add("bob", {"trace", "tensors"});
    server_ = std::make_unique<PuppetServer>(PuppetServerOptions{
        .anonymous_roles = {}, .tokens_path = identities_.path()});
    server_->stage().RunFreely();
    EXPECT_TRUE(Trace("alice", Keeping("joy")).ok());
  }

  grpc::Status Trace(const std::string& name, const v1::TraceRequest& request) {
    grpc::ClientContext context;
    identities_.Sign(name, context);
    const auto reader = server_->stub().Trace(&context, request);
    v1::TraceResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }
  grpc::Status Plan(const std::string& name, const v1::TraceRequest& request) {
    grpc::ClientContext context;
    identities_.Sign(name, context);
    v1::PlanTraceRequest plan;
    *plan.mutable_trace() = request;
    v1::PlanTraceResponse planned;
    return server_->stub().PlanTrace(&context, plan, &planned);
  }
  // Uploads so many zeros.
  grpc::Status Put(const std::string& name, const std::string& tensor,
                   int64_t floats) {
    grpc::ClientContext context;
    identities_.Sign(name, context);
    v1::PutTensorResponse response;
    const auto writer = server_->stub().PutTensor(&context, &response);
    v1::PutTensorRequest message;
    message.mutable_header()->set_name(tensor);
    message.mutable_header()->set_dtype(v1::DATA_TYPE_F32);
    message.mutable_header()->add_shape(floats);
    writer->Write(message);
    const std::string bytes(static_cast<size_t>(floats) * 4, '\0');
    message.mutable_chunk()->set_data(bytes);
    message.mutable_chunk()->set_xxh3(XXH3_64bits(bytes.data(), bytes.size()));
    writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }
  v1::ListTensorsResponse List(const std::string& name) {
    grpc::ClientContext context;
    identities_.Sign(name, context);
    v1::ListTensorsResponse response;
    EXPECT_TRUE(server_->stub().ListTensors(&context, {}, &response).ok());
    return response;
  }

  NamedIdentities identities_;
  std::unique_ptr<PuppetServer> server_;
};

TEST_F(ForeignTensorsTest, AreNotFoundHoweverARequestNamesThem) {
  using Call =
      std::function<grpc::Status(const std::string&, const v1::TraceRequest&)>;
  const Call trace = [&](const auto&... with) { return Trace(with...); };
  const Call plan = [&](const auto&... with) { return Plan(with...); };
  for (const auto& use : {Adding, Computing}) {
    for (const Call& call : {trace, plan}) {
      // No more: puppets compute no programs.
      EXPECT_NE(call("alice", use("joy")).error_code(), Code::NOT_FOUND);
      const grpc::Status foreign = call("bob", use("joy"));
      const grpc::Status missing = call("bob", use("joz"));
      EXPECT_EQ(foreign.error_code(), Code::NOT_FOUND);
      EXPECT_THAT(foreign.error_message(), HasSubstr("\"joy\""));
      EXPECT_EQ(foreign.error_message(),
                absl::StrReplaceAll(missing.error_message(), {{"joz", "joy"}}));
    }
  }
}

TEST_F(ForeignTensorsTest, StayAsTheyAreWhateverIsKeptUnderTheirNames) {
  ASSERT_TRUE(Put("bob", "joy", 3).ok());
  ASSERT_EQ(List("bob").tensors_size(), 1);
  EXPECT_EQ(List("bob").used_bytes(), 12);
  EXPECT_EQ(List("alice").used_bytes(), 4096);
  EXPECT_EQ(server_->tensors().used_bytes(), 0);
  ASSERT_TRUE(Trace("bob", Keeping("joy")).ok());
  ASSERT_TRUE(Put("alice", "joy", 5).ok());
  EXPECT_EQ(List("bob").used_bytes(), 4096);
  EXPECT_EQ(List("alice").used_bytes(), 20);
}

}  // namespace
}  // namespace phitap
