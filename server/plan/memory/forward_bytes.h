// What a forward needs besides the weights, from the model's sizes alone.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_MEMORY_FORWARD_BYTES_H_
#define PHITAP_SERVER_PLAN_MEMORY_FORWARD_BYTES_H_

#include <cstdint>

#include "server/base/dtype.h"
#include "server/plan/trace_plan.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Upper bounds; saturating.
class ForwardBytes {
 public:
  ForwardBytes(const ModelSpec& spec, DType compute_dtype, Numerics numerics);

  // Of a token on its way through one layer, all hook points shown and edited.
  int64_t Token() const;
  // Of a position of the final norm and the head, on top.
  int64_t HeadPosition() const;
  // Of the lines that fill a wave's matrices up.
  int64_t Padding() const;
  // Of attention's calls, one at a time, for a run of so many tokens; with
  // `pattern` scores and probabilities are computed.
  enum class Pattern { kNone, kComputed };
  int64_t AttentionCall(int64_t token_count, Pattern pattern) const;
  // Of the masks of a run that hides keys.
  int64_t HidingMasks(int64_t token_count) const;
  // Of the keys and values of so many positions in all layers, kept for a run
  // that generates.
  int64_t KeysAndValues(int64_t token_count) const;
  // Of what libtorch keeps of a pass over so many tokens for its gradients.
  int64_t Graph(int64_t token_count, Attention attention) const;
  // Of one block of a logit lens.
  int64_t LensBlock() const;

 private:
  int64_t LayerGraphPerToken() const;

  const ModelSpec& spec_;
  const Numerics numerics_;
  // Bytes of an element as the model computes.
  const int64_t b_;
  // Elements of a token's queries, and of its keys.
  const int64_t queries_;
  const int64_t keys_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_MEMORY_FORWARD_BYTES_H_
