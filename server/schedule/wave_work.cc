#include "server/schedule/wave_work.h"

#include <algorithm>
#include <cstddef>

namespace phitap {

WaveWork::WaveWork(const WavePlan& plan, PassPhase phase) {
  for (const WaveRow& row : plan.rows) {
    Add(row.first_layer, row.reach.layer_count,
        row.token_count - row.first_position);
  }
  for (const WaveRun& run : plan.runs) {
    if (run.row >= 0) continue;
    const PlannedRun& planned = run.plan->runs[run.run];
    const auto prompt_tokens = static_cast<int64_t>(planned.ids.size());
    Add(0, planned.reach.layer_count,
        phase == PassPhase::kToken ? 1 : prompt_tokens);
  }
}

void WaveWork::Add(int first_layer, int layer_count, int64_t tokens) {
  if (tokens_.size() < static_cast<size_t>(layer_count)) {
    tokens_.resize(layer_count);
  }
  for (int layer = first_layer; layer < layer_count; ++layer) {
    tokens_[layer] += tokens;
    all_ += tokens;
    left_ += tokens;
  }
}

void WaveWork::StepDone() {
  if (layers_left() > 0) left_ -= tokens_[steps_done_];
  ++steps_done_;
}

int64_t WaveWork::layers_left() const {
  return std::max<int64_t>(static_cast<int64_t>(tokens_.size()) - steps_done_,
                           0);
}

}  // namespace phitap
