// What each call needs, through a real gRPC server.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "server/rpc/grpc_status.h"
#include "tests/support/every_call.h"
#include "tests/support/puppet_server.h"
#include "tests/support/raw_call.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool IsRefused(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
         status.error_code() == grpc::StatusCode::UNAUTHENTICATED;
}

TEST(Roles, EachLetsItsOwnCallsInAndNoOther) {
  for (const Role role : {Role::kTrace, Role::kTensors, Role::kAdmin}) {
    PuppetServer server({.anonymous_roles = {role}});
    for (const NamedCall& call : EveryCall()) {
      grpc::ClientContext context;
      const grpc::Status status = call.make(server.stub(), context);
      EXPECT_EQ(IsRefused(status), call.role != Name(role))
          << call.method << " with " << Name(role) << ": "
          << status.error_message();
      if (!IsRefused(status)) continue;
      EXPECT_THAT(status.error_message(),
                  HasSubstr("needs the role `" + call.role + "`"));
    }
  }
}

TEST(Roles, AreNotNeededForHealthAndReflection) {
  PuppetServer server({.anonymous_roles = {}});
  RawCall health(server.channel(), "/grpc.health.v1.Health/Check", "");
  EXPECT_EQ(health.Read(), "\x08\x01");
  EXPECT_TRUE(health.Finish().ok());
  RawCall reflection(
      server.channel(),
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      std::string("\x3a\x00", 2));  // list_services
  EXPECT_THAT(reflection.Read().value_or(""),
              HasSubstr("phitap.v1.ActivationService"));
}

// The request of a trace that keeps what it captures.
v1::TraceRequest Keeping() {
  v1::TraceRequest request;
  request.add_runs()->mutable_prompt()->mutable_tokens()->add_ids(1);
  v1::Capture& capture = *request.add_captures();
  capture.set_hook_points("layers.0.layer_output");
  capture.set_tensor_name("kept");
  return request;
}

TEST(Roles, AreNeededToKeepWhatATraceCaptures) {
  PuppetServer server({.anonymous_roles = {Role::kTrace}});
  grpc::ClientContext context;
  const auto reader = server.stub().Trace(&context, Keeping());
  v1::TraceResponse response;
  EXPECT_FALSE(reader->Read(&response));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("captures[0].tensor_name"),
                    HasSubstr("needs the role `tensors`")));

  grpc::ClientContext plan_context;
  v1::PlanTraceRequest plan;
  *plan.mutable_trace() = Keeping();
  v1::PlanTraceResponse planned;
  EXPECT_EQ(server.stub().PlanTrace(&plan_context, plan, &planned).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST(Roles, AreNotNeededToReadWhatIsKept) {
  PuppetServer server({.anonymous_roles = {Role::kTrace}});
  ASSERT_TRUE(
      server.tensors()
          .Put("kept",
               CopyOf(DType::kF32, {1024}, std::vector<std::byte>(4096)), "")
          .ok());
  v1::PlanTraceRequest plan;
  *plan.mutable_trace() = Keeping();
  plan.mutable_trace()->mutable_captures(0)->clear_tensor_name();
  v1::Intervention& edit =
      *plan.mutable_trace()->mutable_runs(0)->add_interventions();
  edit.set_hook_points("layers.0.layer_input");
  edit.mutable_add()->mutable_value()->set_tensor_name("kept");
  grpc::ClientContext context;
  v1::PlanTraceResponse planned;
  const grpc::Status status = server.stub().PlanTrace(&context, plan, &planned);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace phitap
