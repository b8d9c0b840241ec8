#include "server/plan/program/named_sources.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "server/plan/program/dictionary_nodes.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/programming.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename Element>
v1::Tensor TensorOf(v1::DataType dtype, const std::vector<Element>& elements) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.add_shape(static_cast<int64_t>(elements.size()));
  tensor.set_data(elements.data(), elements.size() * sizeof(Element));
  return tensor;
}

std::vector<float> Floats(const HostTensor& tensor) {
  std::vector<float> floats(tensor.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), tensor.bytes.data(), tensor.bytes.size());
  return floats;
}

TEST(InlineTensor, KeepsFloatingPointTypes) {
  const auto half = InlineTensor(
      TensorOf<uint16_t>(v1::DATA_TYPE_BF16, {0x3f80, 0xff7f}), "here");
  ASSERT_THAT(half, IsOk());
  EXPECT_EQ(half->dtype, DType::kBF16);
  EXPECT_THAT(half->shape, ElementsAre(2));
  EXPECT_EQ(half->bytes.size(), 4);
}

TEST(InlineTensor, MakesFloat32OfIntegersThatItHolds) {
  const auto ints = InlineTensor(
      TensorOf<int64_t>(v1::DATA_TYPE_I64, {-3, 1 << 24, int64_t{1} << 40}),
      "here");
  ASSERT_THAT(ints, IsOk());
  EXPECT_EQ(ints->dtype, DType::kF32);
  EXPECT_THAT(Floats(*ints), ElementsAre(-3.0f, 16777216.0f, 0x1p40f));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (int64_t lost : {int64_t{(1 << 24) + 1}, kMost, -kMost}) {
    EXPECT_THAT(
        InlineTensor(TensorOf<int64_t>(v1::DATA_TYPE_I64, {0, lost}), "here"),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 StartsWith("here.data: element 1 is")));
  }
}

TEST(InlineTensor, RefusesWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {infinity, -infinity, std::nanf("")}) {
    EXPECT_THAT(
        InlineTensor(TensorOf<float>(v1::DATA_TYPE_F32, {1, bad}), "here"),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 StartsWith("here.data: element 1 is not finite")));
  }
  for (const auto& [dtype, bits] : {std::pair(v1::DATA_TYPE_F16, 0x7c00),
                                    std::pair(v1::DATA_TYPE_F16, 0xfe00),
                                    std::pair(v1::DATA_TYPE_BF16, 0x7f80),
                                    std::pair(v1::DATA_TYPE_BF16, 0xff80)}) {
    EXPECT_THAT(
        InlineTensor(TensorOf<uint16_t>(dtype, {static_cast<uint16_t>(bits)}),
                     "here"),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("is not finite")));
  }
  EXPECT_THAT(InlineTensor(TensorOf<uint16_t>(v1::DATA_TYPE_F16, {0x7bff}), ""),
              IsOk());
}

TEST(InlineTensor, RefusesShapesThatTheBytesAreNot) {
  v1::Tensor tensor = TensorOf<float>(v1::DATA_TYPE_F32, {1, 2});
  tensor.set_shape(0, 0);
  EXPECT_THAT(InlineTensor(tensor, "here"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("here.shape[0]: size 0")));
  // 2³² · 2³² · 4 is 0 in 64 bits.
  tensor.set_shape(0, int64_t{1} << 32);
  tensor.add_shape(int64_t{1} << 32);
  tensor.clear_data();
  EXPECT_THAT(InlineTensor(tensor, "here"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("here.data: 0 bytes for float32")));
  tensor.set_dtype(v1::DATA_TYPE_BOOL);
  EXPECT_THAT(InlineTensor(tensor, "here"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("here.dtype: DATA_TYPE_BOOL")));
}

TEST(AddKeptTensor, LooksATensorUpOnce) {
  int look_ups = 0;
  PlanContext context = TinyContext();
  context.find_tensor = [&](absl::string_view, absl::string_view) {
    ++look_ups;
    return absl::StatusOr<HostTensor>(Zeros({24}));
  };
  PlannedRuns runs(kTwoRuns, context);
  const auto first = AddKeptTensor(runs.parts, "v", "here");
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(*AddKeptTensor(runs.parts, "v", "there"), *first);
  EXPECT_EQ(look_ups, 1);
  EXPECT_THAT(AddKeptTensor(runs.parts, "w", ""), IsOk());
  EXPECT_EQ(look_ups, 2);
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

// [5, 24] to be encoded.
absl::StatusOr<int> Encode(PlannedRuns& runs, const std::string& dictionary) {
  v1::Dictionary message;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(dictionary, &message));
  const int x = *runs.builder.AddRead(ReadOf(0, {Hook::kLayerOutput, 0}), "x");
  return AddEncode(runs.parts, message, x, "here");
}

