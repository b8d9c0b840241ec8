#include "server/plan/refuse_unknown.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>

#include "phitap/v1/activation_service.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

v1::TraceRequest FullRequest() {
  return RequestOf(
      "model: 'tiny' runs { label: 'a' prompt { tokens { ids: [1, 2] } "
      "hidden_positions { ranges { start: 1 } } } }"
      "captures { hook_points: 'layers.0.layer_output' "
      "selection { positions { indices: 0 } } "
      "reduction { logit_lens { k: 1 } } } options { isolate: true }");
}

void AddUnknown(google::protobuf::Message& message) {
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(77, 1);
}

TEST(RefuseUnknown, AcceptsWhatTheProtocolHas) {
  EXPECT_THAT(RefuseUnknown(FullRequest(), ""), IsOk());
}

TEST(RefuseUnknown, FindsAnUnknownFieldAnywhere) {
  struct Place {
    const char* path;
    google::protobuf::Message* message;
  };
  v1::TraceRequest request = FullRequest();
  v1::Prompt& prompt = *request.mutable_runs(0)->mutable_prompt();
  v1::Capture& capture = *request.mutable_captures(0);
  const Place places[] = {
      {"TraceRequest", &request},
      {"runs[0]", request.mutable_runs(0)},
      {"runs[0].prompt", &prompt},
      {"runs[0].prompt.tokens", prompt.mutable_tokens()},
      {"runs[0].prompt.hidden_positions.ranges[0]",
       prompt.mutable_hidden_positions()->mutable_ranges(0)},
      {"captures[0]", &capture},
      {"captures[0].selection.positions",
       capture.mutable_selection()->mutable_positions()},
      {"captures[0].reduction.logit_lens",
       capture.mutable_reduction()->mutable_logit_lens()},
      {"options", request.mutable_options()},
  };
  for (const Place& place : places) {
    AddUnknown(*place.message);
    EXPECT_THAT(
        RefuseUnknown(request, ""),
        StatusIs(kInvalid, AllOf(StartsWith(absl::StrCat(place.path, ": ")),
                                 HasSubstr("field number 77 is unknown"))));
    EXPECT_THAT(PlanTrace(request, TinyContext()),
                StatusIs(kInvalid, HasSubstr("field number 77 is unknown")));
    place.message->GetReflection()
        ->MutableUnknownFields(place.message)
        ->Clear();
  }
  EXPECT_THAT(RefuseUnknown(request, ""), IsOk());
}

TEST(RefuseUnknown, FindsAReservedFieldOfALaterProtocol) {
  v1::TraceRequest request = FullRequest();
  v1::Run& run = *request.mutable_runs(0);
  run.GetReflection()->MutableUnknownFields(&run)->AddLengthDelimited(3, "x");
  EXPECT_THAT(RefuseUnknown(request, ""),
              StatusIs(kInvalid, StartsWith("runs[0]: field number 3 is")));
}

TEST(RefuseUnknown, FindsAnUnknownEnumValue) {
  v1::TraceRequest request = FullRequest();
  request.mutable_options()->set_numerics(static_cast<v1::Numerics>(9));
  EXPECT_THAT(
      RefuseUnknown(request, ""),
      StatusIs(kInvalid,
               StartsWith("options.numerics: value 9 is unknown to this "
                          "server; valid: NUMERICS_UNSPECIFIED, "
                          "NUMERICS_CAUSAL, NUMERICS_TRANSFORMERS")));
  request = FullRequest();
  request.mutable_captures(0)->set_dtype(static_cast<v1::DataType>(40));
  EXPECT_THAT(RefuseUnknown(request, ""),
              StatusIs(kInvalid, StartsWith("captures[0].dtype: value 40 is")));
}

TEST(RefuseUnknown, StartsAtThePathItIsGiven) {
  v1::TraceRequest request = FullRequest();
  AddUnknown(*request.mutable_runs(0));
  v1::PlanTraceRequest outer;
  *outer.mutable_trace() = request;
  EXPECT_THAT(RefuseUnknown(outer, ""),
              StatusIs(kInvalid, StartsWith("trace.runs[0]: ")));
  EXPECT_THAT(RefuseUnknown(request, "trace"),
              StatusIs(kInvalid, StartsWith("trace.runs[0]: ")));
}

}  // namespace
}  // namespace phitap
