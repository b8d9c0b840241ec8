// Calls other than Trace that are refused, and bytes that are no request: one
// clear error each, and the server goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/served_models_fixture.h"
#include "tests/support/raw_call.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using Code = grpc::StatusCode;

class CallRefusals : public ServedModelsTest {
 protected:
  void TearDown() override { ExpectWorks(); }
  grpc::ClientContext context_;
};

TEST_F(CallRefusals, TraceOfBytesThatAreNoRequest) {
  RawCall call(server().Connect(), "/phitap.v1.ActivationService/Trace",
               "\x0a\xff");
  EXPECT_FALSE(call.Read().has_value());
  EXPECT_EQ(call.Finish().error_code(), Code::INVALID_ARGUMENT);
}

TEST_F(CallRefusals, AMethodThatDoesNotExist) {
  RawCall call(server().Connect(), "/phitap.v1.ActivationService/Train", "");
  EXPECT_FALSE(call.Read().has_value());
  EXPECT_EQ(call.Finish().error_code(), Code::UNIMPLEMENTED);
}

TEST_F(CallRefusals, GetModelOfAnUnknownModel) {
  v1::GetModelRequest request;
  request.set_model("phi");
  v1::GetModelResponse response;
  const grpc::Status status = stub().GetModel(&context_, request, &response);
  EXPECT_EQ(status.error_code(), Code::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("demo"));
}

TEST_F(CallRefusals, GetModelWithAnUnknownField) {
  v1::GetModelRequest request;
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(2, 1);
  v1::GetModelResponse response;
  EXPECT_EQ(stub().GetModel(&context_, request, &response).error_code(),
            Code::INVALID_ARGUMENT);
}

TEST_F(CallRefusals, TokenizeOfNothing) {
  v1::TokenizeRequest request;
  request.set_model("demo");
  v1::TokenizeResponse response;
  const grpc::Status status = stub().Tokenize(&context_, request, &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("input: not set"));
}

TEST_F(CallRefusals, TokenizeOfAModelWithoutTokenizer) {
  v1::TokenizeRequest request;
  request.set_model("tiny");
  request.set_text("hello");
  v1::TokenizeResponse response;
  EXPECT_EQ(stub().Tokenize(&context_, request, &response).error_code(),
            Code::FAILED_PRECONDITION);
}

TEST_F(CallRefusals, TokenizeOfAnEmptyChat) {
  v1::TokenizeRequest request;
  request.set_model("demo");
  request.mutable_chat();
  v1::TokenizeResponse response;
  const grpc::Status status = stub().Tokenize(&context_, request, &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("chat.messages"));
}

TEST_F(CallRefusals, DetokenizeOfNoIds) {
  v1::DetokenizeRequest request;
  request.set_model("demo");
  v1::DetokenizeResponse response;
  const grpc::Status status = stub().Detokenize(&context_, request, &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("ids: empty"));
}

TEST_F(CallRefusals, DetokenizeOfAnIdPastTheVocabulary) {
  v1::DetokenizeRequest request;
  request.set_model("demo");
  request.add_ids(1);
  request.add_ids(1232);
  v1::DetokenizeResponse response;
  const grpc::Status status = stub().Detokenize(&context_, request, &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("ids[1]: 1232"));
}
}  // namespace
}  // namespace phitap
