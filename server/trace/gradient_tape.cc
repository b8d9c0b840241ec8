#include "server/trace/gradient_tape.h"

#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <variant>

#include "server/trace/pattern_capture.h"
#include "server/trace/select.h"

namespace phitap {
namespace {

constexpr HookPoint kLeaf = {.hook = Hook::kTokenEmbeddings};

}  // namespace

GradientTape::GradientTape(Tracer& tracer, const RunPass& pass)
    : tracer_(tracer),
      pass_(pass),
      planned_(pass.plan().gradient_passes[pass.wave_run.gradient_pass]) {
  for (const int gradient : planned_.gradients) {
    const HookPoint point = ReadOf(gradient).read_at;
    if (IndexOf(point) < 0) points_.push_back({.point = point});
  }
}

const RunRead& GradientTape::ReadOf(int gradient) const {
  return std::get<GradientValue>(pass_.plan().nodes[gradient].operation)
      .with_respect_to;
}

int GradientTape::IndexOf(HookPoint point) const {
  for (size_t i = 0; i < points_.size(); ++i) {
    if (points_[i].point == point) return static_cast<int>(i);
  }
  return -1;
}

bool GradientTape::Wants(HookPoint point) const {
  return point == kLeaf || IndexOf(point) >= 0 || tracer_.Wants(point);
}

at::Tensor GradientTape::Visit(HookPoint point, at::Tensor value,
                               const TokenLayout& layout) {
  if (tracer_.Wants(point)) {
    value = tracer_.Visit(point, std::move(value), layout);
  }
  if (point == kLeaf) value = value.detach().requires_grad_();
  if (const int index = IndexOf(point); index >= 0) {
    points_[index].value = value;
    points_[index].lines = layout.rows.front();
  }
  return value;
}

bool GradientTape::WantsPattern(HookPoint point,
                                const PatternBlock& block) const {
  return IndexOf(point) >= 0 || tracer_.WantsPattern(point, block);
}

at::Tensor GradientTape::VisitPattern(HookPoint point,
                                      const PatternBlock& block,
                                      at::Tensor value) {
  if (tracer_.WantsPattern(point, block)) {
    value = tracer_.VisitPattern(point, block, std::move(value));
  }
  if (const int index = IndexOf(point); index >= 0) {
    points_[index].value = value;
  }
  return value;
}

std::vector<at::Tensor> GradientTape::WholeGradients(
    const at::Tensor& metric) const {
  std::vector<at::Tensor> values;
  std::vector<size_t> places;
  for (size_t i = 0; i < points_.size(); ++i) {
    const at::Tensor& value = points_[i].value;
    if (!value.defined() || !value.requires_grad()) continue;
    values.push_back(value);
    places.push_back(i);
  }
  std::vector<at::Tensor> wholes(points_.size());
  if (!metric.requires_grad() || values.empty()) return wholes;
  const std::vector<at::Tensor> gradients =
      torch::autograd::grad({metric}, values, /*grad_outputs=*/{},
                            /*retain_graph=*/false, /*create_graph=*/false,
                            /*allow_unused=*/true);
  for (size_t i = 0; i < places.size(); ++i) wholes[places[i]] = gradients[i];
  return wholes;
}

std::vector<at::Tensor> GradientTape::Gradients(const at::Tensor& metric) {
  const std::vector<at::Tensor> wholes = WholeGradients(metric);
  std::vector<at::Tensor> gradients;
  for (const int gradient : planned_.gradients) {
    const RunRead& read = ReadOf(gradient);
    const int index = IndexOf(read.read_at);
    gradients.push_back(
        wholes[index].defined()
            ? Selected(points_[index], wholes[index].to(at::kFloat), read)
            : at::zeros(pass_.plan().nodes[gradient].shape, at::kFloat));
  }
  points_.clear();
  return gradients;
}

at::Tensor GradientTape::Selected(const Point& point, const at::Tensor& whole,
                                  const RunRead& read) const {
  if (!IsPattern(read.point.hook)) {
    return SelectRow(whole, point.lines, read.point.hook, read.selection)
        .clone();
  }
  PatternCapture part(Hook::kAttentionProbabilities, read.selection,
                      whole.size(2));
  part.Add({.query_count = whole.size(1)}, whole);
  return part.Take();
}

}  // namespace phitap
