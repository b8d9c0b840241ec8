#include "server/schedule/deficit_round_robin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

// Flows that always wait; each serving costs what is next in its list, over and
// over.
class Backlog {
 public:
  explicit Backlog(DeficitRoundRobinOptions options) : turns_(options) {}

  void Add(const std::string& flow, std::vector<int64_t> costs) {
    costs_[flow] = std::move(costs);
    turns_.Join(flow);
  }
  // Serves once and returns whom.
  std::string Serve() {
    const std::string flow =
        *turns_.Next([&](const std::string& f) -> std::optional<int64_t> {
          if (blocked_ == f) return std::nullopt;
          return CostOf(f);
        });
    turns_.Charge(flow, CostOf(flow));
    served_[flow] += CostOf(flow);
    ++counts_[flow];
    return flow;
  }
  int64_t CostOf(const std::string& flow) {
    const std::vector<int64_t>& costs = costs_[flow];
    return costs[counts_[flow] % costs.size()];
  }
  int64_t served(const std::string& flow) { return served_[flow]; }
  void Block(const std::string& flow) { blocked_ = flow; }
  DeficitRoundRobin& turns() { return turns_; }

 private:
  DeficitRoundRobin turns_;
  std::map<std::string, std::vector<int64_t>> costs_;
  std::map<std::string, int> counts_;
  std::map<std::string, int64_t> served_;
  std::string blocked_;
};

TEST(DeficitRoundRobin, ServesAFlowWhileItsCreditLasts) {
  Backlog backlog({.quantum = 10, .max_saved = 10});
  backlog.Add("a", {4});
  backlog.Add("b", {10});
  std::string order;
  for (int i = 0; i < 8; ++i) order += backlog.Serve();
  // a has 10, then 12, then 10 again.
  EXPECT_EQ(order, "aabaaaba");
}

TEST(DeficitRoundRobin, GivesEqualSharesToWhateverMixWithinABound) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    const int64_t quantum = 1 + static_cast<int64_t>(random() % 100);
    Backlog backlog({.quantum = quantum, .max_saved = quantum});
    int64_t largest = 0;
    const int flow_count = 2 + static_cast<int>(random() % 6);
    for (int flow = 0; flow < flow_count; ++flow) {
      std::vector<int64_t> costs;
      const int64_t scale = 1 + static_cast<int64_t>(random() % 500);
      for (int i = 0; i < 17; ++i) {
        costs.push_back(1 + static_cast<int64_t>(random()) % scale);
        largest = std::max(largest, costs.back());
      }
      backlog.Add(absl::StrCat(flow), costs);
    }
    for (int i = 0; i < 3000; ++i) {
      backlog.Serve();
      int64_t least = backlog.served("0");
      int64_t most = least;
      for (int flow = 1; flow < flow_count; ++flow) {
        least = std::min(least, backlog.served(absl::StrCat(flow)));
        most = std::max(most, backlog.served(absl::StrCat(flow)));
      }
      ASSERT_LE(most - least, quantum + largest) << trial << " " << i;
    }
  }
}

TEST(DeficitRoundRobin, LetsAFlowSaveUpWhileNothingOfItCanBeServed) {
  Backlog backlog({.quantum = 10, .max_saved = 40});
  backlog.Add("a", {10});
  backlog.Add("b", {10});
  backlog.Block("b");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(backlog.Serve(), "a");
  EXPECT_EQ(backlog.turns().CreditOf("b"), 40);
  backlog.Block("");
  std::string order;
  for (int i = 0; i < 6; ++i) order += backlog.Serve();
  EXPECT_EQ(order, "bbbbab");
}

TEST(DeficitRoundRobin, GivesUpACreditWithTheLastThatWaits) {
  DeficitRoundRobin turns({.quantum = 10, .max_saved = 10});
  turns.Join("a");
  turns.Join("b");
  EXPECT_EQ(turns.CreditOf("a"), 10);
  turns.Leave("a");
  EXPECT_EQ(turns.CreditOf("a"), 0);
  turns.Join("a");
  EXPECT_THAT(turns.InTurn(), ::testing::ElementsAre("b", "a"));
  EXPECT_EQ(turns.CreditOf("a"), 0);
}

TEST(DeficitRoundRobin, LetsTheNextOneTurnWhenOneLeaves) {
  DeficitRoundRobin turns({.quantum = 10, .max_saved = 10});
  for (const char* flow : {"a", "b", "c", "d"}) turns.Join(flow);
  turns.EndTurn();
  EXPECT_THAT(turns.InTurn(), ::testing::ElementsAre("b", "c", "d", "a"));
  turns.Leave("a");
  EXPECT_THAT(turns.InTurn(), ::testing::ElementsAre("b", "c", "d"));
  turns.Leave("b");
  EXPECT_THAT(turns.InTurn(), ::testing::ElementsAre("c", "d"));
  EXPECT_EQ(turns.CreditOf("c"), 10);
  turns.EndTurn();
  turns.Leave("d");
  EXPECT_THAT(turns.InTurn(), ::testing::ElementsAre("c"));
  turns.Leave("c");
  EXPECT_TRUE(turns.InTurn().empty());
}

TEST(DeficitRoundRobin, ServesNobodyWhereNothingCanBeServed) {
  DeficitRoundRobin turns({.quantum = 10, .max_saved = 10});
  const auto none = [](const std::string&) -> std::optional<int64_t> {
    return std::nullopt;
  };
  EXPECT_EQ(turns.Next(none), std::nullopt);
  turns.Join("a");
  EXPECT_EQ(turns.Next(none), std::nullopt);
}

TEST(DeficitRoundRobin, JoiningTwiceIsJoiningOnce) {
  DeficitRoundRobin turns({.quantum = 10, .max_saved = 10});
  turns.Join("a");
  turns.Join("a");
  EXPECT_EQ(turns.InTurn().size(), 1u);
}

}  // namespace
}  // namespace phitap
