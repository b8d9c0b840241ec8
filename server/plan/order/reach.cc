#include "server/plan/order/reach.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "server/plan/runs/plan_generation.h"

namespace phitap {
namespace {

// Positions that one stage needs.
class PositionSet {
 public:
  explicit PositionSet(int64_t token_count) : marked_(token_count) {}

  void AddAll() { all_ = true; }
  void Add(int64_t position) { marked_[position] = true; }
  void Add(const std::optional<std::vector<int64_t>>& positions) {
    if (!positions.has_value()) return AddAll();
    if (all_) return;
    for (int64_t position : *positions) marked_[position] = true;
  }

  std::vector<int64_t> Ascending() const {
    std::vector<int64_t> positions;
    for (size_t i = 0; i < marked_.size(); ++i) {
      if (all_ || marked_[i]) positions.push_back(static_cast<int64_t>(i));
    }
    return positions;
  }

 private:
  bool all_ = false;
  std::vector<bool> marked_;
};

// A value that something asks of a run.
struct Demand {
  int run = 0;
  HookPoint read_at;
  // Unset means all.
  const std::optional<std::vector<int64_t>>* positions = nullptr;
};

// Gathers what is asked of one run.
class RunReach {
 public:
  explicit RunReach(int64_t token_count)
      : token_count_(token_count),
        tail_(token_count),
        norm_(token_count),
        head_(token_count) {}

  int layer_count() const { return layer_count_; }
  void Deepen(int layer_count) {
    layer_count_ = std::max(layer_count_, layer_count);
  }

  // Adds the positions of a demand; after the last Deepen.
  void Add(const Demand& demand) {
    const Stage stage = StageOf(demand.read_at.hook);
    if (stage <= Stage::kKeysValues) return;
    if (stage == Stage::kTail && demand.read_at.layer + 1 < layer_count_) {
      return;
    }
    if (demand.read_at.hook == Hook::kNextTokenProbs) return AddNextToken();
    for (PositionSet* set : SetsOf(stage)) set->Add(*demand.positions);
  }

  // Adds what the next token is chosen from.
  void AddNextToken() {
    for (PositionSet* set : SetsOf(Stage::kHead)) set->Add(token_count_ - 1);
  }

  Reach Take(Numerics numerics) {
    Reach reach = {.layer_count = layer_count_,
                   .tail_positions = tail_.Ascending(),
                   .norm_positions = norm_.Ascending(),
                   .head_positions = head_.Ascending()};
    if (numerics == Numerics::kTransformers) {
      for (auto* list : {&reach.tail_positions, &reach.norm_positions,
                         &reach.head_positions}) {
        if (!list->empty()) *list = All();
      }
    }
    return reach;
  }

 private:
  // A position that the head reads goes through norm and tail as well.
  std::vector<PositionSet*> SetsOf(Stage stage) {
    std::vector<PositionSet*> sets = {&tail_};
    if (stage >= Stage::kNorm) sets.push_back(&norm_);
    if (stage >= Stage::kHead) sets.push_back(&head_);
    return sets;
  }

  std::vector<int64_t> All() const {
    PositionSet all(token_count_);
    all.AddAll();
    return all.Ascending();
  }

