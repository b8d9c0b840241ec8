// Shares what is served among flows that wait, by cost: deficit round robin.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_DEFICIT_ROUND_ROBIN_H_
#define PHITAP_SERVER_SCHEDULE_DEFICIT_ROUND_ROBIN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace phitap {

struct DeficitRoundRobinOptions {
  // Credit that a flow gets when its turn comes.
  int64_t quantum = 1;
  // Credit that a flow may save up while nothing of it can be served, or while
  // it is served less than it could be; at least the quantum.
  int64_t max_saved = 1;
};

// A flow whose turn comes gets a quantum, and is served while its credit lasts.
// So flows that always have something to be served get equal shares: what two
// of them have been served over any time differs by at most max_saved and what
// is served at once. A flow that leaves loses its credit. Thread-compatible.
class DeficitRoundRobin {
 public:
  // What the flow would be served next; none if nothing of it can be now.
  using CostOf = std::function<std::optional<int64_t>(const std::string& flow)>;

  explicit DeficitRoundRobin(DeficitRoundRobinOptions options)
      : options_(options) {}

  // The flow waits from now on, behind the others. No effect if it does.
  void Join(const std::string& flow);
  // It waits no more. No effect if it does not.
  void Leave(const std::string& flow);

  // The flow that is to be served next; empty if no flow has a cost. Hands out
  // quanta, turn by turn, until that flow can pay.
  std::optional<std::string> Next(const CostOf& cost_of);
  // The flow has been served.
  void Charge(const std::string& flow, int64_t cost);
  // Lets the next flow's turn come even if the credit of this one lasts.
  void EndTurn();

  // All that wait, the one whose turn it is first.
  std::vector<std::string> InTurn() const;
  // 0 where it does not wait.
  int64_t CreditOf(const std::string& flow) const;

 private:
  struct WaitingFlow {
    std::string name;
    int64_t credit = 0;
  };
  void PassTurn(const std::vector<std::optional<int64_t>>& costs);

  const DeficitRoundRobinOptions options_;
  std::vector<WaitingFlow> flows_;
  // Of the flow whose turn it is.
  size_t turn_ = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_DEFICIT_ROUND_ROBIN_H_
