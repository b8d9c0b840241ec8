// Attention as transformers calls it: integrations/sdpa_attention.py and
// eager_attention_forward, with the masks of masking_utils.py.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_LIBRARY_ATTENTION_H_
#define PHITAP_SERVER_MODEL_LIBRARY_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "server/model/forward.h"
#include "server/model/numerics.h"
#include "server/model/pass.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Serves the layers of one forward of one row; not thread-safe.
class LibraryAttention {
 public:
  LibraryAttention(const ModelSpec& spec, ForwardAttention attention)
      : spec_(spec), attention_(attention) {}

  // See Numerics::Attend.
  at::Tensor Attend(const AttentionInputs& inputs, const Pass& pass);

 private:
  // Each [1, heads, T, E].
  struct Heads {
    at::Tensor queries;
    at::Tensor keys;
    at::Tensor values;
  };

  // softmax by hand, shown step by step: [1, H, T, T].
  at::Tensor Probabilities(const Heads& heads, const Pass& pass);
  at::Tensor Eager(const Heads& heads, const at::Tensor& probabilities) const;
  at::Tensor Sdpa(const Heads& heads, const ForwardRow& row);

  // True where the query sees the key, [1, 1, T, T]; made once.
  const at::Tensor& Visible(const ForwardRow& row);
  int64_t groups() const { return spec_.num_heads / spec_.num_kv_heads; }
  double scale() const;

  const ModelSpec& spec_;
  const ForwardAttention attention_;
  at::Tensor visible_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_LIBRARY_ATTENTION_H_
