#include "server/models/model_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/checkpoint_files.h"
#include "tests/support/manual_clock.h"
#include "tests/support/puppet_executor.h"
#include "tests/support/small_plans.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Counts how many there are.
class CountedExecutor final : public Executor {
 public:
  CountedExecutor(WaveStage* stage, std::atomic<int>* alive)
      : puppet_(stage), alive_(alive) {
    ++*alive_;
  }
  ~CountedExecutor() override { --*alive_; }
  std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> plan) override {
    return puppet_.Begin(std::move(plan));
  }
  std::unique_ptr<RunningWave> Start(WavePlan plan) override {
    return puppet_.Start(std::move(plan));
  }
  int64_t RootBytes(int layer_count, int64_t token_count) const override {
    return puppet_.RootBytes(layer_count, token_count);
  }
  void ForgetRoot(RootId root) override { puppet_.ForgetRoot(root); }

 private:
  PuppetExecutor puppet_;
  std::atomic<int>* const alive_;
};

class ModelKeeperTest : public ::testing::Test {
 protected:
  ModelKeeperTest() {
    for (const char* name : {"phi", "other"}) {
      std::filesystem::create_directory(folder_.File(name));
      folder_.Write(std::string(name) + "/config.json", "{}");
    }
    scheduler_ =
        *Scheduler::Start({.clock = &clock_}, [] { return ExecutorMap(); });
    keeper_ = std::make_unique<ModelKeeper>(ModelKeeperOptions{
        .models = &models_,
        .scheduler = scheduler_.get(),
        .load = [this](const ModelSource& source,
                       LoadSteps& steps) { return LoadPuppet(source, steps); },
        .model_folder = folder_.path(),
        .max_weight_bytes = 100,
        .free_bytes = [this] { return free_bytes_; }});
  }
  ~ModelKeeperTest() override { stage_.RunFreely(); }

  absl::StatusOr<LoadedCheckpoint> LoadPuppet(const ModelSource& source,
                                              LoadSteps& steps) {
    if (absl::Status status = steps.Begin("weights", 0.5); !status.ok()) {
      return status;
    }
    if (absl::Status status = steps.Admit(weight_bytes_); !status.ok()) {
      return status;
    }
    if (during_load_ != nullptr) during_load_();
    if (!load_status_.ok()) return load_status_;
    return LoadedCheckpoint{
        .model = {.name = source.name, .weight_bytes = weight_bytes_},
        .executor = std::make_unique<CountedExecutor>(&stage_, &alive_)};
  }

  absl::StatusOr<std::shared_ptr<ResultStream>> Submit(
      const std::string& model) {
    absl::StatusOr<std::shared_ptr<const ServedModel>> found =
        models_.Find(model);
    if (!found.ok()) return found.status();
    return scheduler_->Submit({.plan = MakePlan({.model = (*found)->executor}),
                               .caller = "ann",
                               .wake = [] {}});
  }

  void Load(const std::string& name) {
    const absl::Status status = keeper_->Load({.name = name}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
  }

  TempFolder folder_;
  ManualClock clock_;
  WaveStage stage_;
  std::atomic<int> alive_ = 0;
  int64_t weight_bytes_ = 40;
  int64_t free_bytes_ = 1000;
  absl::Status load_status_;
  std::function<void()> during_load_;
  ServedModels models_{&clock_};
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ModelKeeper> keeper_;
};

TEST_F(ModelKeeperTest, LoadsFromTheFolderAndTellsHowFarItIs) {
  std::vector<std::string> told;
  ASSERT_TRUE(
      keeper_
          ->Load({.name = "mine", .path = "phi"},
                 [&](const ModelState& state) { told.push_back(state.stage); })
          .ok());
  EXPECT_THAT(told, ElementsAre("weights", ""));
  const ModelState state = *models_.StateOf("mine");
  EXPECT_EQ(state.status, ModelStatus::kReady);
  EXPECT_EQ(state.weight_bytes, 40);
  EXPECT_THAT(state.path, HasSubstr("/phi"));
  EXPECT_TRUE(Submit("mine").ok());
}

TEST_F(ModelKeeperTest, ListsWhatIsLoadedAndWhatCouldBe) {
  Load("phi");
  const std::vector<ModelState> states = keeper_->states();
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].name, "other");
  EXPECT_EQ(states[0].status, ModelStatus::kAvailable);
  EXPECT_EQ(states[1].name, "phi");
  EXPECT_EQ(states[1].status, ModelStatus::kReady);
}

