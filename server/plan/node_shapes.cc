#include "server/plan/node_shapes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

struct FunctionEntry {
  absl::string_view name;
  int arity;
};

// Indexed by Function.
constexpr FunctionEntry kFunctions[] = {
    {"add", 2},     {"subtract", 2},  {"multiply", 2}, {"divide", 2},
    {"maximum", 2}, {"minimum", 2},   {"negate", 1},   {"absolute", 1},
    {"exp", 1},     {"log", 1},       {"sqrt", 1},     {"rsqrt", 1},
    {"relu", 1},    {"silu", 1},      {"gelu", 1},     {"sigmoid", 1},
    {"tanh", 1},    {"jump_relu", 2}, {"less", 2},     {"less_equal", 2},
    {"equal", 2},   {"and", 2},       {"or", 2},       {"not", 1},
    {"where", 3}};
static_assert(std::size(kFunctions) ==
              static_cast<size_t>(Function::kWhere) + 1);

std::string ShapesText(const std::vector<Shape>& shapes) {
  return absl::StrJoin(shapes, " and ", [](std::string* out, const Shape& s) {
    absl::StrAppend(out, ShapeText(s));
  });
}

// Finds the shape of one operation's value.
class ShapeRule {
 public:
  ShapeRule(const std::vector<Shape>& inputs, const ModelSpec& spec,
            absl::string_view field)
      : inputs_(inputs), spec_(spec), field_(field) {}

  absl::StatusOr<Shape> operator()(FunctionOp& op) const {
    const absl::string_view name = Name(op.function);
    RETURN_IF_ERROR(CheckCount(ArityOf(op.function), name));
    Shape shape;
    for (const Shape& input : inputs_) {
      ASSIGN_OR_RETURN(shape, Broadcast(shape, input, name));
    }
    return shape;
  }

  absl::StatusOr<Shape> operator()(LinearOp& op) const {
    if (inputs_.size() != 2 && inputs_.size() != 3) {
      return WrongCount("linear", "x, weight and perhaps bias");
    }
    const bool out_first = op.weight == LinearOp::Weight::kOutIn;
    const Shape& x = inputs_[0];
    const Shape& weight = inputs_[1];
    const size_t in = out_first ? 1 : 0;
    if (weight.size() != 2 || x.empty() || x.back() != weight[in]) {
      return Misfit("linear",
                    absl::StrCat("x [..., in] and weight ",
                                 out_first ? "[out, in]" : "[in, out]"));
    }
    const int64_t out = weight[1 - in];
    if (inputs_.size() == 3 && inputs_[2] != Shape{out}) {
      return Misfit("linear", absl::StrCat("a bias [", out, "]"));
    }
    return WithLast(x, out);
  }

  absl::StatusOr<Shape> operator()(DotOp&) const {
    RETURN_IF_ERROR(CheckCount(2, "dot"));
    ASSIGN_OR_RETURN(Shape shape, Broadcast(inputs_[0], inputs_[1], "dot"));
    if (shape.empty()) return Misfit("dot", "vectors: a last dimension");
    return WithLast(std::move(shape), 1);
  }

  absl::StatusOr<Shape> operator()(ReduceOp& op) const {
    RETURN_IF_ERROR(CheckCount(1, "reduce"));
    const Shape& x = inputs_[0];
    RETURN_IF_ERROR(ResolveDimensions(op.dimensions, "reduce"));
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
    RETURN_IF_ERROR(CheckCount(1, "softmax"));
    if (inputs_[0].empty()) return Misfit("softmax", "a last dimension");
    return inputs_[0];
  }

  absl::StatusOr<Shape> operator()(ClampOp& op) const {
    RETURN_IF_ERROR(CheckCount(1, "clamp"));
    if (!op.low.has_value() && !op.high.has_value()) {
      return Invalid("clamp has neither low nor high", "at least one of them");
    }
    for (const std::optional<double>& bound : {op.low, op.high}) {
      if (bound.has_value() && !std::isfinite(*bound)) {
        return Invalid(absl::StrCat("a bound is ", *bound),
                       "finite numbers; unset for no bound");
      }
    }
    if (op.low.has_value() && op.high.has_value() && *op.low > *op.high) {
      return Invalid(absl::StrCat("low ", *op.low, " is above high ", *op.high),
                     "low at most high");
    }
    return inputs_[0];
  }

