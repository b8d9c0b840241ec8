#include "tests/fuzz/run_promises.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/fuzz/ascending.h"
#include "tests/fuzz/expect.h"

namespace phitap {
namespace {

bool AreIds(const std::vector<int32_t>& ids, const ModelSpec& spec) {
  return std::all_of(ids.begin(), ids.end(), [&](int32_t id) {
    return id >= 0 && id < spec.vocab_size;
  });
}

void ExpectPrompt(const PlannedRun& run, const ModelSpec& spec) {
  Expect(!run.ids.empty() && AreIds(run.ids, spec),
         "a run has tokens of the vocabulary");
  Expect(run.position_ids.size() == run.ids.size(), "a position a token");
  for (const int64_t position : run.position_ids) {
    Expect(position >= 0 && position < spec.max_positions,
           "positions are the model's");
  }
  Expect(AscendsBefore(run.hidden_positions, TokenCount(run)),
         "hidden positions are the run's");
  Expect(run.own_token_count >= 1 && run.own_token_count <= TokenCount(run),
         "a run adds one of its tokens, at most all");
}

void ExpectReach(const PlannedRun& run, const ModelSpec& spec) {
  const Reach& reach = run.reach;
  Expect(reach.layer_count >= 0 && reach.layer_count <= spec.num_layers,
         "a run's reach is inside the model");
  Expect(AscendsBefore(reach.tail_positions, TokenCount(run)),
         "its positions are the run's");
  Expect(Ascends(reach.norm_positions) && Ascends(reach.head_positions),
         "all of its lists ascend");
  Expect(Holds(reach.tail_positions, reach.norm_positions),
         "what the norm reads went through the tail");
  Expect(Holds(reach.norm_positions, reach.head_positions),
         "what the head reads went through the norm");
  Expect(reach.norm_positions.empty() || reach.layer_count == spec.num_layers,
         "the norm comes after the last layer");
}

void ExpectExtents(const TracePlan& plan, const PlannedRun& run,
                   const ModelSpec& spec) {
  for (const WriteExtent& extent : run.sharing.writes) {
    Expect(extent.write >= 0 &&
               extent.write < static_cast<int>(plan.writes.size()) &&
               &plan.runs[plan.writes[extent.write].run] == &run,
           "an extent is of a write of the run");
    Expect(extent.first_layer >= 0 && extent.first_layer <= spec.num_layers,
           "an extent begins in the model");
    Expect(
        extent.first_position >= 0 && extent.first_position < TokenCount(run),
        "an extent begins in the run");
  }
}

void ExpectGeneration(const PlannedRun& run, const ModelSpec& spec) {
  const PlannedGeneration& generation = *run.generation;
  // The last token is never read.
  const int64_t read = generation.max_tokens - 1;
  Expect(read >= 0 && TokenCount(run) + read <= spec.max_positions &&
             run.position_ids.back() + read < spec.max_positions,
         "a run does not outgrow the model's longest sequence");
  Expect(std::isfinite(generation.temperature) && generation.temperature >= 0 &&
             generation.top_k >= 0 && generation.top_p > 0 &&
             generation.top_p <= 1,
         "a token can be chosen");
  Expect(Ascends(generation.stop_ids) && AreIds(generation.forced_ids, spec),
         "forced ids are of the vocabulary");
  Expect(static_cast<int64_t>(generation.forced_ids.size()) <=
             generation.max_tokens,
         "no more is forced than is generated");
  Expect(!run.reach.head_positions.empty() &&
             run.reach.head_positions.back() == TokenCount(run) - 1,
         "the first token is chosen from the last position's head");
}

}  // namespace

void ExpectRun(const TracePlan& plan, const PlannedRun& run,
               const ModelSpec& spec) {
  ExpectPrompt(run, spec);
  ExpectReach(run, spec);
  ExpectExtents(plan, run, spec);
  if (run.generation.has_value()) ExpectGeneration(run, spec);
}

}  // namespace phitap
