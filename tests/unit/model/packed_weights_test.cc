// Matrices that are packed give the bits of those that are not.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "server/model/matrix.h"
#include "server/model/phi3.h"
#include "server/model/row_rule.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/recording_hooks.h"
#include "tests/unit/model/forward_fixture.h"

namespace phitap {
namespace {

at::Tensor Random(at::IntArrayRef shape) {
  return at::randn(shape).to(at::kBFloat16);
}

Matrix Packed(const at::Tensor& stored) {
  Matrix matrix = {.stored = stored};
  Pack(matrix);
  return matrix;
}

class PackedWeights : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(2);
    at::manual_seed(3);
    if (!WorthPacking(at::kBFloat16)) GTEST_SKIP() << "no bfloat16 here";
  }
};

TEST_F(PackedWeights, GiveTheBitsOfStoredOnesWhateverTheNumberOfLines) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{
           {96, 32}, {51, 40}, {768, 256}, {1000, 96}}) {
    const Matrix packed = Packed(Random(shape));
    for (const int64_t lines : {4, 8, 20, 64, 132}) {
      const at::Tensor x = Random({lines, shape[1]});
      const at::Tensor product = Times(x, packed);
      EXPECT_TRUE(SameBits(product, Times(x, {.stored = packed.stored})))
          << lines << " lines by " << at::IntArrayRef(shape);
      EXPECT_TRUE(product.is_contiguous());
    }
  }
}

TEST_F(PackedWeights, AreNotWorthItInOtherTypes) {
  EXPECT_FALSE(WorthPacking(at::kFloat));
  EXPECT_FALSE(WorthPacking(at::kHalf));
}

TEST_F(PackedWeights, HoldTheRowRuleOnlyWithTheNumbersOfTheStored) {
  const at::Tensor stored = Random({96, 64});
  Matrix matrix = Packed(stored);
  const absl::Duration budget = absl::Seconds(5);
  EXPECT_TRUE(MeasureRowRule({matrix}, budget).batch_invariant);
  matrix.packed = Packed(stored + 1).packed;
  EXPECT_FALSE(MeasureRowRule({matrix}, budget).batch_invariant);
}

class PackedModels : public testing::TestWithParam<TinyKind> {
 protected:
  static std::unique_ptr<Phi3> Load(DType dtype, WeightPacking packing,
                                    WeightStorage storage) {
    const TempFolder folder;
    TinyCheckpoint(GetParam(), {.dtype = DType::kBF16}).Write(folder);
    return Phi3::Load(Checkpoint::Open(folder.path(), storage).value(), dtype,
                      packing)
        .value();
  }
  static Records RecordsOf(const Phi3& model, ForwardNumerics numerics) {
    const std::vector<int32_t> ids = {1, 7, 3, 9, 2, 2, 8, 5, 1, 4};
    return ForwardAll(model, {WholePrompt(model, ids)}, {.numerics = numerics});
  }
};

INSTANTIATE_TEST_SUITE_P(Family, PackedModels, testing::ValuesIn(kTinyKinds),
                         [](const auto& info) { return Name(info.param); });

TEST_P(PackedModels, ShowTheBitsOfThoseThatAreNotInBothNumerics) {
  if (!WorthPacking(at::kBFloat16)) GTEST_SKIP() << "no bfloat16 here";
  const auto plain =
      Load(DType::kBF16, WeightPacking::kNone, WeightStorage::kMap);
  EXPECT_FALSE(plain->packed());
  // What is stored has been given back, and is read again.
  for (const WeightStorage storage :
       {WeightStorage::kMap, WeightStorage::kCopy}) {
    const auto packed = Load(DType::kBF16, WeightPacking::kPacked, storage);
    EXPECT_TRUE(packed->MeasureRowRule().batch_invariant);
    EXPECT_TRUE(packed->packed());
    for (const auto numerics :
         {ForwardNumerics::kCausal, ForwardNumerics::kTransformers}) {
      const Records expected = RecordsOf(*plain, numerics);
      const Records records = RecordsOf(*packed, numerics);
      ASSERT_EQ(records.size(), expected.size());
      for (const auto& [key, value] : expected) {
        EXPECT_TRUE(SameBits(records.at(key).value, value.value))
            << NameOf(key);
      }
    }
  }
}

TEST_P(PackedModels, AreNotPackedInFloat32) {
  EXPECT_FALSE(
      Load(DType::kF32, WeightPacking::kPacked, WeightStorage::kMap)->packed());
}

}  // namespace
}  // namespace phitap