PlanContext With(const Shapes& shapes) {
  PlanContext context = TinyContext();
  context.find_tensor = Keeping(shapes);
  return context;
}

std::vector<Function> FunctionsOf(const TracePlan& plan) {
  std::vector<Function> functions;
  for (const ProgramNode& node : plan.nodes) {
    const auto* function = std::get_if<FunctionOp>(&node.operation);
    if (function != nullptr) functions.push_back(function->function);
  }
  return functions;
}

TEST(AddEncode, EndsWithTheActivationThatIsAskedForOrThere) {
  const Shapes plain = {{"d.encoder_weight", {30, 24}}};
  Shapes jump = plain;
  jump["d.threshold"] = {30};
  Shapes centred = plain;
  centred["d.decoder_bias"] = {24};
  const struct {
    Shapes shapes;
    std::string dictionary;
    std::vector<Function> functions;
  } kCases[] = {
      {plain, "", {Function::kRelu}},
      {jump, "", {Function::kJumpRelu}},
      {jump,
       "activation: DICTIONARY_ACTIVATION_JUMP_RELU",
       {Function::kJumpRelu}},
      {jump, "activation: DICTIONARY_ACTIVATION_RELU", {Function::kRelu}},
      {jump, "activation: DICTIONARY_ACTIVATION_TOP_K k: 3", {}},
      {centred,
       "subtract_decoder_bias: true",
       {Function::kSubtract, Function::kRelu}},
  };
  for (const auto& it : kCases) {
    PlannedRuns runs(kTwoRuns, With(it.shapes));
    const auto node = Encode(runs, "name: 'd' " + it.dictionary);
    ASSERT_THAT(node, IsOk()) << it.dictionary;
    EXPECT_EQ(runs.builder.ShapeOf(*node), (Shape{5, 30}));
    EXPECT_EQ(FunctionsOf(runs.plan), it.functions) << it.dictionary;
  }
}

TEST(AddEncode, RefusesDictionariesThatDoNotFit) {
  const Shapes plain = {{"d.encoder_weight", {30, 24}}};
  const struct {
    Shapes shapes;
    std::string dictionary;
    std::string message;
  } kCases[] = {
      {plain, "", "here.name: is empty"},
      {{}, "name: 'd'", "here.name: no tensor d.encoder_weight"},
      {{{"d.encoder_weight", {30}}},
       "name: 'd'",
       "\"d.encoder_weight\" is [30]; valid: a matrix"},
      {{{"d.encoder_weight", {24, 30}}},
       "name: 'd'",
       "a value [5, 24] for tensor \"d.encoder_weight\""},
      {{{"d.encoder_weight", {30, 24}}, {"d.encoder_bias", {24}}},
       "name: 'd'",
       "\"d.encoder_bias\" is [24]; valid: [30]"},
      {{{"d.encoder_weight", {30, 24}}, {"d.threshold", {1}}},
       "name: 'd'",
       "\"d.threshold\" is [1]; valid: [30]"},
      {plain, "name: 'd' activation: DICTIONARY_ACTIVATION_JUMP_RELU",
       "here.activation: JUMP_RELU without a tensor \"d.threshold\""},
      {plain, "name: 'd' subtract_decoder_bias: true",
       "here.subtract_decoder_bias: there is no tensor \"d.decoder_bias\""},
      {plain, "name: 'd' k: 3", "here.k: 3 without activation TOP_K"},
      {plain, "name: 'd' activation: DICTIONARY_ACTIVATION_TOP_K",
       "here.k: top_k with k = 0 of [5, 30]"},
  };
  for (const auto& it : kCases) {
    PlannedRuns runs(kTwoRuns, With(it.shapes));
    const auto node = Encode(runs, it.dictionary);
    EXPECT_THAT(std::string(node.status().message()), HasSubstr(it.message));
  }
}

TEST(AddDecode, MultipliesWithRowsOfFeatures) {
  PlannedRuns runs(
      kTwoRuns, With({{"d.decoder_weight", {24, 7}}, {"d.decoder_bias", {7}}}));
  v1::Dictionary dictionary;
  dictionary.set_name("d");
  const int f = *runs.builder.AddRead(ReadOf(0, {Hook::kLayerOutput, 0}), "f");
  const auto node = AddDecode(runs.parts, dictionary, f, "here");
  ASSERT_THAT(node, IsOk());
  EXPECT_EQ(runs.builder.ShapeOf(*node), (Shape{5, 7}));
  const ProgramNode& product = runs.plan.nodes[*node];
  EXPECT_EQ(std::get<LinearOp>(product.operation).weight,
            LinearOp::Weight::kInOut);
  EXPECT_EQ(product.inputs.size(), 3);
}

}  // namespace
}  // namespace phitap
