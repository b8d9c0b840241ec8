#include "server/trace/node_store.h"

#include <ATen/ops/full.h>

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

at::Tensor Number(double value) { return at::full({}, value, at::kFloat); }

ProgramNode Read(int run) { return {.operation = RunRead{.run = run}}; }
ProgramNode Sum(std::vector<int> inputs) {
  return {.operation = FunctionOp{Function::kAdd}, .inputs = std::move(inputs)};
}

// 0, 1: reads of runs 0 and 1; 2 = 0 + 1; 3 = 2 + 0.
TracePlan SmallPlan() {
  TracePlan plan;
  plan.runs.resize(2);
  plan.nodes = {Read(0), Read(1), Sum({0, 1}), Sum({2, 0})};
  return plan;
}

class NodeStoreTest : public testing::Test {
 protected:
  void Store(TracePlan plan) {
    plan_ = std::move(plan);
    index_ = std::make_unique<PlanIndex>(plan_);
    store_ = std::make_unique<NodeStore>(plan_, *index_);
  }

  TracePlan plan_;
  std::unique_ptr<PlanIndex> index_;
  std::unique_ptr<NodeStore> store_;
};

TEST_F(NodeStoreTest, KeepsNothingThatNobodyNeeds) {
  Store(SmallPlan());
  EXPECT_FALSE(store_->Alive(0));
  store_->Put(0, Number(1));
  EXPECT_EQ(store_->Find(0), nullptr);
}

TEST_F(NodeStoreTest, KeepsAReadUntilEveryNodeThatNeedsItIsComputed) {
  Store(SmallPlan());
  store_->Hold({3});
  store_->Put(0, Number(1));
  store_->Put(1, Number(2));
  store_->Put(2, Number(3));
  EXPECT_EQ(store_->Find(1), nullptr);
  EXPECT_NE(store_->Find(0), nullptr);
  store_->Put(3, Number(4));
  EXPECT_EQ(store_->Find(0), nullptr);
  EXPECT_EQ(store_->Find(2), nullptr);
  EXPECT_NE(store_->Find(3), nullptr);
  store_->Release({3});
  EXPECT_EQ(store_->Find(3), nullptr);
}

TEST_F(NodeStoreTest, LetsGoOfReadsWhoseUserIsGivenUp) {
  Store(SmallPlan());
  store_->Hold({2});
  store_->Put(0, Number(1));
  EXPECT_NE(store_->Find(0), nullptr);
  store_->Release({2});
  EXPECT_EQ(store_->Find(0), nullptr);
  EXPECT_FALSE(store_->Alive(1));
}

TEST_F(NodeStoreTest, KeepsAValueForTheLastOfItsHolders) {
  Store(SmallPlan());
  store_->Hold({0});
  store_->Hold({0});
  store_->Put(0, Number(1));
  store_->Release({0});
  EXPECT_NE(store_->Find(0), nullptr);
  store_->Release({0});
  EXPECT_EQ(store_->Find(0), nullptr);
}

TEST_F(NodeStoreTest, SaysOfEachOutputOnceThatItCanBeComputed) {
  TracePlan plan = SmallPlan();
  plan.outputs = {{.node = 0}, {.node = 3}, {.node = 1}};
  Store(plan);
  EXPECT_THAT(store_->TakeReadyOutputs(), IsEmpty());
  store_->Put(1, Number(2));
  EXPECT_THAT(store_->TakeReadyOutputs(), ElementsAre(2));
  store_->Put(0, Number(1));
  EXPECT_THAT(store_->TakeReadyOutputs(), testing::UnorderedElementsAre(0, 1));
  EXPECT_THAT(store_->TakeReadyOutputs(), IsEmpty());
}

TEST_F(NodeStoreTest, NeedsNothingForAnOutputOfConstants) {
  TracePlan plan;
  plan.nodes = {{.operation = ConstantValue{}}, Sum({0, 0})};
  plan.outputs = {{.node = 1}};
  Store(plan);
  EXPECT_THAT(store_->TakeReadyOutputs(), ElementsAre(0));
}

TEST_F(NodeStoreTest, CountsAnInputThatIsTakenTwiceTwice) {
  TracePlan plan;
  plan.runs.resize(1);
  plan.nodes = {Read(0), Sum({0, 0})};
  plan.outputs = {{.node = 1}};
  Store(plan);
  store_->Put(0, Number(1));
  EXPECT_THAT(store_->TakeReadyOutputs(), ElementsAre(0));
  store_->Put(1, Number(2));
  EXPECT_EQ(store_->Find(0), nullptr);
}

TEST(PlanIndex, TellsWhatAGradientPassComputesAnew) {
  TracePlan plan = SmallPlan();
  plan.nodes.push_back(Read(1));      // 4
  plan.nodes.push_back(Sum({4, 1}));  // 5: of run 1 alone
  plan.nodes.push_back(Sum({3, 5}));  // 6: the metric
  plan.gradient_passes = {{.run = 0, .metric = 6}};
  const PlanIndex index(plan);
  const PlanIndex::GradientParts& parts = index.gradient(0);
  EXPECT_THAT(parts.reads, ElementsAre(0));
  EXPECT_THAT(parts.recorded, ElementsAre(0, 2, 3, 6));
  EXPECT_THAT(parts.constants, ElementsAre(1, 5));
}

TEST(PlanIndex, CountsWhatWritesOfTheRunTakeIntoItsGradientPass) {
  TracePlan plan = SmallPlan();
  plan.nodes.push_back({.operation = CurrentValue{}, .in_write = true});  // 4
  ProgramNode edited = Sum({4, 1});
  edited.in_write = true;
  plan.nodes.push_back(edited);  // 5
  plan.writes = {{.run = 0, .value = 5}};
  plan.gradient_passes = {{.run = 0, .metric = 0}};
  const PlanIndex index(plan);
  EXPECT_THAT(index.external_inputs(0), ElementsAre(1));
  EXPECT_THAT(index.gradient(0).reads, ElementsAre(0));
  EXPECT_THAT(index.gradient(0).constants, ElementsAre(1));
}

}  // namespace
}  // namespace phitap
