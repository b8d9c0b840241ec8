// What the dimensions of a hook point's value are, and how large.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SPEC_DIMENSION_H_
#define PHITAP_SERVER_SPEC_DIMENSION_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/spec/model_spec.h"

namespace phitap {

// kSeq, kQuery and kKey depend on the prompt; kPair is [batch, seq] as a value.
enum class Dimension {
  kSeq,
  kQuery,
  kKey,
  kHiddenSize,
  kNumHeads,
  kNumKvHeads,
  kHeadDim,
  kQkvWidth,
  kIntermediateSize,
  kGateUpWidth,
  kVocabSize,
  kRotaryDims,
  kPair,
};

// "seq", "hidden_size", …
absl::string_view Name(Dimension dimension);

// Whether its size is the number of tokens.
bool DependsOnPrompt(Dimension dimension);

// Size in a prompt of `token_count` tokens.
int64_t SizeOf(Dimension dimension, const ModelSpec& spec, int64_t token_count);

}  // namespace phitap

#endif  // PHITAP_SERVER_SPEC_DIMENSION_H_
