// Attention as transformers calls it: integrations/sdpa_attention.py and
// eager_attention_forward, with the masks of masking_utils.py and, where the
// row has a cache, what cache_utils.py puts together.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_LIBRARY_ATTENTION_H_
#define PHITAP_SERVER_MODEL_LIBRARY_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "server/model/arithmetic.h"
#include "server/model/forward.h"
#include "server/model/pass.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Serves the layers of one forward of one row; not thread-safe.
class LibraryAttention {
 public:
  LibraryAttention(const ModelSpec& spec, ForwardAttention attention)
      : spec_(spec), attention_(attention) {}

  // See Arithmetic::Attend.
  at::Tensor Attend(const AttentionInputs& inputs, const Pass& pass);

 private:
  // T queries against K keys, the positions before them that are kept and their
  // own.
  struct Heads {
    at::Tensor queries;     // [1, H, T, E]
    at::Tensor keys;        // [1, KV, K, E]
    at::Tensor values;      // [1, KV, K, E]
    int64_t first_key = 0;  // its position
  };

  // What the layer's cache returns to `own` and holds from then on.
  Heads Update(Heads own, const ActiveRow& row, int layer) const;
  // softmax by hand, shown step by step: [1, H, T, K].
  at::Tensor Probabilities(const Heads& heads, const Pass& pass);
  at::Tensor Eager(const Heads& heads, const at::Tensor& probabilities) const;
  at::Tensor Sdpa(const Heads& heads, const ActiveRow& row);

  bool NeedsMask(const Heads& heads, const ActiveRow& row) const;
  // True where the query sees the key, [1, 1, T, K]; made once.
  const at::Tensor& Visible(const Heads& heads, const ActiveRow& row);
  int64_t groups() const { return spec_.num_heads / spec_.num_kv_heads; }
  double scale() const;

  const ModelSpec& spec_;
  const ForwardAttention attention_;
  at::Tensor visible_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_LIBRARY_ATTENTION_H_