  absl::StatusOr<Shape> operator()(TopKOp& op) const {
    RETURN_IF_ERROR(CheckK(op.k, "top_k"));
    return WithLast(inputs_[0], op.k);
  }

  absl::StatusOr<Shape> operator()(TopKActivationOp& op) const {
    RETURN_IF_ERROR(CheckK(op.k, "top_k"));
    return inputs_[0];
  }

  absl::StatusOr<Shape> operator()(GatherOp& op) const {
    if (op.indices.has_value()) {
      RETURN_IF_ERROR(CheckCount(1, "gather with indices"));
      ASSIGN_OR_RETURN(const int64_t size,
                       ResolveDimension(op.dimension, "gather"));
      RETURN_IF_ERROR(CheckIndices(*op.indices, size, "gather"));
      return WithSize(op.dimension, static_cast<int64_t>(op.indices->size()));
    }
    RETURN_IF_ERROR(CheckCount(2, "gather without indices"));
    RETURN_IF_ERROR(ResolveDimension(op.dimension, "gather").status());
    const Shape& indices = inputs_[1];
    if (indices.size() > 1) {
      return Misfit("gather", "indices [m] or one number");
    }
    return WithSize(op.dimension, indices.empty() ? 1 : indices[0]);
  }

  absl::StatusOr<Shape> operator()(ScatterOp& op) const {
    RETURN_IF_ERROR(CheckCount(2, "scatter"));
    ASSIGN_OR_RETURN(const int64_t size,
                     ResolveDimension(op.dimension, "scatter"));
    RETURN_IF_ERROR(CheckIndices(op.indices, size, "scatter"));
    std::vector<int64_t> sorted = op.indices;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
      return Invalid(absl::StrCat("scatter names index ", *twice, " twice"),
                     "each index at most once");
    }
    const Shape part =
        WithSize(op.dimension, static_cast<int64_t>(op.indices.size()));
    if (!BroadcastsTo(inputs_[1], part)) {
      return Misfit("scatter",
                    absl::StrCat("y that broadcasts to ", ShapeText(part)));
    }
    return inputs_[0];
  }

  absl::StatusOr<Shape> operator()(PermuteOp& op) const {
    RETURN_IF_ERROR(CheckCount(1, "permute"));
    RETURN_IF_ERROR(ResolveDimensions(op.dimensions, "permute"));
    const Shape& x = inputs_[0];
    if (op.dimensions.size() != x.size()) {
      return Invalid(absl::StrCat("permute names ", op.dimensions.size(),
                                  " dimensions of ", ShapeText(x)),
                     "each dimension once");
    }
    Shape shape;
    for (int64_t dimension : op.dimensions) shape.push_back(x[dimension]);
    return shape;
  }

  absl::StatusOr<Shape> operator()(ConcatenateOp& op) const {
    if (inputs_.empty()) return WrongCount("concatenate", "at least 1");
    RETURN_IF_ERROR(ResolveDimension(op.dimension, "concatenate").status());
    int64_t size = 0;
    for (const Shape& input : inputs_) {
      if (input.size() != inputs_[0].size()) return UnlikeParts(op.dimension);
      Shape alike = input;
      alike[op.dimension] = inputs_[0][op.dimension];
      if (alike != inputs_[0]) return UnlikeParts(op.dimension);
      size += input[op.dimension];
    }
    return WithSize(op.dimension, size);
  }

  absl::StatusOr<Shape> operator()(UnembedOp&) const {
    RETURN_IF_ERROR(CheckCount(1, "unembed"));
    if (inputs_[0].empty() || inputs_[0].back() != spec_.hidden_size) {
      return Misfit("unembed", absl::StrCat("x [..., ", spec_.hidden_size,
                                            "], the model's hidden_size"));
    }
    return WithLast(inputs_[0], spec_.vocab_size);
  }

  absl::StatusOr<Shape> operator()(LatchOp&) const {
    RETURN_IF_ERROR(CheckCount(1, "latch"));
    return Shape();
  }

  absl::StatusOr<Shape> operator()(RoundOp& op) const {
    RETURN_IF_ERROR(CheckCount(1, "round"));
    if (op.dtype != DType::kF32 && op.dtype != DType::kF16 &&
        op.dtype != DType::kBF16) {
      return Invalid(absl::StrCat("rounds to ", phitap::Name(op.dtype)),
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
  absl::Status Invalid(std::string problem, std::string valid) const {
    return InvalidField({.field = std::string(field_),
                         .problem = std::move(problem),
                         .valid = std::move(valid)});
  }
  absl::Status Misfit(absl::string_view what, std::string valid) const {
    return Invalid(absl::StrCat(what, " of ", ShapesText(inputs_)),
                   std::move(valid));
  }
  absl::Status WrongCount(absl::string_view what,
                          absl::string_view valid) const {
    return Invalid(absl::StrCat(what, " with ", inputs_.size(), " inputs"),
                   std::string(valid));
  }
  absl::Status CheckCount(size_t count, absl::string_view what) const {
    if (inputs_.size() == count) return absl::OkStatus();
    return WrongCount(what, absl::StrCat(count));
  }
  absl::Status UnlikeParts(int64_t dimension) const {
    return Misfit("concatenate",
                  absl::StrCat("shapes equal but for dimension ", dimension));
  }

  absl::StatusOr<Shape> Broadcast(const Shape& a, const Shape& b,
                                  absl::string_view what) const {
    std::optional<Shape> both = BroadcastShape(a, b);
    if (both.has_value()) return *std::move(both);
    return Misfit(what, "shapes that broadcast as in NumPy");
  }

  // Makes `dimension` of the first input count from the start; its size.
  absl::StatusOr<int64_t> ResolveDimension(int64_t& dimension,
                                           absl::string_view what) const {
    const int64_t rank = static_cast<int64_t>(inputs_[0].size());
    if (dimension < -rank || dimension >= rank) {
      return Invalid(absl::StrCat(what, " along dimension ", dimension, " of ",
                                  ShapeText(inputs_[0])),
                     rank == 0 ? "a value with dimensions"
                               : absl::StrCat(-rank, " to ", rank - 1));
    }
    if (dimension < 0) dimension += rank;
    return inputs_[0][dimension];
  }
  absl::Status ResolveDimensions(std::vector<int64_t>& dimensions,
                                 absl::string_view what) const {
    std::vector<bool> seen(inputs_[0].size());
    for (int64_t& dimension : dimensions) {
      RETURN_IF_ERROR(ResolveDimension(dimension, what).status());
      if (seen[dimension]) {
        return Invalid(
            absl::StrCat(what, " names dimension ", dimension, " twice"),
            "each dimension at most once");
      }
      seen[dimension] = true;
    }
    return absl::OkStatus();
  }

  absl::Status CheckIndices(const std::vector<int64_t>& indices, int64_t size,
                            absl::string_view what) const {
    if (indices.empty()) {
      return Invalid(absl::StrCat(what, " selects nothing"),
                     "at least one index");
    }
    for (int64_t index : indices) {
      if (index >= 0 && index < size) continue;
      return Invalid(absl::StrCat(what, " at index ", index, " of ",
                                  ShapeText(inputs_[0])),
                     absl::StrCat("0 to ", size - 1));
    }
    return absl::OkStatus();
  }
  absl::Status CheckK(int64_t k, absl::string_view what) const {
    RETURN_IF_ERROR(CheckCount(1, what));
    if (inputs_[0].empty()) return Misfit(what, "a last dimension");
    if (k >= 1 && k <= inputs_[0].back()) return absl::OkStatus();
    return Invalid(
        absl::StrCat(what, " with k = ", k, " of ", ShapeText(inputs_[0])),
        absl::StrCat("1 to ", inputs_[0].back()));
  }

  Shape WithSize(int64_t dimension, int64_t size) const {
    Shape shape = inputs_[0];
    shape[dimension] = size;
    return shape;
  }
  static Shape WithLast(Shape shape, int64_t size) {
    shape.back() = size;
    return shape;
  }

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

int ArityOf(Function function) {
  return kFunctions[static_cast<size_t>(function)].arity;
}

absl::string_view Name(Function function) {
  return kFunctions[static_cast<size_t>(function)].name;
}

}  // namespace phitap
