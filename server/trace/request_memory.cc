#include "server/trace/request_memory.h"

#include <utility>

namespace phitap {

RequestMemory::RequestMemory(std::shared_ptr<const TracePlan> plan,
                             const ModelSpec& spec, const Rotary& rotary)
    : plan_(std::move(plan)),
      spec_(spec),
      rotary_(rotary),
      index_(*plan_),
      nodes_(*plan_, index_),
      outputs_(*plan_),
      delivered_(plan_->tensors.size(), false),
      ended_(plan_->runs.size(), false),
      ended_passes_(plan_->gradient_passes.size(), false) {
  for (size_t run = 0; run < plan_->runs.size(); ++run) {
    for (const int write : index_.parts(static_cast<int>(run)).writes) {
      nodes_.Hold(index_.external_inputs(write));
    }
  }
  for (size_t pass = 0; pass < plan_->gradient_passes.size(); ++pass) {
    nodes_.Hold(index_.gradient(static_cast<int>(pass)).constants);
  }
}

Generation* RequestMemory::GenerationOf(int run) {
  const PlannedRun& planned = plan_->runs[run];
  if (!planned.generation) return nullptr;
  std::unique_ptr<Generation>& generation = generations_[run];
  if (generation == nullptr) {
    generation = std::make_unique<Generation>(
        Generation::Setting{.run = planned,
                            .spec = spec_,
                            .rotary = rotary_,
                            .longrope_cache = plan_->longrope_cache});
  }
  return generation.get();
}

void RequestMemory::Deliver(ResultSink& sink, int tensor, HostTensor value) {
  if (delivered_[tensor]) return;
  delivered_[tensor] = true;
  sink.Deliver(tensor, std::move(value));
}

void RequestMemory::EndRun(int run) {
  if (ended_[run]) return;
  ended_[run] = true;
  for (const int write : index_.parts(run).writes) {
    nodes_.Release(index_.external_inputs(write));
  }
  generations_.erase(run);
}

void RequestMemory::EndGradientPass(int pass) {
  if (ended_passes_[pass]) return;
  ended_passes_[pass] = true;
  nodes_.Release(index_.gradient(pass).constants);
}

}  // namespace phitap
