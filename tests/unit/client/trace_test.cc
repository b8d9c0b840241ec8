#include "client/cpp/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace phitap::client {
namespace {

using testing::HasSubstr;

Trace TraceOf(
    const std::vector<std::pair<std::string, std::string>>& runs_and_parts) {
  Trace trace;
  for (const auto& [run, part] : runs_and_parts) {
    TracedTensor tensor;
    tensor.descriptor.set_label("lens");
    tensor.descriptor.set_hook_point("layers.0.layer_output");
    tensor.descriptor.set_run(run);
    tensor.descriptor.set_part(part);
    trace.tensors.push_back(tensor);
  }
  return trace;
}

TEST(Trace, FindsTheOneTensorThatMatches) {
  const Trace trace =
      TraceOf({{"0", "indices"}, {"1", "indices"}, {"1", "values"}});
  const absl::StatusOr<const TracedTensor*> found =
      trace.Find({.run = "1", .part = "indices"});
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(*found, &trace.tensors[1]);
}

TEST(Trace, NamesWhatThereIsWhereNothingMatches) {
  EXPECT_THAT(TraceOf({{"0", "indices"}}).Find({.label = "other"}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no tensor with label `other`; the trace has: "
                                 "label `lens`, run `0`")));
}

TEST(Trace, RefusesToChooseAmongSeveral) {
  EXPECT_THAT(
      TraceOf({{"0", "indices"}, {"1", "indices"}}).Find({.part = "indices"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("2 tensors match part `indices`")));
}

TEST(Trace, TellsStepsApart) {
  Trace trace = TraceOf({{"0", ""}, {"0", ""}});
  trace.tensors[1].descriptor.set_step(4);
  EXPECT_EQ(*trace.Find({.step = 0}), &trace.tensors[0]);
  EXPECT_EQ(*trace.Find({.step = 4}), &trace.tensors[1]);
  EXPECT_THAT(trace.Find({.step = 5}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no tensor with step `5`; the trace has: "
                                 "label `lens`, run `0`, hook point "
                                 "`layers.0.layer_output`; label `lens`, run "
                                 "`0`, hook point `layers.0.layer_output`, "
                                 "step `4`")));
}

}  // namespace
}  // namespace phitap::client
