#include "server/trace/generation.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "server/base/status_macros.h"
#include "server/trace/sampler.h"

namespace phitap {
namespace {

void Include(int64_t position, std::vector<int64_t>& ascending) {
  if (ascending.empty() || ascending.back() < position) {
    ascending.push_back(position);
  }
}

}  // namespace

Generation::Generation(const Setting& setting)
    : setting_(setting),
      ids_(setting.run.ids),
      position_ids_(setting.run.position_ids),
      cache_(setting.spec),
      tail_positions_(setting.run.reach.tail_positions),
      norm_positions_(setting.run.reach.norm_positions),
      head_positions_(setting.run.reach.head_positions) {
  for (auto* positions :
       {&tail_positions_, &norm_positions_, &head_positions_}) {
    Include(prompt_length() - 1, *positions);
  }
}

bool Generation::TakesLong(int64_t count) const {
  return setting_.rotary.TakesLongFactors(
      *std::max_element(position_ids_.begin(), position_ids_.begin() + count));
}

bool Generation::CrossedBetween(int64_t before, int64_t after) const {
  return !TakesLong(before) && TakesLong(after);
}

ForwardRow Generation::NextRow() {
  const auto length = static_cast<int64_t>(ids_.size());
  const bool recomputes =
      pass_ > 0 && setting_.longrope_cache == LongropeCache::kRecompute &&
      CrossedBetween(length - 1, length);
  const bool again = std::exchange(under_way_, true);
  TORCH_CHECK(!again || setting_.longrope_cache == LongropeCache::kRecompute ||
                  !CrossedBetween(prompt_length(), length),
              "a forward failed, and the cached keys, which keep their "
              "rotation, cannot be computed again");
  const bool whole = pass_ == 0 || recomputes || again;
  if (whole) cache_.Clear();
  const int64_t first = whole ? 0 : length - 1;
  return {
      .ids = absl::MakeConstSpan(ids_).subspan(first),
      .first_position = first,
      .cache = &cache_,
      .position_ids = absl::MakeConstSpan(position_ids_).subspan(first),
      .has_position_ids = setting_.run.has_position_ids,
      .hidden_positions = setting_.run.hidden_positions,
      .layer_count = static_cast<int>(setting_.spec.num_layers),
      .tail_positions = tail_positions_,
      .norm_positions = norm_positions_,
      .head_positions = head_positions_,
  };
}

absl::StatusOr<Generation::Step> Generation::Advance(const at::Tensor& logits,
                                                     int run) {
  const int step = pass_ + 1;
  ASSIGN_OR_RETURN(const ChosenToken chosen,
                   ChooseToken(logits, *setting_.run.generation, step));
  under_way_ = false;
  ids_.push_back(chosen.id);
  position_ids_.push_back(position_ids_.back() + 1);
  pass_ = step;
  const std::vector<int64_t> own = {static_cast<int64_t>(ids_.size()) - 1};
  tail_positions_ = norm_positions_ = head_positions_ = own;
  return Step{.token = {.run = run,
                        .step = step,
                        .id = chosen.id,
                        .log_probability = chosen.log_probability},
              .finish_reason = ReasonToEnd(chosen.id)};
}

FinishReason Generation::ReasonToEnd(int32_t id) const {
  const PlannedGeneration& generation = *setting_.run.generation;
  const bool forced = pass_ <= static_cast<int>(generation.forced_ids.size());
  if (!forced && std::binary_search(generation.stop_ids.begin(),
                                    generation.stop_ids.end(), id)) {
    return FinishReason::kStop;
  }
  // The last token would have to go through the model to go on from it.
  const bool full =
      pass_ >= generation.max_tokens ||
      static_cast<int64_t>(ids_.size()) > setting_.spec.max_positions ||
      position_ids_.back() >= setting_.spec.max_positions;
  return full ? FinishReason::kLength : FinishReason::kNone;
}

}  // namespace phitap
