// Captures that are refused: one clear error each.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/integration/trace_refusals.h"

namespace phitap {
namespace {

using Request = v1::TraceRequest;
using Code = grpc::StatusCode;

v1::Capture& CaptureOf(Request& request) {
  return *request.mutable_captures(0);
}
v1::Selection& SelectionOf(Request& request) {
  return *CaptureOf(request).mutable_selection();
}
v1::Reduction& ReductionOf(Request& request) {
  return *CaptureOf(request).mutable_reduction();
}
// Reads `hook_points` instead.
std::function<void(Request&)> Hook(const std::string& hook_points) {
  return [=](Request& r) { CaptureOf(r).set_hook_points(hook_points); };
}

std::vector<Refusal> CaptureRefusals() {
  return {
      {"NoCaptures", [](Request& r) { r.clear_captures(); }, {"captures"}},
      {"NoHookPoint", Hook(""), {"captures[0]", "hook_points"}},
      {"UnknownHookPoint",
       Hook("layers.0.layer_outptu"),
       {"captures[0].hook_points", "layer_output"}},
      {"UnknownModelHookPoint",
       Hook("logit"),
       {"captures[0].hook_points", "logits"}},
      {"LayerPastTheLast",
       Hook("layers.6.layer_output"),
       {"captures[0].hook_points", "6", "0 to 5"}},
      {"LayerBeforeTheFirst",
       Hook("layers.-7.layer_output"),
       {"captures[0].hook_points", "-7"}},
      {"LayerRangePastTheLast",
       Hook("layers.4-6.layer_output"),
       {"captures[0].hook_points", "6"}},
      {"LayerRangeBackwards",
       Hook("layers.4-2.layer_output"),
       {"captures[0].hook_points"}},
      {"LayerHookWithoutLayer",
       Hook("layer_output"),
       {"captures[0].hook_points"}},
      {"OpenBrace",
       Hook("layers.{0,1.layer_output"),
       {"captures[0].hook_points"}},
      {"RunsOfNobody",
       [](Request& r) { CaptureOf(r).add_runs("b"); },
       {"captures[0].runs[0]", "\"b\""}},
      {"CaptureTwice",
       [](Request& r) { AddCapture(r, "layers.0.layer_output"); },
       {"captures[1]"}},
      {"CaptureLabelTwice",
       [](Request& r) {
         CaptureOf(r).set_label("x");
         AddCapture(r, "logits").set_label("x");
       },
       {"captures[1].label", "\"x\""}},
      {"PositionPastTheLast",
       [](Request& r) { SelectionOf(r).mutable_positions()->add_indices(3); },
       {"captures[0].selection.positions", "3"}},
      {"PositionBeforeTheFirst",
       [](Request& r) { SelectionOf(r).mutable_positions()->add_indices(-4); },
       {"captures[0].selection.positions", "-4"}},
      {"PositionTwice",
       [](Request& r) {
         SelectionOf(r).mutable_positions()->add_indices(2);
         SelectionOf(r).mutable_positions()->add_indices(-1);
       },
       {"captures[0].selection.positions", "twice"}},
      {"NoPositions",
       [](Request& r) { SelectionOf(r).mutable_positions(); },
       {"captures[0].selection.positions", "nothing"}},
      {"EmptyPositionRange",
       [](Request& r) {
         v1::IndexRange& range =
             *SelectionOf(r).mutable_positions()->add_ranges();
         range.set_start(2);
         range.set_stop(2);
       },
       {"captures[0].selection.positions.ranges[0]"}},
      {"NoStep",
       [](Request& r) {
         SelectionOf(r).mutable_positions()->add_ranges()->set_step(0);
       },
       {"captures[0].selection.positions.ranges[0].step", "0"}},
      {"TokenIdsThatDoNotOccur",
       [](Request& r) { SelectionOf(r).add_token_ids(7); },
       {"captures[0].selection.token_ids"}},
      {"TokenIdsAndPositions",
       [](Request& r) {
         SelectionOf(r).add_token_ids(5);
         SelectionOf(r).mutable_positions()->add_indices(0);
       },
       {"captures[0].selection"}},
      {"HeadsWhereThereAreNone",
       [](Request& r) { SelectionOf(r).mutable_heads()->add_indices(0); },
       {"captures[0].selection.heads", "layer_output"}},
      {"HeadPastTheLast",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.0.attention_queries");
         SelectionOf(r).mutable_heads()->add_indices(6);
       },
       {"captures[0].selection.heads", "6"}},
      {"KeyHeadPastTheLast",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.0.attention_keys");
         SelectionOf(r).mutable_heads()->add_indices(3);
       },
       {"captures[0].selection.heads", "3"}},
      {"FeaturePastTheLast",
       [](Request& r) { SelectionOf(r).mutable_features()->add_indices(192); },
       {"captures[0].selection.features", "192"}},
      {"QueriesWhereThereAreNone",
       [](Request& r) { SelectionOf(r).mutable_queries()->add_indices(0); },
       {"captures[0].selection.queries"}},
      {"PositionsOfScores",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.0.attention_scores");
         SelectionOf(r).mutable_positions()->add_indices(0);
       },
       {"captures[0].selection.positions"}},
  };
}

