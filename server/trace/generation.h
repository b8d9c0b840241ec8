// A run on its way from token to token.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_GENERATION_H_
#define PHITAP_SERVER_TRACE_GENERATION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/forward.h"
#include "server/model/key_value_cache.h"
#include "server/model/rotary.h"
#include "server/plan/executor.h"
#include "server/plan/trace_plan.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Pass 0 is the prompt's, pass t that of token t, at position prompt length + t
// − 1; each pass's last logits choose the next token. Where the sequence grows
// past the original context of a longrope checkpoint, kRecompute has one pass
// over all of it instead. Ends with a stop id that was not forced, with
// max_tokens or with the model's longest sequence. Not thread-safe; what it is
// made of must outlive it.
class Generation {
 public:
  struct Setting {
    const PlannedRun& run;
    const ModelSpec& spec;
    const Rotary& rotary;
    LongropeCache longrope_cache = LongropeCache::kRecompute;
  };
  // The run generates.
  explicit Generation(const Setting& setting);

  // Of the pass that is next.
  int pass() const { return pass_; }
  // The prompt and the tokens so far.
  const std::vector<int32_t>& ids() const { return ids_; }
  // What the pass asks of the model; spans last until Advance. Called again
  // after a forward that failed, it asks for the whole sequence, since the
  // cache may be half filled; throws c10::Error where that is not the same
  // (kKeep, once both kinds of factors are in use).
  ForwardRow NextRow();

  // What a pass led to.
  struct Step {
    GeneratedToken token;
    FinishReason finish_reason = FinishReason::kNone;
  };
  // Ends the pass that had these last logits [V], after the run's edits. See
  // ChooseToken for errors.
  absl::StatusOr<Step> Advance(const at::Tensor& logits, int run);

 private:
  // Whether a sequence of the first `count` tokens takes the long factors.
  bool TakesLong(int64_t count) const;
  // Whether it does after so many tokens, and did not before.
  bool CrossedBetween(int64_t before, int64_t after) const;
  FinishReason ReasonToEnd(int32_t id) const;
  int64_t prompt_length() const {
    return static_cast<int64_t>(setting_.run.ids.size());
  }

  const Setting setting_;
  int pass_ = 0;
  std::vector<int32_t> ids_;
  std::vector<int64_t> position_ids_;
  KeyValueCache cache_;
  // Whether a forward was asked for that has not led to Advance.
  bool under_way_ = false;
  // Where tail, norm and head go in the next pass.
  std::vector<int64_t> tail_positions_;
  std::vector<int64_t> norm_positions_;
  std::vector<int64_t> head_positions_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_GENERATION_H_
