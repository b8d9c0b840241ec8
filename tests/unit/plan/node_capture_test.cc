#include "server/plan/captures/node_capture.h"

#include <gmock/gmock.h>

#include "server/plan/describe.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/edits.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

constexpr char kNode[] =
    "program { nodes { name: 'n' read { run: '0' hook_point: "
    "'layers.1.layer_mid' selection { positions { indices: [0, 1] } } } } }";

TEST(PlanCaptures, SendsNodesBack) {
  const auto plan = Plan(absl::StrCat(
      kFiveTokens, kNode,
      "captures { node: 'n' } captures { label: 'h' node: 'n' dtype: "
      "DATA_TYPE_F16 }"));
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ((*plan)->outputs.size(), 2u);
  EXPECT_EQ((*plan)->outputs[1].tensor, 1);
  const v1::TensorDescriptor node = DescribeTensor(**plan, 0);
  EXPECT_EQ(node.label(), "n");
  EXPECT_EQ(node.run(), "");
  EXPECT_EQ(node.hook_point(), "");
  EXPECT_EQ(node.dtype(), v1::DATA_TYPE_F32);
  EXPECT_THAT(node.shape(), ElementsAre(2, 24));
  EXPECT_THAT(node.dimension_names(), ElementsAre("dim_0", "dim_1"));
  EXPECT_EQ(node.size_bytes(), 2 * 24 * 4);
  EXPECT_EQ((*plan)->tensors[1].size_bytes, 2 * 24 * 2);
  EXPECT_EQ((*plan)->runs[0].reach.layer_count, 2);
}

TEST(PlanCaptures, KeepsATensorInsteadOfSendingIt) {
  const auto plan = Plan(
      absl::StrCat(kFiveTokens, kLogits,
                   "captures { label: 'k' hook_points: 'layers.1.layer_mid' "
                   "tensor_name: 'vectors/happy.1' }"),
      KeepingContext());
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->tensors[0].kept_as, "");
  EXPECT_EQ((*plan)->tensors[1].kept_as, "vectors/happy.1");
  const v1::PlanTraceResponse answer = DescribePlan(**plan);
  ASSERT_EQ(answer.tensors_size(), 1);
  EXPECT_EQ(answer.size_bytes(), (*plan)->tensors[0].size_bytes);
}

TEST(PlanCaptures, RefusesNodesAndNamesThatCannotBe) {
  const std::string long_name(257, 'n');
  for (const auto& [capture, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"", ": names nothing to send back; valid: hook_points or node"},
           {"node: 'm'", ".node: "},
           {"node: 'n' hook_points: 'logits'",
            ".hook_points: is set beside node"},
           {"node: 'n' runs: '0'", ".runs: is set beside node"},
           {"node: 'n' selection {}", ".selection: is set beside node"},
           {"node: 'n' read_time: READ_TIME_AFTER",
            ".read_time: is set beside node"},
           {"node: 'n' reduction { norm {} }",
            ".reduction: is set beside node"},
           {"node: 'n' dtype: DATA_TYPE_I32",
            ".dtype: DATA_TYPE_I32 is no floating-point type"},
           {"hook_points: 'logits' tensor_name: '.a'",
            ".tensor_name: \".a\" is no name of a tensor; valid: at most 256 "
            "letters, digits"},
           {"hook_points: 'logits' tensor_name: '/a'", ".tensor_name: \"/a\""},
           {"hook_points: 'logits' tensor_name: 'a b'",
            ".tensor_name: \"a b\""},
           {absl::StrCat("hook_points: 'logits' tensor_name: '", long_name,
                         "'"),
            ".tensor_name: \"nnn"},
           {"hook_points: 'layers.*.layer_mid' tensor_name: 'a'",
            ".tensor_name: the capture makes 4 tensors; valid: one run, hook "
            "point, step and part"},
           {"hook_points: 'logits' reduction { top_k { k: 1 } } tensor_name: "
            "'a'",
            ".tensor_name: the capture makes 2 tensors"},
           {"hook_points: 'input_ids' tensor_name: 'a'",
            ".tensor_name: the tensor is of int64"}}) {
    EXPECT_THAT(
        Plan(absl::StrCat(kFiveTokens, kNode, "captures { ", capture, " }"),
             KeepingContext()),
        StatusIs(kInvalid, StartsWith("captures[0]" + message)))
        << capture;
  }
}

TEST(PlanCaptures, RefusesToKeepTwoTensorsUnderOneName) {
  EXPECT_THAT(
      Plan(absl::StrCat(kFiveTokens,
                        "captures { hook_points: 'logits' tensor_name: 'a' } "
                        "captures { hook_points: 'layers.0.layer_mid' "
                        "tensor_name: 'a' }"),
           KeepingContext()),
      StatusIs(kInvalid, StartsWith("captures[1].tensor_name: \"a\" is kept by "
                                    "captures[0] as well")));
  EXPECT_THAT(
      Plan(absl::StrCat(kFiveTokens,
                        "captures { hook_points: 'logits' tensor_name: 'a' }")),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               StartsWith("captures[0].tensor_name: this server keeps no")));
}

}  // namespace
}  // namespace phitap
