#include "tests/fuzz/plan_promises.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <variant>
#include <vector>

#include "server/plan/captures/reduction.h"
#include "server/plan/captures/selection.h"
#include "server/plan/edits/edited_part.h"
#include "server/plan/order/reach.h"
#include "server/plan/program/shapes.h"
#include "server/plan/runs/plan_generation.h"
#include "tests/fuzz/ascending.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/group_promises.h"
#include "tests/fuzz/run_promises.h"

namespace phitap {
namespace {

class PlanChecker {
 public:
  PlanChecker(const TracePlan& plan, const ModelSpec& spec,
              const Limits& limits)
      : plan_(plan), spec_(spec), limits_(limits) {}

  void CheckAll() const {
    CheckNodes();
    for (const PlannedWrite& write : plan_.writes) CheckWrite(write);
    CheckAnswer();
    CheckBytes();
  }

 private:
  bool IsRun(int run) const {
    return run >= 0 && run < static_cast<int>(plan_.runs.size());
  }
  bool IsNode(int node) const {
    return node >= 0 && node < static_cast<int>(plan_.nodes.size());
  }
  void CheckPoint(HookPoint point) const {
    Expect(HasLayer(point.hook)
               ? point.layer >= 0 && point.layer < spec_.num_layers
               : point.layer == -1,
           "a hook point is in one of the layers, or in none");
  }

  void CheckSelection(const ResolvedSelection& selection, Hook hook,
                      int64_t tokens) const {
    const HookEntry& entry = EntryOf(hook);
    for (size_t axis = 0; axis < entry.dimensions.size(); ++axis) {
      const std::vector<int64_t>* kept = KeptIndices(selection, entry, axis);
      if (kept == nullptr) continue;
      const int64_t size = SizeOf(entry.dimensions[axis], spec_, tokens);
      Expect(!kept->empty() &&
                 std::set<int64_t>(kept->begin(), kept->end()).size() ==
                     kept->size(),
             "a selection has something, each once");
      for (const int64_t index : *kept) {
        Expect(index >= 0 && index < size, "and nothing that is not there");
      }
    }
  }

  void CheckRead(const RunRead& read) const {
    Expect(IsRun(read.run), "a run that is read is one");
    CheckPoint(read.point);
    Expect(read.read_at == ReadPoint(read.point), "reads are in their places");
    CheckSelection(read.selection, read.point.hook,
                   TokenCount(plan_.runs[read.run]));
  }

  void CheckNodes() const {
    for (size_t i = 0; i < plan_.nodes.size(); ++i) {
      const ProgramNode& node = plan_.nodes[i];
      Expect(!node.field.empty(), "a node has a name for errors");
      for (const int input : node.inputs) {
        Expect(input >= 0 && input < static_cast<int>(i),
               "inputs come before the node");
      }
      for (const int64_t size : node.shape) {
        Expect(size > 0, "a node's value has elements");
      }
      if (const auto* read = std::get_if<RunRead>(&node.operation)) {
        CheckRead(*read);
      } else if (const auto* noise = std::get_if<NoiseValue>(&node.operation)) {
        if (noise->like.has_value()) CheckRead(*noise->like);
      } else if (const auto* gradient =
                     std::get_if<GradientValue>(&node.operation)) {
        CheckRead(gradient->with_respect_to);
      } else if (const auto* latch = std::get_if<LatchOp>(&node.operation)) {
        Expect(IsRun(latch->run), "a latch is of a run");
      }
    }
  }

  void CheckWrite(const PlannedWrite& write) const {
    Expect(IsRun(write.run), "a write is of a run");
    CheckPoint(write.point);
    Expect(EntryOf(write.point.hook).access == Access::kReadWrite,
           "what is written can be");
    Expect(IsNode(write.value), "a write has a value");
    Expect(write.condition == -1 || IsNode(write.condition),
           "a condition is a node");
    Expect(write.steps.prompt || write.steps.has_generated(),
           "a write is made in some pass");
    Expect(Ascends(write.steps.steps) && Ascends(write.steps.token_ids),
           "a write's steps ascend");
    const int64_t tokens = TokenCount(plan_.runs[write.run]);
    CheckSelection(write.selection, write.point.hook, tokens);
    if (!write.steps.prompt) return;
    const Shape part =
        SelectedShape(write.point.hook, write.selection, spec_, tokens);
    Expect(BroadcastsTo(plan_.nodes[write.value].shape, part),
           "a value broadcasts to the part that it is written to");
  }

