// Who calls, by token, through a real gRPC server.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/rpc/grpc_status.h"
#include "tests/support/every_call.h"
#include "tests/support/named_identities.h"
#include "tests/support/puppet_server.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Code = grpc::StatusCode;

bool IsRefused(const grpc::Status& status) {
  return status.error_code() == Code::PERMISSION_DENIED ||
         status.error_code() == Code::UNAUTHENTICATED;
}

class IdentitiesTest : public ::testing::Test {
 protected:
  IdentitiesTest() {
    identities_.Add("alice", {"trace", "tensors"});
    identities_.Add("bob", {"trace", "tensors"});
    identities_.Add("eve", {"trace"});
  }
  void Start(PuppetServerOptions options = {.anonymous_roles = {}}) {
    options.tokens_path = identities_.path();
    server_ = std::make_unique<PuppetServer>(options);
    server_->stage().RunFreely();
  }

  // ListModels with these headers.
  grpc::Status ListModels(const std::vector<std::string>& authorizations) {
    grpc::ClientContext context;
    for (const std::string& authorization : authorizations) {
      context.AddMetadata("authorization", authorization);
    }
    v1::ListModelsResponse response;
    return server_->stub().ListModels(&context, {}, &response);
  }
  grpc::Status ListModelsOf(const std::string& name) {
    return ListModels({"Bearer " + identities_.token(name)});
  }
  v1::ListTensorsResponse ListTensors(const std::string& name) {
    grpc::ClientContext context;
    identities_.Sign(name, context);
    v1::ListTensorsResponse response;
    EXPECT_TRUE(server_->stub().ListTensors(&context, {}, &response).ok());
    return response;
  }
  grpc::Status Delete(const std::string& name, const std::string& tensor) {
    grpc::ClientContext context;
    identities_.Sign(name, context);
    v1::DeleteTensorRequest request;
    request.set_name(tensor);
    v1::DeleteTensorResponse response;
    return server_->stub().DeleteTensor(&context, request, &response);
  }
  // A trace of `tokens` tokens; with a tensor to add, or one to keep.
  grpc::Status Trace(const std::string& name, int tokens,
                     const std::string& added = "",
                     const std::string& kept = "") {
    v1::TraceRequest request;
    v1::Run& run = *request.add_runs();
    for (int i = 0; i < tokens; ++i) {
      run.mutable_prompt()->mutable_tokens()->add_ids(1);
    }
    v1::Capture& capture = *request.add_captures();
    capture.set_hook_points("layers.0.layer_output");
    if (!kept.empty()) capture.set_tensor_name(kept);
    if (!added.empty()) {
      v1::Intervention& edit = *run.add_interventions();
      edit.set_hook_points("layers.0.layer_input");
      edit.mutable_add()->mutable_value()->set_tensor_name(added);
    }
    grpc::ClientContext context;
    identities_.Sign(name, context);
    const auto reader = server_->stub().Trace(&context, request);
    v1::TraceResponse response;
    while (reader->Read(&response)) {
    }
    grpc::Status status = reader->Finish();
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto hint = trailers.find(kRetryMetadata);
    retry_hint_ = hint == trailers.end()
                      ? ""
                      : std::string(hint->second.data(), hint->second.size());
    return status;
  }

  NamedIdentities identities_;
  std::unique_ptr<PuppetServer> server_;
  // Of the last trace.
  std::string retry_hint_;
};

TEST_F(IdentitiesTest, LetEachDoWhatItsRolesSay) {
  Start();
  for (const NamedCall& call : EveryCall()) {
    for (const std::string name : {"alice", "eve"}) {
      grpc::ClientContext context;
      identities_.Sign(name, context);
      const grpc::Status status = call.make(server_->stub(), context);
      EXPECT_EQ(IsRefused(status), name == "eve" && call.role == "tensors")
          << name << " " << call.method << ": " << status.error_message();
    }
  }
}

