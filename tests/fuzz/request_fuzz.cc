// A TraceRequest, from its bytes to the rows of its waves.
// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/stubs/logging.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "server/rpc/prompt_encoder.h"
#include "server/rpc/request_plan.h"
#include "server/rpc/tensor_wire.h"
#include "server/spec/hook_point.h"
#include "tests/fuzz/demo_server.h"
#include "tests/fuzz/message_input.h"
#include "tests/fuzz/plan_promises.h"
#include "tests/fuzz/plan_waves.h"
#include "tests/fuzz/refusal.h"

namespace phitap {

const MessageInput& Inputs() {
  static const auto& inputs = *new MessageInput(
      v1::TraceRequest::default_instance(), DemoServer::Get().words());
  return inputs;
}

namespace {

// Prompts of a request that are tokenized once more.
constexpr int kComparedPrompts = 2;

// The dry run says what the plan says.
void ExpectDescribed(const v1::PlanTraceResponse& response,
                     const RequestPlan& planned) {
  using TensorName =
      std::tuple<std::string, std::string, std::string, int, std::string>;
  std::set<TensorName> names;
  int64_t size_bytes = 0;
  for (const v1::TensorDescriptor& tensor : response.tensors()) {
    Expect(names
               .insert({tensor.label(), tensor.run(), tensor.hook_point(),
                        tensor.step(), tensor.part()})
               .second,
           "label, run, hook point, step and part name one tensor");
    size_bytes += tensor.size_bytes();
  }
  Expect(response.size_bytes() == size_bytes, "the sizes add up");
  int kept = 0, callers_runs = 0;
  for (const PlannedTensor& tensor : planned.plan->tensors) {
    kept += !tensor.kept_as.empty();
  }
  Expect(response.tensors_size() + kept ==
             static_cast<int>(planned.plan->tensors.size()),
         "every tensor is sent or kept");
  for (const PlannedRun& run : planned.plan->runs) {
    callers_runs += run.sweep < 0;
  }
  Expect(response.runs_size() == callers_runs, "every run is told of");
  for (const v1::RunTokens& run : response.runs()) {
    Expect(planned.model->tokenizer == nullptr ||
               run.texts_size() == run.ids_size(),
           "a text an id");
  }
}

// Tokenize and Detokenize agree with what a run of the prompt reads.
void ExpectSameTokens(const v1::Prompt& prompt, const PlannedRun& run,
                      const ServedModel& model) {
  v1::TokenizeRequest request;
  if (prompt.has_text()) request.set_text(prompt.text());
  if (prompt.has_chat()) *request.mutable_chat() = prompt.chat();
  if (!prompt.has_text() && !prompt.has_chat()) return;
  const auto tokens = Tokenize(request, model);
  Expect(tokens.ok(), "what can be traced can be tokenized");
  Expect(std::vector<int32_t>(tokens->ids().begin(), tokens->ids().end()) ==
             run.ids,
         "and has the same ids");
  v1::DetokenizeRequest back;
  *back.mutable_ids() = tokens->ids();
  const auto text = Detokenize(back, model);
  Expect(text.ok() && text->texts_size() == tokens->ids_size(),
         "and can be turned back");
}

void Plan(const v1::TraceRequest& request) {
  const PlanningParts parts = DemoServer::Get().parts();
  const absl::StatusOr<RequestPlan> planned = PlanRequest(request, parts);
  ExpectFieldRefusal(planned.status());
  v1::PlanTraceRequest dry_run;
  *dry_run.mutable_trace() = request;
  const auto response = PlanOnly(dry_run, parts);
  Expect(response.ok() == planned.ok(),
         "the dry run refuses what would be refused");
  if (!planned.ok()) return;
  ExpectPromises(*planned->plan, planned->model->spec, parts.limits);
  ExpectDescribed(*response, *planned);
  ExpectWaves(planned->plan);
  const int compared = std::min(request.runs_size(), kComparedPrompts);
  for (int i = 0; i < compared; ++i) {
    ExpectSameTokens(request.runs(i).prompt(), planned->plan->runs[i],
                     *planned->model);
  }
}

}  // namespace
}  // namespace phitap

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  static const google::protobuf::LogSilencer silencer;  // tells of bad UTF-8
  const grpc::Slice slice(phitap::Inputs().BytesOf(phitap::Input(input, size)));
  const auto request = phitap::DecodeRequest(grpc::ByteBuffer(&slice, 1));
  phitap::ExpectRefusal(request.status());
  if (request.ok()) phitap::Plan(*request);
  return 0;
}
