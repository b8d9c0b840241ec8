#include "tests/unit/rpc/load_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tests/support/busy_executor.h"
#include "tests/support/trace_answer.h"

namespace phitap {
namespace {

using Code = grpc::StatusCode;

// Of the puppets.
constexpr int kHiddenSize = 1024;

std::unique_ptr<v1::ActivationService::Stub> Connect(
    const std::string& address) {
  grpc::ChannelArguments arguments;
  // Channels share connections otherwise.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::ActivationService::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

// The answer to `request` is whole, and what BusyExecutor makes of it.
void ExpectWhole(const v1::TraceRequest& request, const TraceAnswer& answer) {
  ASSERT_TRUE(answer.summary.has_value());
  int tokens = 0;
  int passes = 0;
  for (const v1::Run& run : request.runs()) {
    if (run.prompt().tokens().ids_size() ==
        static_cast<int>(kUnluckyTokenCount)) {
      continue;
    }
    tokens += run.generation().max_tokens();
    passes += std::max(run.generation().max_tokens(), 1);
  }
  EXPECT_EQ(static_cast<int>(answer.tokens.size()), tokens);
  // Two layers.
  EXPECT_EQ(static_cast<int>(answer.bytes.size()), 2 * passes);
  for (const auto& [tensor, bytes] : answer.bytes) {
    EXPECT_EQ(bytes, std::string(bytes.size(), static_cast<char>(tensor)));
    EXPECT_EQ(static_cast<int64_t>(bytes.size()),
              answer.tensors.at(tensor).size_bytes());
  }
}

}  // namespace

LoadClient::LoadClient(LoadClientOptions options)
    : options_(std::move(options)),
      stub_(Connect(options_.address)),
      random_(options_.seed) {}

std::unique_ptr<grpc::ClientContext> LoadClient::NewCall() const {
  auto context = std::make_unique<grpc::ClientContext>();
  if (options_.sign != nullptr) options_.sign(*context);
  return context;
}

v1::TraceRequest LoadClient::DrawTrace(int most_tokens) {
  v1::TraceRequest request;
  request.set_model(
      options_.models[Below(static_cast<int>(options_.models.size()))]);
  const bool generates = Below(4) == 0;
  for (int runs = 1 + Below(3); runs > 0; --runs) {
    v1::Run& run = *request.add_runs();
    v1::TokenIds& ids = *run.mutable_prompt()->mutable_tokens();
    for (int tokens = 1 + Below(most_tokens); tokens > 0; --tokens) {
      ids.add_ids(1 + ids.ids_size() % 7);
    }
    if (generates) run.mutable_generation()->set_max_tokens(1 + Below(3));
    if (kept_ == Kept::kNo || Below(3) > 0) continue;
    v1::Intervention& edit = *run.add_interventions();
    edit.set_hook_points("layers.1.layer_input");
    edit.mutable_add()->mutable_value()->set_tensor_name(options_.name);
  }
  request.add_captures()->set_hook_points("layers.*.layer_output");
  return request;
}

bool LoadClient::IsRefusal(const grpc::Status& status) const {
  return status.error_code() == Code::UNAVAILABLE ||
         options_.refusals.contains(status.error_code()) ||
         (status.error_code() == Code::NOT_FOUND && kept_ == Kept::kPerhaps);
}

void LoadClient::CallOnce() {
  switch (Below(8)) {
    case 0:
    case 1:
      return GiveUp();
    case 2:
      return Keep();
    case 3:
      return Below(2) == 0 ? KeepByTrace() : Delete();
    case 4:
      return LookAround();
    default:
      TraceOnce();
  }
}

grpc::Status LoadClient::TraceOnce() {
  const v1::TraceRequest request = DrawTrace(90);
  const auto context = NewCall();
  const auto reader = stub_->Trace(context.get(), request);
  TraceAnswer answer;
  v1::TraceResponse response;
  while (reader->Read(&response)) Take(response, answer);
  answer.status = reader->Finish();
  if (answer.status.ok()) {
    ++counts_.answered;
    ExpectWhole(request, answer);
  } else {
    ++counts_.refused;
    EXPECT_TRUE(IsRefusal(answer.status))
        << answer.status.error_code() << ": " << answer.status.error_message();
    EXPECT_FALSE(answer.summary.has_value());
  }
  return answer.status;
}

void LoadClient::GiveUp() {
  const auto context = NewCall();
  if (Below(3) == 0) {
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::microseconds(Below(3000)));
  }
  const auto reader = stub_->Trace(context.get(), DrawTrace(200));
  v1::TraceResponse response;
  for (int left = Below(6); left > 0 && reader->Read(&response); --left) {
  }
  if (Below(2) == 0) context->TryCancel();
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok() || status.error_code() == Code::CANCELLED ||
              status.error_code() == Code::DEADLINE_EXCEEDED ||
              IsRefusal(status))
      << status.error_code() << ": " << status.error_message();
}

