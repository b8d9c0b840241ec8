#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "server/rpc/activity_reactor.h"
#include "tests/support/puppet_server.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

v1::WatchActivityRequest EveryMs(int milliseconds) {
  v1::WatchActivityRequest request;
  request.mutable_interval()->set_seconds(milliseconds / 1000);
  request.mutable_interval()->set_nanos(milliseconds % 1000 * 1'000'000);
  return request;
}

v1::TraceRequest FourTokens() {
  v1::TraceRequest request;
  v1::TokenIds& ids = *request.add_runs()->mutable_prompt()->mutable_tokens();
  for (int i = 0; i < 4; ++i) ids.add_ids(i);
  request.add_captures()->set_hook_points("layers.0.layer_output");
  return request;
}

// A WatchActivity call read by hand.
class Watch {
 public:
  Watch(PuppetServer& server, const v1::WatchActivityRequest& request) {
    // One that should have been refused would go on for ever.
    context_.set_deadline(std::chrono::system_clock::now() +
                          std::chrono::seconds(30));
    reader_ = server.admin().WatchActivity(&context_, request);
  }

  // The next message for which `wanted` holds.
  template <typename Wanted>
  v1::WatchActivityResponse Await(Wanted wanted) {
    v1::WatchActivityResponse seen;
    while (reader_->Read(&seen) && !wanted(seen)) {
    }
    return seen;
  }
  v1::WatchActivityResponse Next() {
    return Await([](const v1::WatchActivityResponse&) { return true; });
  }
  void HangUp() { context_.TryCancel(); }
  // Reads the rest.
  grpc::Status Finish() {
    v1::WatchActivityResponse seen;
    while (reader_->Read(&seen)) {
    }
    return reader_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchActivityResponse>> reader_;
};

TEST(WatchActivity, TellsWhoHasWhatWhileItIsComputedAndWhatItCameTo) {
  PuppetServer server({.anonymous_roles = {Role::kTrace, Role::kAdmin}});
  Watch watch(server, EveryMs(100));
  EXPECT_EQ(watch.Next().callers_size(), 0);

  grpc::ClientContext context;
  const auto trace = server.stub().Trace(&context, FourTokens());
  server.stage().Await();
  const v1::WatchActivityResponse busy = watch.Await(
      [](const v1::WatchActivityResponse& seen) { return seen.waves() == 1; });
  ASSERT_EQ(busy.callers_size(), 1);
  EXPECT_EQ(busy.callers(0).running_requests(), 1);
  EXPECT_GT(busy.callers(0).undelivered_bytes(), 0);
  EXPECT_EQ(busy.wave_tokens(), 4);
  EXPECT_EQ(busy.models(0).name(), "tiny");
  EXPECT_EQ(busy.models(0).status(), v1::MODEL_STATUS_READY);

  server.stage().RunFreely();
  v1::TraceResponse response;
  while (trace->Read(&response)) {
  }
  EXPECT_TRUE(trace->Finish().ok());
  const v1::WatchActivityResponse after =
      watch.Await([](const v1::WatchActivityResponse& seen) {
        return seen.finished_requests() == 1;
      });
  EXPECT_EQ(after.waves(), 0);
  EXPECT_EQ(after.sent_bytes(), 4 * 1024 * 4);
  EXPECT_EQ(after.failed_requests(), 0);
  watch.HangUp();
  EXPECT_EQ(watch.Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(WatchActivity, NamesEachKindOfMemoryOnce) {
  PuppetServer server({.anonymous_roles = {Role::kTrace, Role::kAdmin}});
  Watch watch(server, v1::WatchActivityRequest());
  const v1::WatchActivityResponse seen = watch.Next();
  std::string kinds;
  for (const v1::MemoryUse& use : seen.memory()) kinds += use.kind() + " ";
  EXPECT_EQ(kinds, "undelivered workspace roots tensors weights resident ");
  EXPECT_EQ(seen.memory(3).limit_bytes(), 1 << 20);
  EXPECT_GT(seen.memory(5).used_bytes(), 1 << 20);
  watch.HangUp();
  watch.Finish();
}

TEST(WatchActivity, RefusesAnIntervalThatIsNone) {
  PuppetServer server({.anonymous_roles = {Role::kTrace, Role::kAdmin}});
  for (const int milliseconds : {0, 99, -100, 3'600'001}) {
    Watch watch(server, EveryMs(milliseconds));
    const grpc::Status status = watch.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("interval: "));
    EXPECT_THAT(status.error_message(), HasSubstr("valid: 100ms to 1h"));
  }
}

TEST(WatchActivity, IsForAdministrators) {
  PuppetServer server({.anonymous_roles = {Role::kTrace, Role::kTensors}});
  Watch watch(server, EveryMs(100));
  const grpc::Status status = watch.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("admin"));
  EXPECT_EQ(server.metrics().Total(Metric::kCalls, "code", "PERMISSION_DENIED"),
            1);
}

TEST(WatchActivity, EndsOnceTheServerStopsAndNothingIsLeft) {
  PuppetServer server({.anonymous_roles = {Role::kTrace, Role::kAdmin}});
  Watch watch(server, EveryMs(100));
  watch.Next();
  server.scheduler().StopAccepting();
  EXPECT_TRUE(watch.Finish().ok());
}

}  // namespace
}  // namespace phitap
