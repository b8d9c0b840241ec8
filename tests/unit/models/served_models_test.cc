#include "server/models/served_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/base/field_error.h"
#include "server/base/retry_hint.h"
#include "tests/support/manual_clock.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ServedModelsTest : public ::testing::Test {
 protected:
  void Serve(const std::string& name, const std::string& executor = "") {
    models_.Serve(std::make_shared<const ServedModel>(ServedModel{
        .name = name, .executor = executor.empty() ? name : executor}));
  }
  absl::Status Missing(const std::string& name) {
    return models_.Find(name).status();
  }

  ManualClock clock_;
  ServedModels models_{&clock_};
};

TEST_F(ServedModelsTest, FindsByNameAndOffersTheNearest) {
  Serve("phi-3-mini");
  Serve("phi-4");
  EXPECT_EQ((*models_.Find("phi-4"))->name, "phi-4");
  const absl::Status unknown = Missing("phi-3-mni");
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("model: no model \"phi-3-mni\" is loaded; valid: "
                        "phi-3-mini"));
}

TEST_F(ServedModelsTest, ShowsWhatWasAskedForOnOneShortLine) {
  Serve("phi-4");
  const absl::Status unknown = Missing("a\nb" + std::string(1 << 20, 'c'));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr(R"(model "a\nbccc)"));
  EXPECT_LT(unknown.message().size(), 300u);
}

TEST_F(ServedModelsTest, TakesNoNameOnlyWhereThereIsOneModel) {
  Serve("a");
  EXPECT_EQ((*models_.Find(""))->name, "a");
  Serve("b");
  const absl::Status status = Missing("");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 models"));
}

TEST_F(ServedModelsTest, SaysHowFarAModelIsThatIsStillLoading) {
  ASSERT_TRUE(models_.BeginLoading({.name = "phi", .path = "/m/phi"}).ok());
  models_.SetStage("phi", "weights", 0.42);
  for (const char* name : {"phi", ""}) {
    const absl::Status status = Missing(name);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("\"phi\" is still loading (weights, 42%)"));
    EXPECT_EQ(FieldOf(status), "model");
    EXPECT_EQ(RetryHintOf(status), absl::Seconds(1));
  }
}

TEST_F(ServedModelsTest, SaysWhyAKnownModelTakesNoRequests) {
  ASSERT_TRUE(models_.BeginLoading({.name = "broken"}).ok());
  models_.Fail("broken", absl::DataLossError("cut short"));
  EXPECT_EQ(Missing("broken").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Missing("broken").message()),
              HasSubstr("could not be loaded"));
  EXPECT_EQ(models_.StateOf("broken")->failure, "cut short");
  Serve("going");
  ASSERT_TRUE(models_.BeginUnloading("going").ok());
  EXPECT_THAT(std::string(Missing("going").message()),
              HasSubstr("is being unloaded"));
  models_.Remove("going");
  EXPECT_THAT(std::string(Missing("going").message()),
              HasSubstr("no model \"going\" is loaded"));
}

TEST_F(ServedModelsTest, ARequestKeepsTheModelThatItFound) {
  Serve("phi", "first");
  const auto found = *models_.Find("phi");
  ASSERT_TRUE(models_.BeginReloading("phi").ok());
  EXPECT_EQ((*models_.Find("phi"))->executor, "first");
  Serve("phi", "second");
  EXPECT_EQ((*models_.Find("phi"))->executor, "second");
  EXPECT_EQ(found->executor, "first");
  EXPECT_EQ(models_.all().size(), 1u);
}

TEST_F(ServedModelsTest, AModelWhoseReloadingFailsGoesOn) {
  Serve("phi");
  ASSERT_TRUE(models_.BeginReloading("phi").ok());
  models_.SetStage("phi", "weights", 0.5);
  EXPECT_EQ(models_.StateOf("phi")->status, ModelStatus::kReady);
  models_.Fail("phi", absl::DataLossError("cut short"));
  EXPECT_EQ(models_.StateOf("phi")->status, ModelStatus::kReady);
  EXPECT_EQ(models_.StateOf("phi")->stage, "");
  EXPECT_TRUE(models_.Find("phi").ok());
}

TEST_F(ServedModelsTest, RefusesWhatDoesNotFitTheState) {
  Serve("phi");
  const absl::Status twice = models_.BeginLoading({.name = "phi"});
  EXPECT_EQ(twice.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(twice.message()), HasSubstr("is loaded"));
  ASSERT_TRUE(models_.BeginReloading("phi").ok());
  EXPECT_EQ(models_.BeginReloading("phi").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(models_.BeginUnloading("phi").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(models_.BeginUnloading("other").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ServedModelsTest, TellsEveryChangeInOrder) {
  Serve("phi");
  std::vector<std::string> told;
  models_.Observe([&](const ModelState& state) {
    told.push_back(state.name + " " + state.stage + " " +
                   std::to_string(static_cast<int>(state.status)));
  });
  ASSERT_TRUE(models_.BeginLoading({.name = "new"}).ok());
  models_.SetStage("new", "weights", 0.5);
  Serve("new");
  ASSERT_TRUE(models_.BeginUnloading("new").ok());
  models_.Remove("new");
  EXPECT_THAT(told, ElementsAre("phi  2", "new queued 1", "new weights 1",
                                "new  2", "new  3", "new  0"));
}

TEST_F(ServedModelsTest, SaysSinceWhenAModelIsAsItIs) {
  ASSERT_TRUE(models_.BeginLoading({.name = "phi"}).ok());
  const absl::Time began = clock_.Now();
  clock_.Advance(absl::Seconds(3));
  models_.SetStage("phi", "weights", 0.5);
  EXPECT_EQ(models_.StateOf("phi")->since, began);
  Serve("phi");
  EXPECT_EQ(models_.StateOf("phi")->since, began + absl::Seconds(3));
}

}  // namespace
}  // namespace phitap