  int64_t token_count_;
  int layer_count_ = 0;
  PositionSet tail_;
  PositionSet norm_;
  PositionSet head_;
};

Demand DemandOf(const RunRead& read) {
  return {.run = read.run,
          .read_at = read.read_at,
          .positions = &read.selection.positions};
}

// Who needs a node's value in the ordinary passes.
constexpr int kNobody = -1;
constexpr int kOthers = -2;  // an answer, or more than one run

// For each node the run whose own writes or gradients alone need it, kOthers or
// kNobody.
std::vector<int> NeedersOf(const TracePlan& plan) {
  std::vector<int> needers(plan.nodes.size(), kNobody);
  const auto add = [&](int node, int needer) {
    int& known = needers[node];
    if (needer == kNobody || known == needer) return;
    known = known == kNobody ? needer : kOthers;
  };
  for (const PlannedOutput& output : plan.outputs) add(output.node, kOthers);
  for (const PlannedWrite& write : plan.writes) {
    add(write.value, write.run);
    if (write.condition >= 0) add(write.condition, write.run);
  }
  for (const GradientPass& pass : plan.gradient_passes) {
    add(pass.metric, pass.run);
  }
  for (size_t n = plan.nodes.size(); n-- > 0;) {
    for (const int input : plan.nodes[n].inputs) add(input, needers[n]);
  }
  return needers;
}

struct Demands {
  // However deep they are.
  std::vector<Demand> made;
  // Of a run's own writes and gradients: as far as the run goes anyway. A write
  // lies behind what it reads, and a gradient pass makes its own.
  std::vector<Demand> along;
};

// What captures and nodes ask for in the prompt's pass.
Demands DemandsOf(const TracePlan& plan) {
  Demands demands;
  for (const PlannedCapture& capture : plan.captures) {
    if (capture.steps.front() != 0) continue;
    demands.made.push_back({.run = capture.run,
                            .read_at = capture.read_at,
                            .positions = &capture.selection.positions});
  }
  const std::vector<int> needers = NeedersOf(plan);
  for (size_t n = 0; n < plan.nodes.size(); ++n) {
    const auto* read = std::get_if<RunRead>(&plan.nodes[n].operation);
    if (read == nullptr || needers[n] == kNobody) continue;
    (needers[n] == read->run ? demands.along : demands.made)
        .push_back(DemandOf(*read));
  }
  return demands;
}

}  // namespace

Stage StageOf(Hook hook) {
  if (hook <= Hook::kRotarySin) return Stage::kInputs;
  if (hook <= Hook::kAttentionProbabilities) return Stage::kKeysValues;
  if (hook <= Hook::kLayerOutput) return Stage::kTail;
  return hook == Hook::kFinalNormOutput ? Stage::kNorm : Stage::kHead;
}

HookPoint ReadPoint(HookPoint point) {
  if (point.hook != Hook::kLayerInput) return point;
  if (point.layer == 0) return {.hook = Hook::kTokenEmbeddings};
  return {.hook = Hook::kLayerOutput, .layer = point.layer - 1};
}

int LayersFor(HookPoint read_at, const ModelSpec& spec) {
  switch (StageOf(read_at.hook)) {
    case Stage::kInputs:
      return 0;
    case Stage::kKeysValues:
    case Stage::kTail:
      return read_at.layer + 1;
    case Stage::kNorm:
    case Stage::kHead:
      return static_cast<int>(spec.num_layers);
  }
  return 0;
}

void PlanReach(const ModelSpec& spec, TracePlan& plan) {
  const Demands demands = DemandsOf(plan);
  std::vector<RunReach> reaches;
  reaches.reserve(plan.runs.size());
  for (const PlannedRun& run : plan.runs) {
    reaches.emplace_back(static_cast<int64_t>(run.ids.size()));
    if (!run.generation.has_value()) continue;
    reaches.back().Deepen(static_cast<int>(spec.num_layers));
    reaches.back().AddNextToken();
  }
  for (const Demand& demand : demands.made) {
    reaches[demand.run].Deepen(LayersFor(demand.read_at, spec));
  }
  for (const Demand& demand : demands.made) reaches[demand.run].Add(demand);
  for (const Demand& demand : demands.along) {
    RunReach& reach = reaches[demand.run];
    if (LayersFor(demand.read_at, spec) <= reach.layer_count()) {
      reach.Add(demand);
    }
  }
  for (size_t i = 0; i < reaches.size(); ++i) {
    plan.runs[i].reach = reaches[i].Take(plan.numerics);
  }
}

void CountTokenLayers(const ModelSpec& spec, TracePlan& plan) {
  plan.token_layers = 0;
  plan.token_layers_full_depth = 0;
  const auto count = [&](const PlannedRun& run) {
    const int64_t token_count = static_cast<int64_t>(run.ids.size());
    plan.token_layers += TokenLayers(run.reach, token_count);
    plan.token_layers_full_depth += spec.num_layers * token_count;
  };
  for (const PlannedRun& run : plan.runs) {
    count(run);
    const int64_t generated = (PassCount(run) - 1) * spec.num_layers;
    plan.token_layers += generated;
    plan.token_layers_full_depth += generated;
  }
  for (const GradientPass& pass : plan.gradient_passes) {
    count(plan.runs[pass.run]);
  }
}

int64_t TokenLayers(const Reach& reach, int64_t token_count) {
  if (reach.layer_count == 0) return 0;
  return (reach.layer_count - 1) * token_count +
         static_cast<int64_t>(reach.tail_positions.size());
}

}  // namespace phitap
