#include "tests/integration/trace_refusals.h"

#include <gmock/gmock.h>

namespace phitap {

TEST_P(TraceRefusals, NameTheFieldAndLeaveTheServerWorking) {
  v1::TraceRequest request = GoodRequest();
  GetParam().spoil(request);
  const TraceAnswer answer = Trace(stub(), request);
  EXPECT_EQ(answer.status.error_code(), GetParam().code);
  for (const std::string& text : GetParam().says) {
    EXPECT_THAT(answer.status.error_message(), ::testing::HasSubstr(text));
  }
  EXPECT_FALSE(answer.header.has_value());
  EXPECT_FALSE(answer.summary.has_value());

  // The dry run refuses it in the same words.
  grpc::ClientContext context;
  v1::PlanTraceRequest plan;
  *plan.mutable_trace() = request;
  v1::PlanTraceResponse planned;
  const grpc::Status status = stub().PlanTrace(&context, plan, &planned);
  EXPECT_EQ(status.error_code(), GetParam().code);
  ExpectWorks();
}

}  // namespace phitap