void LoadClient::Keep() {
  const auto context = NewCall();
  v1::PutTensorResponse response;
  const auto writer = stub_->PutTensor(context.get(), &response);
  const std::string bytes(kHiddenSize * 4, 'k');
  v1::PutTensorRequest header, chunk;
  header.mutable_header()->set_name(options_.name);
  header.mutable_header()->set_dtype(v1::DATA_TYPE_F32);
  header.mutable_header()->add_shape(kHiddenSize);
  chunk.mutable_chunk()->set_data(bytes);
  chunk.mutable_chunk()->set_xxh3(XXH3_64bits(bytes.data(), bytes.size()));
  writer->Write(header) && writer->Write(chunk);
  const bool gives_up = Below(4) == 0;
  if (gives_up) context->TryCancel();
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (status.ok()) {
    kept_ = Kept::kYes;
  } else if (kept_ == Kept::kNo) {
    kept_ = Kept::kPerhaps;
  }
  EXPECT_TRUE(status.ok() || gives_up || IsRefusal(status))
      << status.error_code() << ": " << status.error_message();
}

void LoadClient::KeepByTrace() {
  v1::TraceRequest request;
  request.set_model(options_.models.front());
  request.add_runs()->mutable_prompt()->mutable_tokens()->add_ids(1);
  v1::Capture& capture = *request.add_captures();
  capture.set_hook_points("layers.0.layer_output");
  capture.mutable_reduction()->mutable_mean_over_positions();
  capture.set_tensor_name(options_.name);
  const auto context = NewCall();
  const auto reader = stub_->Trace(context.get(), request);
  v1::TraceResponse response;
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  if (status.ok()) kept_ = Kept::kYes;
  EXPECT_TRUE(status.ok() || IsRefusal(status))
      << status.error_code() << ": " << status.error_message();
}

void LoadClient::LookAround() {
  v1::ListTensorsResponse tensors;
  grpc::Status status = stub_->ListTensors(NewCall().get(), {}, &tensors);
  EXPECT_TRUE(status.ok() || IsRefusal(status)) << status.error_message();
  v1::ListModelsResponse models;
  status = stub_->ListModels(NewCall().get(), {}, &models);
  EXPECT_TRUE(status.ok() || IsRefusal(status)) << status.error_message();
  v1::PlanTraceRequest asked;
  *asked.mutable_trace() = DrawTrace(20);
  v1::PlanTraceResponse plan;
  status = stub_->PlanTrace(NewCall().get(), asked, &plan);
  EXPECT_TRUE(status.ok() || IsRefusal(status)) << status.error_message();
}

void LoadClient::Delete() {
  v1::DeleteTensorRequest request;
  request.set_name(options_.name);
  v1::DeleteTensorResponse deleted;
  const grpc::Status status =
      stub_->DeleteTensor(NewCall().get(), request, &deleted);
  const bool unknown =
      status.error_code() == Code::NOT_FOUND && kept_ != Kept::kYes;
  EXPECT_TRUE(status.ok() || unknown || IsRefusal(status))
      << status.error_code() << ": " << status.error_message();
  // An upload that was given up may still be on its way.
  if (status.ok() && kept_ == Kept::kYes) kept_ = Kept::kNo;
}

}  // namespace phitap
