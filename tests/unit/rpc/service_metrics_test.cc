#include "server/rpc/service_metrics.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "server/rpc/call_tag.h"
#include "tests/support/puppet_server.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const Metrics& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.Collect());
}

TraceRecord Finished() {
  return {.tag = {.identity = "ada"},
          .model = "phi",
          .accepted = true,
          .totals = {.size_bytes = 100,
                     .run_count = 3,
                     .failed_run_count = 1,
                     .prompt_tokens = 12,
                     .generated_tokens = 5,
                     .token_layers_computed = 40,
                     .token_layers_saved = 8},
          .plan_time = absl::Milliseconds(2),
          .whole_time = absl::Milliseconds(30)};
}

TEST(ServiceMetrics, CountWhatAFinishedTraceWas) {
  Metrics metrics;
  ServiceMetrics service(metrics);
  service.CountTrace(Finished());
  const std::string text = Text(metrics);
  const std::string labels = "{caller=\"named\",model=\"phi\"}";
  EXPECT_THAT(text, HasSubstr("phitap_traces_total{caller=\"named\",model="
                              "\"phi\",outcome=\"finished\"} 1\n"));
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("phitap_runs_total" + labels + " 3\n"),
            HasSubstr("phitap_failed_runs_total" + labels + " 1\n"),
            HasSubstr("phitap_token_layers_computed_total" + labels + " 40\n"),
            HasSubstr("phitap_token_layers_saved_total" + labels + " 8\n"),
            HasSubstr("phitap_sent_bytes_total" + labels + " 100\n")));
  EXPECT_THAT(text, HasSubstr("phitap_trace_stage_seconds_bucket{model=\"phi\","
                              "stage=\"whole\",le=\"0.05\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("phitap_calls_total{code=\"OK\",method=\"Trace\"}"
                              " 1\n"));
  EXPECT_EQ(metrics.Total(Metric::kTokens), 17);
  EXPECT_EQ(metrics.Total(Metric::kRefusals), 0);
}

TEST(ServiceMetrics, CountByWhyARequestWasRefused) {
  Metrics metrics;
  ServiceMetrics service(metrics);
  service.CountTrace(
      {.status = WithRefusalReason(absl::UnavailableError("full"),
                                   RefusalReason::kQueueFull)});
  const std::string text = Text(metrics);
  EXPECT_THAT(text, HasSubstr("phitap_refusals_total{caller=\"anonymous\","
                              "reason=\"queue_full\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("phitap_refusals_total{caller=\"named\",reason="
                              "\"token_quota\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("phitap_traces_total{")));
}

TEST(ServiceMetrics, TellFailedCancelledAndExpiredTracesApart) {
  Metrics metrics;
  ServiceMetrics service(metrics);
  for (const absl::Status& status :
       {absl::InternalError(""), absl::CancelledError(""),
        absl::DeadlineExceededError("")}) {
    TraceRecord record = Finished();
    record.status = status;
    service.CountTrace(record);
  }
  const std::string text = Text(metrics);
  for (const std::string outcome : {"failed", "cancelled", "expired"}) {
    EXPECT_THAT(text, HasSubstr("outcome=\"" + outcome + "\"} 1\n"));
  }
  EXPECT_THAT(text, HasSubstr("outcome=\"finished\"} 0\n"));
  // What it was counts only of what was answered.
  EXPECT_EQ(metrics.Total(Metric::kTokens), 0);
  EXPECT_EQ(metrics.Total(Metric::kSentBytes), 300);
}

TEST(ServiceMetrics, CountTheCallsOfARealServer) {
  PuppetServer server;
  v1::ListModelsResponse models;
  v1::GetModelResponse model;
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    EXPECT_TRUE(server.stub()
                    .ListModels(&context, v1::ListModelsRequest(), &models)
                    .ok());
  }
  grpc::ClientContext context;
  v1::GetModelRequest request;
  request.set_model("secret-name");
  EXPECT_FALSE(server.stub().GetModel(&context, request, &model).ok());
  const std::string text = Text(server.metrics());
  EXPECT_THAT(text, HasSubstr("{code=\"OK\",method=\"ListModels\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("{code=\"NOT_FOUND\",method=\"GetModel\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("secret-name")));
}

}  // namespace
}  // namespace phitap