TEST_F(IdentitiesTest, AreAskedForByEveryCall) {
  Start();
  for (const NamedCall& call : EveryCall()) {
    grpc::ClientContext context;
    const grpc::Status status = call.make(server_->stub(), context);
    EXPECT_EQ(status.error_code(), Code::UNAUTHENTICATED) << call.method;
    EXPECT_THAT(status.error_message(), HasSubstr("authorization: Bearer"));
  }
}

TEST_F(IdentitiesTest, AreNotThoseOfATokenThatNobodyHas) {
  // Not even where callers need not say who they are.
  Start({.anonymous_roles = {Role::kTrace, Role::kTensors, Role::kAdmin}});
  EXPECT_TRUE(ListModels({}).ok());
  std::string forged = identities_.token("alice");
  forged.back() = forged.back() == '0' ? '1' : '0';
  for (const std::string& authorization :
       {"Bearer " + NewToken(), "Bearer " + forged, std::string("Bearer "),
        std::string(), "Basic " + identities_.token("alice"),
        identities_.token("alice")}) {
    const grpc::Status status = ListModels({authorization});
    EXPECT_EQ(status.error_code(), Code::UNAUTHENTICATED) << authorization;
    EXPECT_THAT(status.error_message(), Not(HasSubstr("phitap_")));
  }
  EXPECT_EQ(ListModels({"Bearer " + identities_.token("alice"),
                        "Bearer " + identities_.token("bob")})
                .error_code(),
            Code::UNAUTHENTICATED);
  EXPECT_TRUE(ListModels({"bearer " + identities_.token("alice")}).ok());
}

TEST_F(IdentitiesTest, AreUnknownToAServerWithoutTokens) {
  PuppetServer server;
  grpc::ClientContext context;
  identities_.Sign("alice", context);
  v1::ListModelsResponse response;
  const grpc::Status status = server.stub().ListModels(&context, {}, &response);
  EXPECT_EQ(status.error_code(), Code::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("knows no tokens"));
}

TEST_F(IdentitiesTest, EndWithTheirTokens) {
  Start();
  EXPECT_TRUE(ListModelsOf("alice").ok());
  identities_.Remove("alice");
  identities_.Add("carol", {"trace"});
  server_->identities().Reread();
  EXPECT_EQ(ListModelsOf("alice").error_code(), Code::UNAUTHENTICATED);
  EXPECT_TRUE(ListModelsOf("carol").ok());
}

TEST_F(IdentitiesTest, NeitherReadNorNameNorInferEachOthersTensors) {
  Start();
  const grpc::Status before = Trace("bob", 1, "secret");
  const grpc::Status deleted_before = Delete("bob", "secret");
  ASSERT_TRUE(Trace("alice", 1, "", "secret").ok());
  ASSERT_THAT(ListTensors("alice").tensors(), Not(IsEmpty()));
  EXPECT_TRUE(Trace("alice", 1, "secret").ok());

  EXPECT_EQ(before.error_code(), Code::NOT_FOUND);
  const grpc::Status after = Trace("bob", 1, "secret");
  EXPECT_EQ(after.error_code(), before.error_code());
  EXPECT_EQ(after.error_message(), before.error_message());
  const grpc::Status deleted = Delete("bob", "secret");
  EXPECT_EQ(deleted.error_code(), deleted_before.error_code());
  EXPECT_EQ(deleted.error_message(), deleted_before.error_message());
  EXPECT_THAT(ListTensors("bob").tensors(), IsEmpty());
  EXPECT_EQ(ListTensors("bob").used_bytes(), 0);
  EXPECT_EQ(server_->tensors().used_bytes(), 0);
}

TEST_F(IdentitiesTest, KeepNoMoreTensorBytesThanTheyMay) {
  identities_.Add("alice", {"trace", "tensors"},
                  {{"quotas", {{"max_tensor_bytes", 5000}}}});
  Start();
  EXPECT_EQ(ListTensors("alice").limit_bytes(), 5000);
  ASSERT_TRUE(Trace("alice", 1, "", "a").ok());
  const grpc::Status status = Trace("alice", 1, "", "b");
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("you may keep 5000"));
  EXPECT_TRUE(Trace("bob", 1, "", "b").ok());
}

