#include "server/plan/program/node_shapes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/program/functions.h"
#include "server/plan/program/operation_inputs.h"

namespace phitap {
namespace {

Shape WithLast(Shape shape, int64_t size) {
  shape.back() = size;
  return shape;
}

// Finds the shape of one operation's value.
class ShapeRule {
 public:
  ShapeRule(const std::vector<Shape>& inputs, const ModelSpec& spec,
            absl::string_view field)
      : in_(inputs, field), inputs_(inputs), spec_(spec), field_(field) {}

  absl::StatusOr<Shape> operator()(FunctionOp& op) const {
    const absl::string_view name = Name(op.function);
    RETURN_IF_ERROR(in_.CheckCount(ArityOf(op.function), name));
    Shape shape;
    for (const Shape& input : inputs_) {
      ASSIGN_OR_RETURN(shape, in_.Broadcast(shape, input, name));
    }
    return shape;
  }

  absl::StatusOr<Shape> operator()(LinearOp& op) const {
    if (inputs_.size() != 2 && inputs_.size() != 3) {
      return in_.WrongCount("linear", "x, weight and perhaps bias");
    }
    const bool out_first = op.weight == LinearOp::Weight::kOutIn;
    const Shape& x = inputs_[0];
    const Shape& weight = inputs_[1];
    const size_t in = out_first ? 1 : 0;
    if (weight.size() != 2 || x.empty() || x.back() != weight[in]) {
      return in_.Misfit("linear",
                        absl::StrCat("x [..., in] and weight ",
                                     out_first ? "[out, in]" : "[in, out]"));
    }
    const int64_t out = weight[1 - in];
    if (inputs_.size() == 3 && inputs_[2] != Shape{out}) {
      return in_.Misfit("linear", absl::StrCat("a bias [", out, "]"));
    }
    return WithLast(x, out);
  }

  absl::StatusOr<Shape> operator()(DotOp&) const {
    RETURN_IF_ERROR(in_.CheckCount(2, "dot"));
    ASSIGN_OR_RETURN(Shape shape, in_.Broadcast(inputs_[0], inputs_[1], "dot"));
    if (shape.empty()) return in_.Misfit("dot", "vectors: a last dimension");
    return WithLast(std::move(shape), 1);
  }

  absl::StatusOr<Shape> operator()(ReduceOp& op) const {
    RETURN_IF_ERROR(in_.CheckCount(1, "reduce"));
    const Shape& x = inputs_[0];
    RETURN_IF_ERROR(in_.ResolveDimensions(op.dimensions, "reduce"));
    std::sort(op.dimensions.begin(), op.dimensions.end());
    Shape shape;
    for (size_t i = 0; i < x.size(); ++i) {
      const bool goes =
          op.dimensions.empty() ||
          std::binary_search(op.dimensions.begin(), op.dimensions.end(), i);
      if (!goes) shape.push_back(x[i]);
      if (goes && op.reduced == ReduceOp::Dimensions::kKeep) shape.push_back(1);
    }
    return shape;
  }

  absl::StatusOr<Shape> operator()(SoftmaxOp&) const {
    RETURN_IF_ERROR(in_.CheckCount(1, "softmax"));
    if (inputs_[0].empty()) return in_.Misfit("softmax", "a last dimension");
    return inputs_[0];
  }

  absl::StatusOr<Shape> operator()(ClampOp& op) const {
    RETURN_IF_ERROR(in_.CheckCount(1, "clamp"));
    if (!op.low.has_value() && !op.high.has_value()) {
      return in_.Invalid("clamp has neither low nor high",
                         "at least one of them");
    }
    for (const std::optional<double>& bound : {op.low, op.high}) {
      if (bound.has_value() && !std::isfinite(*bound)) {
        return in_.Invalid(absl::StrCat("a bound is ", *bound),
                           "finite numbers; unset for no bound");
      }
    }
    if (op.low.has_value() && op.high.has_value() && *op.low > *op.high) {
      return in_.Invalid(
          absl::StrCat("low ", *op.low, " is above high ", *op.high),
          "low at most high");
    }
    return inputs_[0];
  }

  absl::StatusOr<Shape> operator()(TopKOp& op) const {
    RETURN_IF_ERROR(in_.CheckK(op.k, "top_k"));
    return WithLast(inputs_[0], op.k);
  }

  absl::StatusOr<Shape> operator()(TopKActivationOp& op) const {
    RETURN_IF_ERROR(in_.CheckK(op.k, "top_k"));
    return inputs_[0];
  }

  absl::StatusOr<Shape> operator()(GatherOp& op) const {
    if (op.indices.has_value()) {
      RETURN_IF_ERROR(in_.CheckCount(1, "gather with indices"));
      ASSIGN_OR_RETURN(const int64_t size,
                       in_.ResolveDimension(op.dimension, "gather"));
      RETURN_IF_ERROR(in_.CheckIndices(*op.indices, size, "gather"));
      return in_.WithSize(op.dimension,
                          static_cast<int64_t>(op.indices->size()));
    }
    RETURN_IF_ERROR(in_.CheckCount(2, "gather without indices"));
    RETURN_IF_ERROR(in_.ResolveDimension(op.dimension, "gather").status());
    const Shape& indices = inputs_[1];
    if (indices.size() > 1) {
      return in_.Misfit("gather", "indices [m] or one number");
    }
    return in_.WithSize(op.dimension, indices.empty() ? 1 : indices[0]);
  }

