#include "server/plan/order/forward_order.h"

#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "server/plan/order/reach.h"

namespace phitap {
namespace {

// A hook point's BEFORE reads, then its writes and AFTER reads, then what must
// come after them.
constexpr Moment kMomentsAPoint = 4;
constexpr Moment kWrites = 2;
constexpr Moment kLast = 3;

bool IsPattern(Hook hook) {
  return hook == Hook::kAttentionScores ||
         hook == Hook::kAttentionProbabilities;
}

Moment MomentOf(HookPoint point, Moment part, const ModelSpec& spec) {
  return ForwardRank(point, spec) * kMomentsAPoint + part;
}

// Which runs edit the input of which layer.
using EditedInputs = absl::flat_hash_set<std::pair<int, int>>;

void Place(HookPoint point, int run, const EditedInputs& edited,
           HookPoint& read_at, ReadTime& time) {
  if (point.hook != Hook::kLayerInput) return;
  if (time == ReadTime::kAfter && edited.contains({run, point.layer})) {
    read_at = point;
    return;
  }
  read_at = ReadPoint(point);
  time = ReadTime::kAfter;
}

}  // namespace

int64_t ForwardRank(HookPoint point, const ModelSpec& spec) {
  int64_t block = point.layer + 1;
  if (!HasLayer(point.hook) && point.hook >= Hook::kFinalNormOutput) {
    block = spec.num_layers + 1;
  }
  return block * kHookCount + static_cast<int64_t>(point.hook);
}

Moment ReadyMoment(const RunRead& read, const ModelSpec& spec) {
  if (IsPattern(read.read_at.hook)) {
    return MomentOf({Hook::kAttentionProbabilities, read.read_at.layer}, kLast,
                    spec);
  }
  return MomentOf(read.read_at, read.time == ReadTime::kAfter ? kWrites : 0,
                  spec);
}

Moment NeedMoment(const TracePlan& plan, const PlannedWrite& write,
                  const ModelSpec& spec) {
  const bool latched =
      plan.nodes[write.value].every_pass ||
      (write.condition >= 0 && plan.nodes[write.condition].every_pass);
  if (!write.steps.prompt && !latched) return kAfterPrompt;
  if (IsPattern(write.point.hook)) {
    return MomentOf({Hook::kAttentionScores, write.point.layer}, kWrites, spec);
  }
  return MomentOf(write.point, kWrites, spec);
}

void PlaceReads(TracePlan& plan) {
  EditedInputs edited;
  for (const PlannedWrite& write : plan.writes) {
    if (write.point.hook == Hook::kLayerInput) {
      edited.insert({write.run, write.point.layer});
    }
  }
  const auto place = [&](auto& read) {
    Place(read.point, read.run, edited, read.read_at, read.time);
  };
  for (ProgramNode& node : plan.nodes) {
    if (auto* read = std::get_if<RunRead>(&node.operation)) place(*read);
    if (auto* gradient = std::get_if<GradientValue>(&node.operation)) {
      place(gradient->with_respect_to);
    }
  }
  for (PlannedCapture& capture : plan.captures) place(capture);
}

}  // namespace phitap
