#include "server/plan/reach.h"

#include <algorithm>

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

// Gathers what the captures of one run need.
class RunReach {
 public:
  explicit RunReach(int64_t token_count)
      : token_count_(token_count),
        tail_(token_count),
        norm_(token_count),
        head_(token_count) {}

  void Deepen(int layer_count) {
    layer_count_ = std::max(layer_count_, layer_count);
  }

  // Adds the positions of a capture; after the last Deepen.
  void Add(const PlannedCapture& capture) {
    const Stage stage = StageOf(capture.read_at.hook);
    if (stage <= Stage::kKeysValues) return;
    if (stage == Stage::kTail && capture.read_at.layer + 1 < layer_count_) {
      return;
    }
    for (PositionSet* set : SetsOf(stage)) {
      if (capture.read_at.hook == Hook::kNextTokenProbs) {
        set->Add(token_count_ - 1);
      } else {
        set->Add(capture.selection.positions);
      }
    }
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

// Layers that must be computed for a value.
int LayerCount(HookPoint read_at, const ModelSpec& spec) {
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

void PlanReach(const ModelSpec& spec, TracePlan& plan) {
  std::vector<RunReach> reaches;
  reaches.reserve(plan.runs.size());
  for (const PlannedRun& run : plan.runs) {
    reaches.emplace_back(static_cast<int64_t>(run.ids.size()));
  }
  for (const PlannedCapture& capture : plan.captures) {
    reaches[capture.run].Deepen(LayerCount(capture.read_at, spec));
  }
  for (const PlannedCapture& capture : plan.captures) {
    reaches[capture.run].Add(capture);
  }
  for (size_t i = 0; i < reaches.size(); ++i) {
    plan.runs[i].reach = reaches[i].Take(plan.numerics);
  }
}

int64_t TokenLayers(const Reach& reach, int64_t token_count) {
  if (reach.layer_count == 0) return 0;
  return (reach.layer_count - 1) * token_count +
         static_cast<int64_t>(reach.tail_positions.size());
}

}  // namespace phitap