  absl::StatusOr<Shape> operator()(ScatterOp& op) const {
    RETURN_IF_ERROR(in_.CheckCount(2, "scatter"));
    ASSIGN_OR_RETURN(const int64_t size,
                     in_.ResolveDimension(op.dimension, "scatter"));
    RETURN_IF_ERROR(in_.CheckIndices(op.indices, size, "scatter"));
    std::vector<int64_t> sorted = op.indices;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
      return in_.Invalid(absl::StrCat("scatter names index ", *twice, " twice"),
                         "each index at most once");
    }
    const Shape part =
        in_.WithSize(op.dimension, static_cast<int64_t>(op.indices.size()));
    if (!BroadcastsTo(inputs_[1], part)) {
      return in_.Misfit("scatter",
                        absl::StrCat("y that broadcasts to ", ShapeText(part)));
    }
    return inputs_[0];
  }

  absl::StatusOr<Shape> operator()(PermuteOp& op) const {
    RETURN_IF_ERROR(in_.CheckCount(1, "permute"));
    RETURN_IF_ERROR(in_.ResolveDimensions(op.dimensions, "permute"));
    const Shape& x = inputs_[0];
    if (op.dimensions.size() != x.size()) {
      return in_.Invalid(absl::StrCat("permute names ", op.dimensions.size(),
                                      " dimensions of ", ShapeText(x)),
                         "each dimension once");
    }
    Shape shape;
    for (int64_t dimension : op.dimensions) shape.push_back(x[dimension]);
    return shape;
  }

  absl::StatusOr<Shape> operator()(ConcatenateOp& op) const {
    if (inputs_.empty()) return in_.WrongCount("concatenate", "at least 1");
    RETURN_IF_ERROR(in_.ResolveDimension(op.dimension, "concatenate").status());
    int64_t size = 0;
    for (const Shape& input : inputs_) {
      if (input.size() != inputs_[0].size())
        return in_.UnlikeParts(op.dimension);
      Shape alike = input;
      alike[op.dimension] = inputs_[0][op.dimension];
      if (alike != inputs_[0]) return in_.UnlikeParts(op.dimension);
      size += input[op.dimension];
    }
    return in_.WithSize(op.dimension, size);
  }

  absl::StatusOr<Shape> operator()(UnembedOp&) const {
    RETURN_IF_ERROR(in_.CheckCount(1, "unembed"));
    if (inputs_[0].empty() || inputs_[0].back() != spec_.hidden_size) {
      return in_.Misfit("unembed", absl::StrCat("x [..., ", spec_.hidden_size,
                                                "], the model's hidden_size"));
    }
    return WithLast(inputs_[0], spec_.vocab_size);
  }

  absl::StatusOr<Shape> operator()(LatchOp&) const {
    RETURN_IF_ERROR(in_.CheckCount(1, "latch"));
    return Shape();
  }

  absl::StatusOr<Shape> operator()(RoundOp& op) const {
    RETURN_IF_ERROR(in_.CheckCount(1, "round"));
    if (op.dtype != DType::kF32 && op.dtype != DType::kF16 &&
        op.dtype != DType::kBF16) {
      return in_.Invalid(absl::StrCat("rounds to ", phitap::Name(op.dtype)),
                         "float32, float16 or bfloat16");
    }
    return inputs_[0];
  }

  template <typename Source>
  absl::StatusOr<Shape> operator()(Source&) const {
    return absl::InternalError(
        absl::StrCat(field_, ": its shape does not follow from its inputs"));
  }

 private:
  const OperationInputs in_;
  const std::vector<Shape>& inputs_;
  const ModelSpec& spec_;
  absl::string_view field_;
};

}  // namespace

absl::StatusOr<Shape> ResolveOperation(Operation& operation,
                                       const std::vector<Shape>& inputs,
                                       const ModelSpec& spec,
                                       absl::string_view field) {
  return std::visit(ShapeRule(inputs, spec, field), operation);
}

absl::StatusOr<Shape> ReshapedTo(const Shape& from, const Shape& to,
                                 absl::string_view field) {
  const int64_t elements = SaturatingElements(from);
  Shape shape = to;
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open != shape.end()) *open = 1;
  const bool valid =
      std::all_of(shape.begin(), shape.end(), [](int64_t s) { return s >= 1; });
  int64_t known = valid ? SaturatingElements(shape) : 0;
  if (valid && open != shape.end() && elements % known == 0) {
    *open = elements / known;
    known = elements;
  }
  if (known == elements) return shape;
  return InvalidField(
      {.field = std::string(field),
       .problem =
           absl::StrCat("reshape of ", ShapeText(from), " to ", ShapeText(to)),
       .valid = absl::StrCat("sizes of at least 1 that multiply to ", elements,
                             ", at most one of them -1 for what is left")});
}

}  // namespace phitap
