#include "server/trace/part_values.h"

#include <utility>
#include <variant>
#include <vector>

#include "server/trace/demand.h"
#include "server/trace/noise.h"
#include "server/trace/select.h"

namespace phitap {
namespace {

// Whether an input lies over the consumer's other inputs, place by place, as a
// weight or a list of indices does not.
bool LinesUp(const ProgramNode& consumer, size_t index) {
  return index == 0 || (!std::holds_alternative<LinearOp>(consumer.operation) &&
                        !std::holds_alternative<GatherOp>(consumer.operation));
}

}  // namespace

PartValues::PartValues(NodeValues& values, const WrittenPart& part,
                       at::Tensor current)
    : values_(values), part_(part), current_(std::move(current)) {}

at::Tensor PartValues::Value(int node) {
  return Demand(
      node, values_.plan().nodes, [this](int n) { return Find(n); },
      [this](int n) { made_[n] = Make(n); });
}

at::Tensor PartValues::Find(int node) {
  if (!values_.plan().nodes[node].in_write) return values_.Value(node);
  const auto found = made_.find(node);
  return found == made_.end() ? at::Tensor() : found->second;
}

at::Tensor PartValues::Input(const ProgramNode& consumer, size_t index) {
  const int input = consumer.inputs[index];
  const at::Tensor value = Find(input);
  const bool whole = !values_.plan().nodes[input].in_write;
  return whole && LinesUp(consumer, index) ? KeptOf(value, part_) : value;
}

at::Tensor PartValues::Make(int node) {
  const ProgramNode& planned = values_.plan().nodes[node];
  if (std::holds_alternative<CurrentValue>(planned.operation)) return current_;
  if (const auto* noise = std::get_if<NoiseValue>(&planned.operation)) {
    return Noise(*noise);
  }
  std::vector<at::Tensor> inputs;
  inputs.reserve(planned.inputs.size());
  for (size_t i = 0; i < planned.inputs.size(); ++i) {
    inputs.push_back(Input(planned, i));
  }
  return Evaluate(planned, inputs, values_.rules());
}

at::Tensor PartValues::Noise(const NoiseValue& noise) const {
  const PlannedWrite& write = *part_.write;
  ResolvedSelection selection = write.selection;
  const bool pattern = IsPattern(write.point.hook);
  (pattern ? selection.queries : selection.positions) = part_.positions;
  return StandardNormal(PlaceOf(noise.seed, write.point, selection,
                                values_.rules().model.spec(), part_.key_count));
}

}  // namespace phitap
