// A forward that libtorch records, and the gradients that come of it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_GRADIENT_TAPE_H_
#define PHITAP_SERVER_TRACE_GRADIENT_TAPE_H_

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "server/model/hooks.h"
#include "server/plan/program.h"
#include "server/trace/run_pass.h"
#include "server/trace/tracer.h"

namespace phitap {

// Lets a tracer do its work, makes the token embeddings the leaf of the graph
// and keeps the values, as the tracer leaves them, that gradients are asked
// for. Autograd must be on during the forward. Not thread-safe; tracer and pass
// outlive it.
class GradientTape final : public Hooks {
 public:
  GradientTape(Tracer& tracer, const RunPass& pass);

  bool Wants(HookPoint point) const override;
  at::Tensor Visit(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) override;
  bool WantsPattern(HookPoint point, const PatternBlock& block) const override;
  at::Tensor VisitPattern(HookPoint point, const PatternBlock& block,
                          at::Tensor value) override;
  std::vector<int> AfterLayer(int layer, const TokenLayout& layout) override {
    return tracer_.AfterLayer(layer, layout);
  }

  // ∂ metric / ∂ value, float32, of the part that each of the plan's gradient
  // nodes selects, in the order of GradientPass::gradients; zero where the
  // metric does not depend on the value. Frees the graph.
  std::vector<at::Tensor> Gradients(const at::Tensor& metric);

 private:
  struct Point {
    HookPoint point;
    at::Tensor value;
    // Of a [T, …] value; scores and probabilities come in one block.
    TokenLayout::Row lines;
  };

  const RunRead& ReadOf(int gradient) const;
  // −1 where no gradient is asked for there.
  int IndexOf(HookPoint point) const;
  // One for each of `points_`, undefined where the metric does not depend on
  // it.
  std::vector<at::Tensor> WholeGradients(const at::Tensor& metric) const;
  at::Tensor Selected(const Point& point, const at::Tensor& whole,
                      const RunRead& read) const;

  Tracer& tracer_;
  const RunPass& pass_;
  const GradientPass& planned_;
  std::vector<Point> points_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_GRADIENT_TAPE_H_