TEST_F(ModelKeeperTest, RefusesNamesAndPathsThatCannotBe) {
  for (const char* name : {"", "a b", "a/b", "a#1", "naïve"}) {
    EXPECT_EQ(keeper_->Load({.name = name, .path = "phi"}, nullptr).code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(keeper_->Load({.name = "x", .path = "../x"}, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(keeper_->Load({.name = "nobody"}, nullptr).code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(models_.states().empty());
}

TEST_F(ModelKeeperTest, UnloadsOnceWhatItAcceptedHasEnded) {
  Load("phi");
  const auto stream = *Submit("phi");
  stage_.Await();
  EXPECT_EQ(keeper_->requests_of(*models_.StateOf("phi")), 1);
  std::promise<void> unloading;
  models_.Observe([&](const ModelState& state) {
    if (state.status == ModelStatus::kUnloading) unloading.set_value();
  });
  auto unloaded = std::async([&] { return keeper_->Unload("phi"); });
  unloading.get_future().get();
  EXPECT_EQ(Submit("phi").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(alive_, 1);
  stage_.CompleteNext();
  EXPECT_TRUE(unloaded.get().ok());
  EXPECT_EQ(alive_, 0);
  bool finished = false;
  while (auto event = stream->Pull()) {
    finished |= std::holds_alternative<TraceFinished>(*event);
  }
  EXPECT_TRUE(finished);
  EXPECT_EQ(keeper_->states()[1].status, ModelStatus::kAvailable);
  EXPECT_EQ(keeper_->Unload("phi").code(), absl::StatusCode::kNotFound);
}

TEST_F(ModelKeeperTest, RefusesAPlanOfAModelThatHasGoneMeanwhile) {
  Load("phi");
  const auto planned = *models_.Find("phi");
  ASSERT_TRUE(keeper_->Unload("phi").ok());
  EXPECT_EQ(scheduler_
                ->Submit({.plan = MakePlan({.model = planned->executor}),
                          .caller = "ann",
                          .wake = [] {}})
                .status()
                .code(),
            absl::StatusCode::kAborted);
}

TEST_F(ModelKeeperTest, AReloadedModelTakesOverNewRequestsAlone) {
  Load("phi");
  const auto before = *Submit("phi");
  ASSERT_EQ(stage_.Await()[0].plan->model, "phi");
  std::promise<void> ready;
  auto reloaded = std::async([&] {
    return keeper_->Reload("phi", [&](const ModelState& state) {
      if (state.stage.empty()) ready.set_value();
    });
  });
  ready.get_future().get();
  const auto after = *Submit("phi");
  EXPECT_EQ(alive_, 2);
  stage_.CompleteNext();
  EXPECT_EQ(stage_.CompleteNext()[0].plan->model, "phi#2");
  EXPECT_TRUE(reloaded.get().ok());
  EXPECT_EQ(alive_, 1);
}

TEST_F(ModelKeeperTest, TakesRequestsWhileItReloads) {
  Load("phi");
  during_load_ = [&] {
    EXPECT_EQ(keeper_->Reload("phi", nullptr).code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(Submit("phi").ok());
    stage_.CompleteNext();
  };
  EXPECT_TRUE(keeper_->Reload("phi", nullptr).ok());
}

TEST_F(ModelKeeperTest, AReloadThatFailsLeavesTheOldOne) {
  Load("phi");
  load_status_ = absl::DataLossError("cut short");
  EXPECT_EQ(keeper_->Reload("phi", nullptr), load_status_);
  EXPECT_TRUE(Submit("phi").ok());
  EXPECT_EQ(alive_, 1);
  // Nothing of its memory is counted.
  load_status_ = absl::OkStatus();
  EXPECT_TRUE(keeper_->Load({.name = "other"}, nullptr).ok());
}

TEST_F(ModelKeeperTest, AModelThatFailedSaysWhyAndMayBeTriedAgain) {
  load_status_ = absl::DataLossError("cut short");
  EXPECT_EQ(keeper_->Load({.name = "phi"}, nullptr), load_status_);
  EXPECT_EQ(keeper_->states()[1].status, ModelStatus::kFailed);
  EXPECT_EQ(keeper_->states()[1].failure, "cut short");
  load_status_ = absl::OkStatus();
  Load("phi");
  EXPECT_EQ(keeper_->states()[1].failure, "");
}

TEST_F(ModelKeeperTest, LoadsNoMoreThanFits) {
  Load("phi");
  weight_bytes_ = 61;
  const absl::Status refused = keeper_->Load({.name = "other"}, nullptr);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("needs 61 bytes for its weights, and 60 are free"));
  // A reloaded model is there twice.
  EXPECT_EQ(keeper_->Reload("phi", nullptr).code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(keeper_->Unload("phi").ok());
  Load("other");
}

TEST_F(ModelKeeperTest, LoadsNoMoreThanTheMachineHas) {
  free_bytes_ = 39;
  const absl::Status refused = keeper_->Load({.name = "phi"}, nullptr);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("39 are free"));
  // What the configuration names is loaded whatever is free.
  EXPECT_TRUE(keeper_->LoadConfigured({.name = "x", .path = "/x"}).ok());
}

TEST_F(ModelKeeperTest, GivesUpAtTheNextStageOnceStopped) {
  keeper_->Stop();
  EXPECT_EQ(keeper_->Load({.name = "phi"}, nullptr).code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(alive_, 0);
}

}  // namespace
}  // namespace phitap
