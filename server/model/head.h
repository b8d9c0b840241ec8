// The end of the forward, for the lines that anything asks it of.
//
//   logits = (norm · x / √(mean(x²) + ε)) W_headᵀ
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_HEAD_H_
#define PHITAP_SERVER_MODEL_HEAD_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "server/model/pass.h"
#include "server/model/wave.h"
#include "server/model/weights.h"

namespace phitap {

// Gathers what rows leave behind as they end, then computes it in one go.
class Head {
 public:
  void Take(Departure departure);
  // Final norm, head and next-token probabilities, shown.
  void Finish(const Weights& weights, const Pass& pass) const;

 private:
  std::vector<at::Tensor> lines_;
  std::vector<ActiveRow> rows_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_HEAD_H_
