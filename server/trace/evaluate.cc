// SPDX-License-Identifier: Apache-2.0
#include "server/trace/evaluate.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/round.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <variant>
#include <vector>

#include "server/model/weights.h"
#include "server/trace/evaluate_function.h"
#include "server/trace/line_math.h"
#include "server/trace/reduce.h"

namespace phitap {
namespace {

at::Tensor Wide(const at::Tensor& x) { return x.to(at::kFloat); }

int64_t Product(at::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1},
                         std::multiplies<>());
}

at::Tensor ReducedAs(ReduceOp::Kind kind, const at::Tensor& x,
                     at::IntArrayRef dimensions) {
  switch (kind) {
    case ReduceOp::Kind::kSum:
      return at::sum(x, dimensions, /*keepdim=*/true);
    case ReduceOp::Kind::kMean:
      return at::mean(x, dimensions, /*keepdim=*/true);
    case ReduceOp::Kind::kMax:
      return at::amax(x, dimensions, /*keepdim=*/true);
    case ReduceOp::Kind::kMin:
      return at::amin(x, dimensions, /*keepdim=*/true);
    case ReduceOp::Kind::kNorm:
      return at::linalg_vector_norm(x, 2, dimensions, /*keepdim=*/true);
  }
  TORCH_CHECK(false, "no reduction ", static_cast<int>(kind));
}

// The shape that `target` has where the input is `actual` instead of `planned`:
// one dimension is smaller, and so is the one of `target` that holds it.
std::vector<int64_t> ShapeInThisPass(const ProgramNode& node,
                                     at::IntArrayRef planned,
                                     at::IntArrayRef actual) {
  std::vector<int64_t> shape = node.shape;
  if (planned == actual) return shape;
  int64_t changed = -1;
  int64_t changes = planned.size() == actual.size() ? 0 : 2;
  for (size_t d = 0; d < planned.size() && changes < 2; ++d) {
    if (planned[d] == actual[d]) continue;
    changed = static_cast<int64_t>(d);
    ++changes;
  }
  const int64_t inner =
      changes == 1 ? Product(planned.slice(changed + 1)) : int64_t{0};
  for (size_t d = 0; d < shape.size() && changes == 1; ++d) {
    const int64_t inner_here = Product(at::IntArrayRef(shape).slice(d + 1));
    if (inner % inner_here != 0 ||
        inner_here * shape[d] % (inner * planned[changed]) != 0) {
      continue;
    }
    shape[d] = shape[d] / planned[changed] * actual[changed];
    return shape;
  }
  TORCH_CHECK_VALUE(false, node.field, ": cannot reshape ", actual,
                    ", part of ", planned, ", to part of ",
                    at::IntArrayRef(node.shape),
                    "; valid: a reshape that keeps the positions together");
}

// The indices that an input holds, checked.
at::Tensor IndicesOf(const ProgramNode& node, const at::Tensor& input,
                     int64_t size) {
  const at::Tensor numbers = at::round(Wide(input)).reshape({-1}).contiguous();
  const float* const first = numbers.const_data_ptr<float>();
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    // NaN is not below either.
    const bool in_range = first[i] >= 0 && first[i] < static_cast<float>(size);
    TORCH_CHECK_VALUE(in_range, node.field, ": gather at index ", first[i],
                      "; valid: 0 to ", size - 1);
    indices.push_back(static_cast<int64_t>(first[i]));
  }
  return at::tensor(indices);
}

at::Tensor IndicesOf(const ProgramNode& node,
                     const std::vector<int64_t>& indices, int64_t size) {
  for (const int64_t index : indices) {
    TORCH_CHECK_VALUE(index < size, node.field, ": index ", index,
                      " of a part of ", size, "; valid: 0 to ", size - 1);
  }
  return at::tensor(indices);
}

// Computes one node's operation.
class Evaluation {
 public:
  Evaluation(const ProgramNode& node, absl::Span<const at::Tensor> inputs,
             const EvaluationRules& rules)
      : node_(node), inputs_(inputs), rules_(rules) {}

  at::Tensor operator()(const ConstantValue& op) const {
    return TensorOver(op.value);
  }

  at::Tensor operator()(const FunctionOp& op) const {
    std::vector<at::Tensor> wide;
    for (const at::Tensor& input : inputs_) wide.push_back(Wide(input));
    return EvaluateFunction(op.function, wide, rules_.numerics);
  }

  at::Tensor operator()(const LinearOp& op) const {
    const at::Tensor x = Wide(inputs_[0]);
    const at::Tensor weight = Wide(inputs_[1]);
    const bool out_first = op.weight == LinearOp::Weight::kOutIn;
    at::Tensor y;
    if (causal()) {
      y = LinearLines(x, out_first ? weight : weight.t(),
                      rules_.model.row_rule());
    } else {
      y = out_first ? at::linear(x, weight) : at::matmul(x, weight);
    }
    return inputs_.size() == 3 ? y + Wide(inputs_[2]) : y;
  }

  at::Tensor operator()(const DotOp&) const {
    const at::Tensor products = Wide(inputs_[0]) * Wide(inputs_[1]);
    return Reduced(ReduceOp::Kind::kSum, products, {products.dim() - 1});
  }

  at::Tensor operator()(const ReduceOp& op) const {
    const at::Tensor x = Wide(inputs_[0]);
    const at::Tensor kept = Reduced(op.kind, x, op.dimensions);
    if (op.reduced == ReduceOp::Dimensions::kKeep) return kept;
    if (op.dimensions.empty()) return kept.reshape({});
    return kept.squeeze(op.dimensions);
  }

