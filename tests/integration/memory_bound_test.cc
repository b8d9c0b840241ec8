// What the server's memory grows by, beside what its planner says beforehand.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/text_format.h"
#include "server/checkpoint/config.h"
#include "server/plan/plan_trace.h"
#include "tests/support/server_process.h"
#include "tests/support/trace_answer.h"

namespace phitap {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// What is no request's: libtorch's and gRPC's threads and buffers, of the first
// request that needs them, and pages that the allocator holds in reserve.
constexpr int64_t kAllowance = 48 * kMiB;

// Of a process, in bytes: "VmRSS" or, since ForgetPeak, "VmHWM".
int64_t MemoryOf(pid_t pid, const std::string& name) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind(name + ":", 0) != 0) continue;
    return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return -1;
}

void ForgetPeak(pid_t pid) {
  std::ofstream(absl::StrCat("/proc/", pid, "/clear_refs")) << "5";
}

// `count` prompts of `length` tokens that have nothing in common.
std::string Prompts(int count, int length, const std::string& more = "") {
  std::string text;
  for (int run = 0; run < count; ++run) {
    std::vector<int> ids;
    for (int i = 0; i < length; ++i) ids.push_back((run + 37 * i) % 1000);
    absl::StrAppend(&text, "runs { label: 'r", run,
                    "' prompt { tokens { ids: [", absl::StrJoin(ids, ","),
                    "] } } ", more, " } ");
  }
  return text;
}

struct LargeRequest {
  const char* name;
  std::string text;
};

void PrintTo(const LargeRequest& request, std::ostream* out) {
  *out << request.name;
}

class MemoryBound : public ::testing::TestWithParam<LargeRequest> {
 protected:
  MemoryBound()
      : server_({"--model", "demo=" PHITAP_DEMO_MODEL, "--threads", "2"}) {}

  v1::TraceRequest RequestOf(const std::string& text) {
    v1::TraceRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request));
    request.set_model("demo");
    return request;
  }

  // What the planner says beforehand.
  int64_t BoundOf(const v1::TraceRequest& request) {
    const auto config = ReadConfig(PHITAP_DEMO_MODEL);
    EXPECT_TRUE(config.ok()) << config.status();
    PlanContext context = {.model = "demo",
                           .spec = config->spec,
                           .compute_dtype = config->spec.dtype};
    const auto plan = PlanTrace(request, context);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return 0;
    const TracePlan& planned = **plan;
    RecordProperty("storage_mib", std::to_string(planned.storage_bytes / kMiB));
    RecordProperty("held_mib", std::to_string(planned.working_bytes / kMiB));
    int64_t wave_bytes = planned.workspace_bytes;
    for (const RunGroup& group : planned.groups) {
      wave_bytes += group.workspace_bytes;
    }
    RecordProperty("wave_mib", std::to_string(wave_bytes / kMiB));
    return planned.storage_bytes + planned.working_bytes + wave_bytes;
  }

  ServerProcess server_;
};

TEST_P(MemoryBound, IsNotPassed) {
  ASSERT_NE(server_.AwaitAddress(), "") << server_.Output();
  const v1::TraceRequest small =
      RequestOf(Prompts(1, 8) + "captures { hook_points: 'logits' }");
  ASSERT_TRUE(Trace(server_.stub(), small).status.ok());

  const v1::TraceRequest request = RequestOf(GetParam().text);
  const int64_t bound = BoundOf(request);
  ForgetPeak(server_.pid());
  const int64_t before = MemoryOf(server_.pid(), "VmRSS");
  const TraceAnswer answer = Trace(server_.stub(), request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const int64_t grown = MemoryOf(server_.pid(), "VmHWM") - before;
  RecordProperty("grown_mib", std::to_string(grown / kMiB));
  std::cout << GetParam().name << ": " << grown / kMiB << " MiB of "
            << bound / kMiB << std::endl;
  EXPECT_LE(grown, bound + kAllowance);
  // A bound that is far too high would refuse what fits.
  EXPECT_LT(bound, 12 * (grown + kAllowance));
}

const char kGradients[] =
    "gradients { of { run: 'r0' logit { token_id: 3 } } hook_points: "
    "'layers.*.layer_output' } ";

std::vector<LargeRequest> LargeRequests() {
  const std::string many = Prompts(16, 500);
  return {
      {"all layers' outputs",
       many + "captures { hook_points: 'layers.*.layer_output' }"},
      {"one layer, edited",
       Prompts(16, 500,
               "interventions { hook_points: 'layers.*.mlp_gate_up' scale { "
               "value { number: 2 } } }") +
           "captures { hook_points: 'layers.5.layer_output' selection { "
           "positions { indices: -1 } } }"},
      {"neurons of all layers",
       Prompts(8, 500) + "captures { hook_points: 'layers.*.mlp_neurons' }"},
      {"eager probabilities",
       Prompts(4, 500) +
           "options { attention: ATTENTION_EAGER } captures { hook_points: "
           "'layers.*.attention_probabilities' }"},
      {"logits at all positions", many + "captures { hook_points: 'logits' }"},
      {"logit lens",
       many + "captures { hook_points: 'layers.*.layer_output' reduction { "
              "logit_lens { k: 5 } } }"},
      {"generation", Prompts(24, 300, "generation { max_tokens: 8 }")},
      {"hidden keys", Prompts(1, 500) +
                          "runs { label: 'h' prompt { same_as: 'r0' "
                          "hidden_positions { indices: 3 } } } captures { "
                          "hook_points: 'layers.*.attention_output' }"},
      {"a sweep",
       Prompts(2, 64) +
           "sweeps { run: 'r1' interventions { hook_points: "
           "'layers.*.layer_output' set { value { run { run: 'r0' } } } } axes "
           "{ layers {} } axes { positions {} } metrics { kl { from_run: 'r0' "
           "} "
           "} }"},
      {"gradients", Prompts(1, 500) + kGradients},
      {"eager gradients",
       Prompts(1, 500) + kGradients +
           "options { attention: ATTENTION_EAGER } captures { hook_points: "
           "'layers.0.layer_output' }"},
      {"transformers' numerics",
       Prompts(1, 500) +
           "options { numerics: NUMERICS_TRANSFORMERS } captures "
           "{ hook_points: 'layers.*.attention_scores' } captures "
           "{ hook_points: 'logits' }"},
  };
}

INSTANTIATE_TEST_SUITE_P(LargeRequests, MemoryBound,
                         ::testing::ValuesIn(LargeRequests()));

}  // namespace
}  // namespace phitap
