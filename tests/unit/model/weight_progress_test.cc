// What is told while the weights are loaded.
#include "server/model/weight_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "server/model/phi3.h"
#include "tests/support/checkpoint_files.h"

namespace phitap {
namespace {

absl::StatusOr<std::unique_ptr<Phi3>> Load(const WeightProgress& progress) {
  const TempFolder folder;
  TinyCheckpoint(TinyKind::kWindow).Write(folder);
  return Phi3::Load(Checkpoint::Open(folder.path()).value(), DType::kF32,
                    WeightPacking::kNone, progress);
}

TEST(WeightProgress, IsToldAfterEachLayer) {
  std::vector<double> shares;
  const auto model = Load([&](double share) {
    shares.push_back(share);
    return absl::OkStatus();
  });
  ASSERT_TRUE(model.ok()) << model.status();
  const int layers = (*model)->spec().num_layers;
  ASSERT_EQ(shares.size(), layers);
  EXPECT_DOUBLE_EQ(shares.front(), 1.0 / layers);
  EXPECT_EQ(shares.back(), 1.0);
}

TEST(WeightProgress, EndsTheLoadingWithItsError) {
  int told = 0;
  const auto model = Load([&](double) {
    ++told;
    return absl::CancelledError("the server is stopping");
  });
  EXPECT_EQ(model.status(), absl::CancelledError("the server is stopping"));
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace phitap
