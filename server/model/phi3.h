// The Phi-3 family's forward pass over a ragged batch.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_PHI3_H_
#define PHITAP_SERVER_MODEL_PHI3_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/checkpoint/checkpoint.h"
#include "server/model/forward.h"
#include "server/model/hooks.h"
#include "server/model/row_rule.h"
#include "server/model/weight_packing.h"
#include "server/model/weight_progress.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Weights and the forward. Const and shared by all forwards after Load; every
// method must be called on the compute thread.
class Phi3 {
 public:
  // Weights are used in place where `dtype` is the checkpoint's. Errors: what
  // libtorch's become (see torch_guard.h), and those of `on_progress`.
  static absl::StatusOr<std::unique_ptr<Phi3>> Load(
      std::shared_ptr<const Checkpoint> checkpoint, DType dtype,
      WeightPacking packing = WeightPacking::kNone,
      const WeightProgress& on_progress = nullptr);
  ~Phi3();

  // Runs the rows as far as each asks, showing every value to `hooks`. In
  // kTransformers there is one row. May throw c10::Error.
  void Forward(absl::Span<const ForwardRow> rows, const ForwardOptions& options,
               Hooks& hooks) const;

  // The same, a layer at a time; everything it is given, and the model, outlive
  // it.
  std::unique_ptr<SteppedForward> Begin(absl::Span<const ForwardRow> rows,
                                        const ForwardOptions& options,
                                        Hooks& hooks) const;

  // Final norm (if asked for) and head over [n, D] values: float32 logits [n,
  // V], the bits independent of n. For the logit lens.
  enum class LensNorm { kApply, kSkip };
  at::Tensor LensLogits(const at::Tensor& residual, LensNorm norm) const;
  // The same of [..., D] by the library calls of transformers, in the way that
  // libtorch can differentiate.
  at::Tensor LibraryLogits(const at::Tensor& residual, LensNorm norm) const;

  // Measures which row rule holds for these weights, at most a second; Forward
  // uses it from then on. Frees what is packed where it does not give the bits
  // of what is stored.
  RowRule MeasureRowRule();
  // In place of a measurement: one that was made before.
  void SetRowRule(const RowRule& rule);
  const RowRule& row_rule() const;
  // Whether its matrices are packed.
  bool packed() const;
  const ModelSpec& spec() const;
  // Element type that it computes in.
  DType dtype() const;

 private:
  struct Parts;
  explicit Phi3(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_PHI3_H_
