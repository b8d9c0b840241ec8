#include "server/schedule/deficit_round_robin.h"

#include <algorithm>

namespace phitap {

void DeficitRoundRobin::Join(const std::string& flow) {
  if (std::any_of(flows_.begin(), flows_.end(),
                  [&](const WaitingFlow& f) { return f.name == flow; })) {
    return;
  }
  // Right before the flow whose turn it is: that is the end of the round.
  const bool first = flows_.empty();
  flows_.insert(flows_.begin() + static_cast<ptrdiff_t>(turn_),
                {.name = flow, .credit = first ? options_.quantum : 0});
  if (!first) ++turn_;
}

void DeficitRoundRobin::Leave(const std::string& flow) {
  const auto left =
      std::find_if(flows_.begin(), flows_.end(),
                   [&](const WaitingFlow& f) { return f.name == flow; });
  if (left == flows_.end()) return;
  const auto place = static_cast<size_t>(left - flows_.begin());
  const bool had_turn = place == turn_;
  flows_.erase(left);
  if (flows_.empty()) {
    turn_ = 0;
    return;
  }
  // The turn passes to the one behind it, from the one before.
  if (place < turn_ || had_turn)
    turn_ = (turn_ + flows_.size() - 1) % flows_.size();
  if (had_turn) EndTurn();
}

std::optional<std::string> DeficitRoundRobin::Next(const CostOf& cost_of) {
  std::vector<std::optional<int64_t>> costs;
  for (const WaitingFlow& flow : flows_) costs.push_back(cost_of(flow.name));
  if (std::none_of(costs.begin(), costs.end(),
                   [](const auto& cost) { return cost.has_value(); })) {
    return std::nullopt;
  }
  while (!costs[turn_].has_value() || flows_[turn_].credit < *costs[turn_]) {
    PassTurn(costs);
  }
  return flows_[turn_].name;
}

void DeficitRoundRobin::PassTurn(
    const std::vector<std::optional<int64_t>>& costs) {
  turn_ = (turn_ + 1) % flows_.size();
  WaitingFlow& flow = flows_[turn_];
  // What it is to be served next may cost more than it may save up.
  const int64_t most =
      std::max(options_.max_saved, costs[turn_].value_or(0) + options_.quantum);
  flow.credit =
      std::max(flow.credit, std::min(flow.credit + options_.quantum, most));
}

void DeficitRoundRobin::Charge(const std::string& flow, int64_t cost) {
  for (WaitingFlow& waiting : flows_) {
    if (waiting.name == flow) waiting.credit -= cost;
  }
}

void DeficitRoundRobin::EndTurn() {
  if (flows_.empty()) return;
  PassTurn(std::vector<std::optional<int64_t>>(flows_.size()));
}

std::vector<std::string> DeficitRoundRobin::InTurn() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < flows_.size(); ++i) {
    names.push_back(flows_[(turn_ + i) % flows_.size()].name);
  }
  return names;
}

int64_t DeficitRoundRobin::CreditOf(const std::string& flow) const {
  for (const WaitingFlow& waiting : flows_) {
    if (waiting.name == flow) return waiting.credit;
  }
  return 0;
}

}  // namespace phitap
