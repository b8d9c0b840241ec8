#include "server/trace/output_tensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <optional>

#include "gtest/gtest.h"
#include "server/trace/evaluate.h"

namespace phitap {
namespace {

TEST(OutputTensors, AreHandedOverOnceEveryPieceIsThere) {
  TracePlan plan;
  plan.tensors = {{.dtype = DType::kF32, .shape = {2, 3}}};
  OutputTensors tensors(plan);
  EXPECT_FALSE(tensors.Put({.tensor = 0, .offset = 4}, at::arange(2.0f)));
  EXPECT_FALSE(tensors.Put({.tensor = 0, .offset = 3}, at::full({}, 7.0f)));
  const std::optional<HostTensor> whole = tensors.Put(
      {.tensor = 0, .offset = 0}, at::arange(3.0f).view({1, 3}).add(10));
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->shape, (std::vector<int64_t>{2, 3}));
  const at::Tensor value = TensorOver(*whole).view({-1});
  const std::vector<float> expected = {10, 11, 12, 7, 0, 1};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(value[static_cast<int64_t>(i)].item<float>(), expected[i]) << i;
  }
}

TEST(OutputTensors, RoundToTheTensorsType) {
  TracePlan plan;
  plan.tensors = {{.dtype = DType::kBF16, .shape = {1}}};
  OutputTensors tensors(plan);
  const std::optional<HostTensor> value =
      tensors.Put({}, at::full({}, 1.00390625f));
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->dtype, DType::kBF16);
  EXPECT_EQ(TensorOver(*value).item<float>(), 1.0f);
}

}  // namespace
}  // namespace phitap
