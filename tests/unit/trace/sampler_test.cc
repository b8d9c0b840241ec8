#include "server/trace/sampler.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/log_softmax.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

constexpr int kDraws = 20000;

at::Tensor Logits(std::vector<float> values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())},
                       at::kFloat)
      .clone();
}

// How often each id is drawn.
std::map<int32_t, int> Counts(const at::Tensor& logits,
                              PlannedGeneration generation) {
  std::map<int32_t, int> counts;
  for (int draw = 0; draw < kDraws; ++draw) {
    generation.seed = static_cast<uint64_t>(draw / 100);
    const auto chosen = ChooseToken(logits, generation, 1 + draw % 100);
    EXPECT_THAT(chosen, IsOk());
    ++counts[chosen->id];
  }
  return counts;
}

// Five standard deviations of a share.
double Slack(double share) {
  return 5 * std::sqrt(share * (1 - share) / kDraws);
}

TEST(ChooseToken, TakesTheLikeliestAndOfEqualsTheSmallestId) {
  const auto chosen = ChooseToken(Logits({1, 3, 2, 3}), {}, 1);
  ASSERT_THAT(chosen, IsOk());
  EXPECT_EQ(chosen->id, 1);
}

TEST(ChooseToken, GivesTheLogProbabilityBeforeTemperatureAndTruncation) {
  const at::Tensor logits = Logits({0.5, -1, 2, 1});
  const auto chosen =
      ChooseToken(logits, {.temperature = 0.3, .top_k = 1, .top_p = 0.5}, 4);
  ASSERT_THAT(chosen, IsOk());
  EXPECT_EQ(chosen->id, 2);
  EXPECT_EQ(chosen->log_probability,
            at::log_softmax(logits, -1)[2].item<float>());
}

TEST(ChooseToken, GoesOnWithForcedIdsFirst) {
  const PlannedGeneration forced{.forced_ids = {3, 0}};
  const at::Tensor logits = Logits({0, 9, 0, 1});
  EXPECT_EQ(ChooseToken(logits, forced, 1)->id, 3);
  EXPECT_EQ(ChooseToken(logits, forced, 2)->id, 0);
  EXPECT_EQ(ChooseToken(logits, forced, 3)->id, 1);
  EXPECT_EQ(ChooseToken(logits, forced, 1)->log_probability,
            at::log_softmax(logits, -1)[3].item<float>());
}

TEST(ChooseToken, DrawsInProportionToTheSoftmaxAtTheTemperature) {
  const std::map<int32_t, int> counts =
      Counts(Logits({2, 0, 1}), {.temperature = 2});
  const double total = std::exp(1.0) + 1 + std::exp(0.5);
  const std::vector<double> shares = {std::exp(1.0) / total, 1 / total,
                                      std::exp(0.5) / total};
  for (int id = 0; id < 3; ++id) {
    EXPECT_NEAR(counts.at(id) / double{kDraws}, shares[id], Slack(shares[id]))
        << id;
  }
}

TEST(ChooseToken, CutsToTheKLikeliestAndOfEqualsKeepsTheSmallerIds) {
  const std::map<int32_t, int> counts =
      Counts(Logits({1, 0, 1, 2, 1}), {.temperature = 1, .top_k = 3});
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_TRUE(counts.contains(3));
  EXPECT_TRUE(counts.contains(0));
  EXPECT_TRUE(counts.contains(2));
}

TEST(ChooseToken, CutsToTheFewestThatReachTopP) {
  // Probabilities 0.5, 0.3, 0.15, 0.05.
  const at::Tensor logits = Logits(
      {std::log(0.3f), std::log(0.5f), std::log(0.05f), std::log(0.15f)});
  const auto ids = [&](double top_p) {
    std::vector<int32_t> ids;
    for (const auto& [id, count] :
         Counts(logits, {.temperature = 1, .top_p = top_p})) {
      ids.push_back(id);
    }
    return ids;
  };
  EXPECT_THAT(ids(0.01), testing::ElementsAre(1));
  EXPECT_THAT(ids(0.49), testing::ElementsAre(1));
  EXPECT_THAT(ids(0.6), testing::ElementsAre(0, 1));
  EXPECT_THAT(ids(0.9), testing::ElementsAre(0, 1, 3));
  EXPECT_THAT(ids(0.99), testing::ElementsAre(0, 1, 2, 3));
}

TEST(ChooseToken, TakesTopPOfWhatTopKLeft) {
  // Of the two likeliest, 0.5 and 0.3, the first has 0.625.
  const at::Tensor logits =
      Logits({std::log(0.3f), std::log(0.5f), std::log(0.2f)});
  const std::map<int32_t, int> counts =
      Counts(logits, {.temperature = 1, .top_k = 2, .top_p = 0.6});
  EXPECT_EQ(counts.size(), 1u);
  EXPECT_TRUE(counts.contains(1));
}

TEST(ChooseToken, IsAFunctionOfSeedAndStep) {
  const at::Tensor logits = Logits(std::vector<float>(50, 0.0f));
  const auto draw = [&](uint64_t seed, int step) {
    return ChooseToken(logits, {.temperature = 1, .seed = seed}, step)->id;
  };
  int by_step = 0;
  int by_seed = 0;
  for (int step = 1; step <= 100; ++step) {
    EXPECT_EQ(draw(7, step), draw(7, step));
    by_step += draw(7, step) == draw(7, step + 1);
    by_seed += draw(7, step) == draw(8, step);
  }
  EXPECT_LT(by_step, 12);
  EXPECT_LT(by_seed, 12);
}

TEST(ChooseToken, ForbidsTokensWhoseLogitIsMinusInfinity) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::map<int32_t, int> counts =
      Counts(Logits({kNever, 0, kNever, 0}), {.temperature = 1});
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_FALSE(counts.contains(0));
  EXPECT_FALSE(counts.contains(2));
}

TEST(ChooseToken, RefusesLogitsThatSayNothing) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float broken : {std::nanf(""), kInfinity}) {
    EXPECT_THAT(ChooseToken(Logits({0, broken, 1}), {}, 3).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("step 3: the logit of id 1")));
  }
  EXPECT_THAT(
      ChooseToken(Logits({-kInfinity, -kInfinity}), {}, 1).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("every logit")));
}

TEST(UniformOf, IsUniform) {
  std::vector<int> bins(16);
  double sum = 0;
  for (int seed = 0; seed < 200; ++seed) {
    for (int step = 0; step < 100; ++step) {
      const double u = UniformOf(seed, step);
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      ++bins[static_cast<size_t>(u * 16)];
      sum += u;
    }
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
  for (const int count : bins) EXPECT_NEAR(count, kDraws / 16, 5 * 35);
}

}  // namespace
}  // namespace phitap