  // Each tensor is made once: by a capture, or of nodes.
  void CheckAnswer() const {
    std::vector<int64_t> elements(plan_.tensors.size(), 0);
    const auto add = [&](int64_t tensor, int64_t count) {
      Expect(tensor >= 0 && tensor < static_cast<int64_t>(elements.size()),
             "a tensor that is made is one of the answer's");
      elements[tensor] += count;
    };
    for (const PlannedCapture& capture : plan_.captures) {
      CheckCapture(capture);
      const int64_t count = static_cast<int64_t>(capture.steps.size()) *
                            PartCount(capture.reduction);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t tensor = capture.first_tensor + i;
        add(tensor, 0);
        add(tensor, SaturatingElements(plan_.tensors[tensor].shape));
      }
    }
    for (const PlannedOutput& output : plan_.outputs) {
      Expect(IsNode(output.node), "an output is a node's");
      const int64_t count = SaturatingElements(plan_.nodes[output.node].shape);
      add(output.tensor, count);
      Expect(output.offset >= 0 &&
                 output.offset + count <=
                     SaturatingElements(plan_.tensors[output.tensor].shape),
             "an output is inside its tensor");
    }
    for (size_t i = 0; i < elements.size(); ++i) {
      CheckTensor(plan_.tensors[i]);
      Expect(elements[i] == SaturatingElements(plan_.tensors[i].shape),
             "every element of the answer is made, once");
    }
  }

  void CheckTensor(const PlannedTensor& tensor) const {
    Expect(tensor.run == -1 || IsRun(tensor.run), "a tensor is of a run");
    Expect(tensor.shape.size() == tensor.dimension_names.size(),
           "dimensions have names");
    for (const int64_t size : tensor.shape) {
      Expect(size > 0, "a tensor has elements");
    }
    Expect(tensor.size_bytes ==
               SaturatingElements(tensor.shape) * SizeInBytes(tensor.dtype),
           "a tensor has the bytes of its shape");
  }

  void CheckCapture(const PlannedCapture& capture) const {
    Expect(IsRun(capture.run), "a capture is of a run");
    const PlannedRun& run = plan_.runs[capture.run];
    CheckPoint(capture.point);
    CheckSelection(capture.selection, capture.point.hook, TokenCount(run));
    Expect(
        !capture.steps.empty() && AscendsBefore(capture.steps, PassCount(run)),
        "a capture is of passes that there are");
    if (capture.steps.front() != 0) return;
    CheckReached(capture, run);
    if (!std::holds_alternative<std::monostate>(capture.reduction)) return;
    Expect(plan_.tensors[capture.first_tensor].shape ==
               SelectedShape(capture.point.hook, capture.selection, spec_,
                             TokenCount(run)),
           "a capture has the shape of what it selects");
  }

  void CheckReached(const PlannedCapture& capture,
                    const PlannedRun& run) const {
    const HookPoint at = capture.read_at;
    Expect(LayersFor(at, spec_) <= run.reach.layer_count,
           "a run goes as far as it is captured");
    const Stage stage = StageOf(at.hook);
    if (stage <= Stage::kKeysValues || at.hook == Hook::kNextTokenProbs ||
        (stage == Stage::kTail && at.layer + 1 < run.reach.layer_count)) {
      return;
    }
    std::vector<int64_t> positions =
        capture.selection.positions.value_or(std::vector<int64_t>());
    std::sort(positions.begin(), positions.end());
    const std::vector<int64_t>& made =
        stage == Stage::kTail   ? run.reach.tail_positions
        : stage == Stage::kNorm ? run.reach.norm_positions
                                : run.reach.head_positions;
    Expect(capture.selection.positions.has_value()
               ? Holds(made, positions)
               : static_cast<int64_t>(made.size()) == TokenCount(run),
           "a run makes every position that is captured");
  }

  void CheckBytes() const {
    int64_t size_bytes = 0;
    for (const PlannedTensor& tensor : plan_.tensors) {
      size_bytes += tensor.size_bytes;
    }
    Expect(plan_.size_bytes == size_bytes &&
               size_bytes <= limits_.max_response_bytes,
           "an answer has the bytes of its tensors, within the limit");
    Expect(plan_.storage_bytes >= size_bytes &&
               plan_.storage_bytes <= 2 * size_bytes,
           "it keeps them in memory, at most doubled");
    Expect(plan_.working_bytes >= 0 &&
               plan_.working_bytes <= limits_.max_working_bytes,
           "what is held between waves is within the limit");
    Expect(plan_.workspace_bytes >= 0, "a wave's bytes are not negative");
    for (const RunGroup& group : plan_.groups) {
      Expect(group.workspace_bytes >= 0 &&
                 group.workspace_bytes <=
                     limits_.max_wave_bytes - plan_.workspace_bytes,
             "what a wave needs is within the limit");
    }
    Expect(plan_.token_layers >= 0 &&
               plan_.token_layers <= plan_.token_layers_full_depth,
           "no more is computed than there is");
  }

  const TracePlan& plan_;
  const ModelSpec& spec_;
  const Limits& limits_;
};

}  // namespace

void ExpectPromises(const TracePlan& plan, const ModelSpec& spec,
                    const Limits& limits) {
  for (const PlannedRun& run : plan.runs) ExpectRun(plan, run, spec);
  PlanChecker(plan, spec, limits).CheckAll();
  ExpectOrder(plan);
}

}  // namespace phitap
