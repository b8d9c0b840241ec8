#include "server/plan/sharing/plan_sharing.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "server/plan/order/forward_order.h"
#include "server/plan/order/reach.h"
#include "server/plan/sharing/extents.h"
#include "server/plan/sharing/position_mixing.h"
#include "server/plan/sharing/write_digests.h"

namespace phitap {
namespace {

// As Rotary::TakesLongFactors has it.
bool TakesLongFactors(const PlannedRun& run, const ModelSpec& spec) {
  if (!spec.longrope.has_value()) return false;
  const int64_t largest =
      *std::max_element(run.position_ids.begin(), run.position_ids.end());
  return largest + 1 > spec.longrope->original_max_positions;
}

// Gathers what is asked of each run.
class Asks {
 public:
  Asks(const ModelSpec& spec, TracePlan& plan)
      : spec_(spec), plan_(plan), asked_(plan.runs.size()) {
    for (PlannedRun& run : plan.runs) {
      run.sharing.first_asked_layer = std::numeric_limits<int>::max();
      run.sharing.first_asked_position = LengthOf(run);
    }
  }

  void AddAll() {
    for (size_t i = 0; i < plan_.runs.size(); ++i) {
      if (!plan_.runs[i].generation.has_value()) continue;
      AddLastHead(static_cast<int>(i));
    }
    for (const PlannedCapture& capture : plan_.captures) {
      if (capture.steps.front() != 0) continue;
      Add(capture.run, capture.read_at, capture.selection);
    }
    for (const ProgramNode& node : plan_.nodes) {
      const auto* read = std::get_if<RunRead>(&node.operation);
      if (read == nullptr) continue;
      // What only a gradient pass reads is not shown before it.
      const Reach& reach = plan_.runs[read->run].reach;
      if (LayersFor(read->read_at, spec_) > reach.layer_count) continue;
      Add(read->run, read->read_at, read->selection);
    }
    for (PlannedRun& run : plan_.runs) {
      int& layer = run.sharing.first_asked_layer;
      layer = std::min(layer, static_cast<int>(spec_.num_layers));
    }
  }

  bool HasAny(int run) const { return asked_[run]; }

 private:
  static int64_t LengthOf(const PlannedRun& run) {
    return static_cast<int64_t>(run.ids.size());
  }

  void Add(int run, HookPoint read_at, const ResolvedSelection& selection) {
    if (read_at.hook == Hook::kNextTokenProbs) return AddLastHead(run);
    AddCorner(run,
              ReadCorner(read_at, selection, LengthOf(plan_.runs[run]), spec_));
  }

  void AddLastHead(int run) {
    plan_.runs[run].sharing.owns_last_position = true;
    AddCorner(run, ReadCorner({.hook = Hook::kNextTokenProbs}, {},
                              LengthOf(plan_.runs[run]), spec_));
  }

  void AddCorner(int run, const Corner& corner) {
    RunSharing& sharing = plan_.runs[run].sharing;
    sharing.first_asked_layer =
        std::min(sharing.first_asked_layer, corner.layer);
    sharing.first_asked_position =
        std::min(sharing.first_asked_position, corner.position);
    asked_[run] = true;
  }

  const ModelSpec& spec_;
  TracePlan& plan_;
  std::vector<bool> asked_;
};

void AddWrites(const ModelSpec& spec, TracePlan& plan) {
  const WriteDigests digests(plan);
  for (size_t i = 0; i < plan.writes.size(); ++i) {
    const PlannedWrite& write = plan.writes[i];
    if (!write.steps.prompt) continue;
    const Corner corner = WriteCorner(write.point, write.selection, spec);
    plan.runs[write.run].sharing.writes.push_back(
        {.write = static_cast<int>(i),
         .first_layer = corner.layer,
         .first_position = corner.position,
         .digest = digests.Of(write),
         .mixes_positions = MixesPositions(plan, write)});
  }
  const auto rank = [&](const WriteExtent& extent) {
    return ForwardRank(plan.writes[extent.write].point, spec);
  };
  for (PlannedRun& run : plan.runs) {
    std::stable_sort(run.sharing.writes.begin(), run.sharing.writes.end(),
                     [&](const WriteExtent& a, const WriteExtent& b) {
                       return rank(a) < rank(b);
                     });
  }
}

void Allow(const PlanContext& context, const Asks& asks, TracePlan& plan) {
  const bool any_may = plan.numerics == Numerics::kCausal && !plan.isolate &&
                       context.wave_sharing == WaveSharing::kTogether;
  for (PlannedRun& run : plan.runs) run.sharing.allowed = any_may;
  for (const ProgramNode& node : plan.nodes) {
    const auto* latch = std::get_if<LatchOp>(&node.operation);
    if (latch != nullptr) plan.runs[latch->run].sharing.allowed = false;
  }
  for (const GradientPass& pass : plan.gradient_passes) {
    if (!asks.HasAny(pass.run)) plan.runs[pass.run].sharing.allowed = false;
  }
}

}  // namespace

void PlanSharing(const PlanContext& context, TracePlan& plan) {
  for (PlannedRun& run : plan.runs) {
    run.sharing = {.long_factors = TakesLongFactors(run, context.spec)};
  }
  Asks asks(context.spec, plan);
  asks.AddAll();
  AddWrites(context.spec, plan);
  Allow(context, asks, plan);
}

}  // namespace phitap
