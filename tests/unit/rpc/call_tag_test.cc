// Where a call's names come back to its caller, through a real gRPC server.
#include "server/rpc/call_tag.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "server/rpc/request_id.h"
#include "tests/support/every_call.h"
#include "tests/support/puppet_server.h"

namespace phitap {
namespace {

using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

constexpr char kTrace[] = "00-0af7651916cd43dd8448eb211c80319c-";
constexpr char kAsked[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr char kIdPattern[] = "[0-9a-f]{16}";

// "" where there is none of that name.
std::string Entry(const Metadata& metadata, const char* name) {
  const auto found = metadata.find(name);
  if (found == metadata.end()) return "";
  return std::string(found->second.data(), found->second.size());
}

void ExpectNames(const Metadata& metadata, const std::string& method) {
  EXPECT_THAT(Entry(metadata, kRequestIdMetadata), MatchesRegex(kIdPattern))
      << method;
  EXPECT_THAT(Entry(metadata, kTraceresponseMetadata),
              MatchesRegex(std::string(kTrace) + kIdPattern + "-01"))
      << method;
}

// What a call with these `traceparent`s is answered with; "" if with none.
std::string Traceresponse(PuppetServer& server,
                          const std::vector<std::string>& traceparents) {
  grpc::ClientContext context;
  for (const std::string& traceparent : traceparents) {
    context.AddMetadata(kTraceparentMetadata, traceparent);
  }
  v1::ListModelsResponse models;
  EXPECT_TRUE(server.stub().ListModels(&context, {}, &models).ok());
  return Entry(context.GetServerInitialMetadata(), kTraceresponseMetadata);
}

TEST(CallTag, AnswersInTheCallersTraceWithAnIdOfItsOwn) {
  PuppetServer server;
  EXPECT_THAT(Traceresponse(server, {kAsked}),
              MatchesRegex(std::string(kTrace) + kIdPattern + "-01"));
  EXPECT_NE(Traceresponse(server, {kAsked}), kAsked);
  EXPECT_EQ(Traceresponse(server, {}), "");
  EXPECT_EQ(Traceresponse(server, {"00-what"}), "");
  EXPECT_EQ(Traceresponse(server, {kAsked, kAsked}), "");
}

// The methods of the AdminService that answer once, with a stream, and with one
// that does not end.
std::vector<NamedCall> AdminCalls(v1::AdminService::Stub& admin) {
  return {{"ListModelStates", "admin",
           [&](ActivationStub&, grpc::ClientContext& context) {
             v1::ListModelStatesResponse response;
             return admin.ListModelStates(&context, {}, &response);
           }},
          {"LoadModel", "admin",
           [&](ActivationStub&, grpc::ClientContext& context) {
             const auto reader = admin.LoadModel(&context, {});
             v1::LoadModelResponse response;
             EXPECT_FALSE(reader->Read(&response));
             return reader->Finish();
           }},
          {"WatchActivity", "admin",
           [&](ActivationStub&, grpc::ClientContext& context) {
             const auto reader = admin.WatchActivity(&context, {});
             v1::WatchActivityResponse response;
             EXPECT_FALSE(reader->Read(&response));
             return reader->Finish();
           }}};
}

// gRPC's clients take what comes before an error for the beginning of an
// answer, and then try nothing again.
TEST(CallTag, ComesWithARefusalAndNothingBeforeIt) {
  PuppetServer server({.anonymous_roles = {}});
  std::vector<NamedCall> calls = EveryCall();
  for (NamedCall& call : AdminCalls(server.admin())) {
    calls.push_back(std::move(call));
  }
  for (const NamedCall& call : calls) {
    grpc::ClientContext context;
    context.AddMetadata(kTraceparentMetadata, kAsked);
    EXPECT_FALSE(call.make(server.stub(), context).ok());
    EXPECT_THAT(context.GetServerInitialMetadata(), IsEmpty()) << call.method;
    ExpectNames(context.GetServerTrailingMetadata(), call.method);
  }
}

TEST(CallTag, ComesBeforeTheFirstMessageOfAStream) {
  PuppetServer server({.anonymous_roles = {Role::kTrace, Role::kAdmin}});
  server.stage().RunFreely();
  {
    grpc::ClientContext context;
    context.AddMetadata(kTraceparentMetadata, kAsked);
    v1::TraceRequest request;
    request.add_runs()->mutable_prompt()->mutable_tokens()->add_ids(1);
    request.add_captures()->set_hook_points("layers.*.layer_output");
    const auto reader = server.stub().Trace(&context, request);
    v1::TraceResponse response;
    while (reader->Read(&response)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
    ExpectNames(context.GetServerInitialMetadata(), "Trace");
    EXPECT_EQ(context.GetServerInitialMetadata().count(kRequestIdMetadata), 1);
    EXPECT_THAT(context.GetServerTrailingMetadata(), IsEmpty());
  }
  grpc::ClientContext context;
  context.AddMetadata(kTraceparentMetadata, kAsked);
  const auto reader = server.admin().WatchActivity(&context, {});
  v1::WatchActivityResponse response;
  EXPECT_TRUE(reader->Read(&response));
  ExpectNames(context.GetServerInitialMetadata(), "WatchActivity");
  context.TryCancel();
}

}  // namespace
}  // namespace phitap
