#include "server/checkpoint_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/checkpoint_files.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;

// Keeps what it is told, and gives up where it is told to.
class KeptSteps final : public LoadSteps {
 public:
  absl::Status Begin(absl::string_view stage, double progress) override {
    if (stages.empty() || stages.back() != stage) stages.emplace_back(stage);
    shares.push_back(progress);
    return stage == last_stage ? absl::CancelledError("no more")
                               : absl::OkStatus();
  }
  absl::Status Admit(int64_t bytes) override {
    admitted_bytes = bytes;
    return absl::OkStatus();
  }

  std::string last_stage;
  std::vector<std::string> stages;
  std::vector<double> shares;
  int64_t admitted_bytes = 0;
};

class CheckpointLoaderTest : public testing::Test {
 protected:
  void SetUp() override { TinyCheckpoint(TinyKind::kWindow).Write(folder_); }
  absl::StatusOr<LoadedCheckpoint> Load() {
    return CheckpointLoader(config_).Load(
        {.name = "tiny", .path = folder_.path()}, steps_,
        [](const std::function<void()>& task) {
          task();
          return absl::OkStatus();
        });
  }

  TempFolder folder_;
  ServerConfig config_;
  KeptSteps steps_;
};

TEST_F(CheckpointLoaderTest, TellsEachStageAndHowMuchOfTheWeightsIsThere) {
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(steps_.stages,
              ElementsAre("tokenizer", "checkpoint", "weights", "row rule"));
  EXPECT_TRUE(std::is_sorted(steps_.shares.begin(), steps_.shares.end()));
  // The weights' beginning, and once after each layer but the last.
  EXPECT_EQ(steps_.shares.size(), 3 + loaded->model.spec.num_layers);
  EXPECT_EQ(steps_.admitted_bytes, loaded->model.weight_bytes);
}

TEST_F(CheckpointLoaderTest, GivesUpBetweenTwoLayers) {
  steps_.last_stage = "weights";
  EXPECT_EQ(Load().status(), absl::CancelledError("no more"));
  steps_.last_stage = "row rule";
  EXPECT_EQ(Load().status(), absl::CancelledError("no more"));
}

}  // namespace
}  // namespace phitap