  at::Tensor operator()(const SoftmaxOp& op) const {
    const at::Tensor x = Wide(inputs_[0]);
    if (op.scale == SoftmaxOp::Scale::kLinear) {
      return causal() ? SoftmaxLines(x) : at::softmax(x, -1);
    }
    return causal() ? LogSoftmaxLines(x) : at::log_softmax(x, -1);
  }

  at::Tensor operator()(const ClampOp& op) const {
    const auto bound = [](const std::optional<double>& number) {
      return number.has_value() ? std::optional<at::Scalar>(*number)
                                : std::nullopt;
    };
    return at::clamp(Wide(inputs_[0]), bound(op.low), bound(op.high));
  }

  at::Tensor operator()(const TopKOp& op) const {
    const Top top = TopOf(Wide(inputs_[0]), op.k);
    return op.part == TopKOp::Part::kValues ? top.values : Wide(top.indices);
  }

  at::Tensor operator()(const TopKActivationOp& op) const {
    const at::Tensor x = Wide(inputs_[0]);
    const at::Tensor largest =
        at::zeros_like(x, at::TensorOptions(at::kBool))
            .scatter(-1, TopOf(x, op.k).indices.to(at::kLong), true);
    return at::where(largest, at::relu(x), at::zeros({}, x.options()));
  }

  at::Tensor operator()(const GatherOp& op) const {
    const at::Tensor& x = inputs_[0];
    const int64_t size = x.size(op.dimension);
    return x.index_select(op.dimension,
                          op.indices.has_value()
                              ? IndicesOf(node_, *op.indices, size)
                              : IndicesOf(node_, inputs_[1], size));
  }

  at::Tensor operator()(const ScatterOp& op) const {
    const std::vector<at::Tensor> alike = OfOneType();
    const at::Tensor indices =
        IndicesOf(node_, op.indices, alike[0].size(op.dimension));
    std::vector<int64_t> part = alike[0].sizes().vec();
    part[op.dimension] = indices.numel();
    return alike[0].index_copy(op.dimension, indices, alike[1].expand(part));
  }

  at::Tensor operator()(const ReshapeOp&) const {
    const at::Tensor& x = inputs_[0];
    if (rules_.nodes.empty()) return x.reshape(node_.shape);
    const std::vector<int64_t>& planned = rules_.nodes[node_.inputs[0]].shape;
    return x.reshape(ShapeInThisPass(node_, planned, x.sizes()));
  }

  at::Tensor operator()(const PermuteOp& op) const {
    return inputs_[0].permute(op.dimensions);
  }

  at::Tensor operator()(const ConcatenateOp& op) const {
    return at::cat(OfOneType(), op.dimension);
  }

  at::Tensor operator()(const UnembedOp& op) const {
    const Phi3& model = rules_.model;
    const auto norm = op.norm == UnembedOp::Norm::kApply
                          ? Phi3::LensNorm::kApply
                          : Phi3::LensNorm::kSkip;
    const at::Tensor x = inputs_[0].to(ScalarTypeOf(model.dtype()));
    if (!causal()) return model.LibraryLogits(x, norm);
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = model.spec().vocab_size;
    return model.LensLogits(x.reshape({-1, x.size(-1)}), norm).reshape(shape);
  }

  at::Tensor operator()(const RoundOp& op) const {
    return Wide(Wide(inputs_[0]).to(ScalarTypeOf(op.dtype)));
  }

  template <typename Source>
  at::Tensor operator()(const Source&) const {
    TORCH_CHECK(false, node_.field, ": not computed from its inputs alone");
  }

 private:
  bool causal() const { return rules_.numerics == ForwardNumerics::kCausal; }

  at::Tensor Reduced(ReduceOp::Kind kind, const at::Tensor& x,
                     at::IntArrayRef dimensions) const {
    if (!causal()) return ReducedAs(kind, x, dimensions);
    return ReduceLines(x, dimensions, [kind](const at::Tensor& lines) {
      return ReducedAs(kind, lines, {1});
    });
  }

  // The inputs, in float32 unless they are of one type.
  std::vector<at::Tensor> OfOneType() const {
    std::vector<at::Tensor> tensors(inputs_.begin(), inputs_.end());
    const bool one = std::all_of(
        tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
          return tensor.scalar_type() == tensors[0].scalar_type();
        });
    if (one) return tensors;
    for (at::Tensor& tensor : tensors) tensor = Wide(tensor);
    return tensors;
  }

  const ProgramNode& node_;
  absl::Span<const at::Tensor> inputs_;
  const EvaluationRules& rules_;
};

}  // namespace

at::Tensor Evaluate(const ProgramNode& node,
                    absl::Span<const at::Tensor> inputs,
                    const EvaluationRules& rules) {
  TORCH_CHECK(rules.graph == ForwardGraph::kNone ||
                  rules.numerics == ForwardNumerics::kTransformers,
              node.field, ": only the library's arithmetic can be recorded");
  return std::visit(Evaluation(node, inputs, rules), node.operation);
}

at::Tensor TensorOver(const HostTensor& value) {
  // libtorch has no tensors of const memory.
  void* const bytes = const_cast<std::byte*>(value.bytes.data());
  return at::from_blob(
      bytes, value.shape,
      [owner = value.owner](void*) mutable { owner.reset(); },
      at::TensorOptions(ScalarTypeOf(value.dtype)));
}

}  // namespace phitap