std::vector<Refusal> ReductionRefusals() {
  return {
      {"NoReductionKind",
       [](Request& r) { ReductionOf(r); },
       {"captures[0].reduction"}},
      {"TopNothing",
       [](Request& r) { ReductionOf(r).mutable_top_k()->set_k(0); },
       {"captures[0].reduction.top_k.k", "0"}},
      {"TopMoreThanThereAre",
       [](Request& r) { ReductionOf(r).mutable_top_k()->set_k(193); },
       {"captures[0].reduction.top_k.k", "193", "192"}},
      {"MeanWithoutPositions",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.0.attention_probabilities");
         ReductionOf(r).mutable_mean_over_positions();
       },
       {"captures[0].reduction.mean_over_positions", "seq"}},
      {"NormOfIntegers",
       [](Request& r) {
         CaptureOf(r).set_hook_points("input_ids");
         ReductionOf(r).mutable_norm();
       },
       {"captures[0].reduction"}},
      {"LensOfNeurons",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.0.mlp_neurons");
         ReductionOf(r).mutable_logit_lens()->set_k(1);
       },
       {"captures[0].reduction.logit_lens", "mlp_neurons"}},
      {"LensOfSomeFeatures",
       [](Request& r) {
         SelectionOf(r).mutable_features()->add_indices(0);
         ReductionOf(r).mutable_logit_lens()->set_k(1);
       },
       {"captures[0].reduction.logit_lens"}},
      {"LensPastTheVocabulary",
       [](Request& r) { ReductionOf(r).mutable_logit_lens()->set_k(1233); },
       {"captures[0].reduction.logit_lens.k", "1233", "1232"}},
      {"LensOfAnIdPastTheVocabulary",
       [](Request& r) {
         ReductionOf(r).mutable_logit_lens()->set_k(1);
         ReductionOf(r).mutable_logit_lens()->add_token_ids(5000);
       },
       {"captures[0].reduction.logit_lens.token_ids[0]", "5000"}},
      {"IntegersOnTheWire",
       [](Request& r) { CaptureOf(r).set_dtype(v1::DATA_TYPE_I64); },
       {"captures[0].dtype"}},
      {"UnknownDtype",
       [](Request& r) {
         CaptureOf(r).set_dtype(static_cast<v1::DataType>(77));
       },
       {"captures[0].dtype", "77"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Captures, TraceRefusals,
                         ::testing::ValuesIn(CaptureRefusals()), NameOfRefusal);
INSTANTIATE_TEST_SUITE_P(Reductions, TraceRefusals,
                         ::testing::ValuesIn(ReductionRefusals()),
                         NameOfRefusal);

}  // namespace
}  // namespace phitap