TEST_F(IdentitiesTest, HaveNoMoreTokensAMinuteThanTheyMay) {
  identities_.Add("alice", {"trace"},
                  {{"quotas", {{"max_tokens_per_minute", 60}}}});
  Start();
  EXPECT_EQ(Trace("alice", 61).error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Trace("alice", 50).ok());
  const grpc::Status status = Trace("alice", 20);
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("of your 60 a minute 10"));
  EXPECT_EQ(retry_hint_, "10000");
  EXPECT_TRUE(Trace("bob", 200).ok());
  server_->clock().Advance(absl::Seconds(10));
  EXPECT_TRUE(Trace("alice", 20).ok());
}

TEST_F(IdentitiesTest, HaveNoMoreQueuedBytesThanTheyMay) {
  identities_.Add("alice", {"trace"},
                  {{"quotas", {{"max_queued_bytes", 100'000}}}});
  Start();
  EXPECT_TRUE(Trace("alice", 10).ok());
  const grpc::Status status = Trace("alice", 1000);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("at most 100000"));
  EXPECT_TRUE(Trace("bob", 1000).ok());
}

// A trace on a connection of its own, under way until it is destroyed.
class LongTrace {
 public:
  LongTrace(PuppetServer& server, const NamedIdentities& identities,
            const std::string& name) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::ActivationService::NewStub(grpc::CreateCustomChannel(
        server.rpc().address(), grpc::InsecureChannelCredentials(), arguments));
    identities.Sign(name, context_);
    v1::TraceRequest request;
    request.add_runs()->mutable_prompt()->mutable_tokens()->add_ids(1);
    request.add_captures()->set_hook_points("layers.0.layer_output");
    reader_ = stub_->Trace(&context_, request);
  }
  ~LongTrace() { context_.TryCancel(); }

  bool Accepted() {
    v1::TraceResponse response;
    return reader_->Read(&response) && response.has_header();
  }
  grpc::Status Finish() {
    v1::TraceResponse response;
    while (reader_->Read(&response)) {
    }
    return reader_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::ActivationService::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<v1::TraceResponse>> reader_;
};

TEST_F(IdentitiesTest, HaveNoMoreRequestsThanTheyMayOverAllConnections) {
  identities_.Add("alice", {"trace"}, {{"quotas", {{"max_requests", 2}}}});
  PuppetServer server(
      {.anonymous_roles = {}, .tokens_path = identities_.path()});
  LongTrace first(server, identities_, "alice");
  ASSERT_TRUE(first.Accepted());
  LongTrace second(server, identities_, "alice");
  ASSERT_TRUE(second.Accepted());
  LongTrace third(server, identities_, "alice");
  const grpc::Status refused = third.Finish();
  EXPECT_EQ(refused.error_code(), Code::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(),
              AllOf(HasSubstr("2 of at most 2"), HasSubstr("try again in")));
  LongTrace other(server, identities_, "bob");
  EXPECT_TRUE(other.Accepted());
  server.stage().RunFreely();
  EXPECT_TRUE(first.Finish().ok());
  LongTrace fourth(server, identities_, "alice");
  EXPECT_TRUE(fourth.Finish().ok());
}

TEST_F(IdentitiesTest, AreOneCallerOverAllConnections) {
  PuppetServer server(
      {.schedule = {.queue = {.max_requests = 4, .max_caller_requests = 1}},
       .anonymous_roles = {},
       .tokens_path = identities_.path()});
  LongTrace running(server, identities_, "alice");
  ASSERT_TRUE(running.Accepted());
  server.stage().Await();
  LongTrace queued(server, identities_, "alice");
  ASSERT_TRUE(queued.Accepted());
  LongTrace refused(server, identities_, "alice");
  EXPECT_THAT(refused.Finish().error_message(),
              HasSubstr("1 of at most 1 waiting requests of one caller"));
  LongTrace other(server, identities_, "bob");
  EXPECT_TRUE(other.Accepted());
  server.stage().RunFreely();
}

}  // namespace
}  // namespace phitap
