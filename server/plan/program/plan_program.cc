#include "server/plan/program/plan_program.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/captures/index_set.h"
#include "server/plan/program/gradient_nodes.h"
#include "server/plan/program/latch_nodes.h"
#include "server/plan/program/program_order.h"
#include "server/plan/program/wire_function.h"
#include "server/plan/wire_type.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

// Makes one node of the caller's program, whose inputs are made.
class NodePlanner {
 public:
  NodePlanner(const PlanParts& parts, const NodeIndex& nodes,
              const v1::Node& node, int index)
      : parts_(parts),
        nodes_(nodes),
        node_(node),
        field_(absl::StrCat("program.nodes[", index, "]")) {}

  absl::StatusOr<int> Plan() {
    for (int i = 0; i < node_.inputs_size(); ++i) {
      ASSIGN_OR_RETURN(inputs_.emplace_back(),
                       nodes_.Find(node_.inputs(i), Path("inputs")));
    }
    const bool is_source =
        node_.operation_case() <= v1::Node::kGradient || node_.has_metric();
    if (node_.operation_case() == v1::Node::OPERATION_NOT_SET) {
      return Invalid(
          field_,
          absl::StrCat("node ", Quoted(node_.name()), " has no operation"),
          "one operation");
    }
    if (!is_source) return PlanOperation();
    RETURN_IF_ERROR(CheckInputCount(0));
    return PlanSource();
  }

 private:
  std::string Path(absl::string_view name) const {
    return absl::StrCat(field_, ".", name);
  }
  static absl::Status Invalid(std::string field, std::string problem,
                              std::string valid) {
    return InvalidField({.field = std::move(field),
                         .problem = std::move(problem),
                         .valid = std::move(valid)});
  }

  absl::StatusOr<int> PlanSource() const {
    switch (node_.operation_case()) {
      case v1::Node::kRead: {
        ASSIGN_OR_RETURN(RunRead read, ReadOf(node_.read(), Path("read")));
        return parts_.builder.AddRead(std::move(read), field_);
      }
      case v1::Node::kTensor: {
        ASSIGN_OR_RETURN(HostTensor tensor,
                         InlineTensor(node_.tensor(), Path("tensor")));
        return parts_.builder.AddConstant(std::move(tensor), field_);
      }
      case v1::Node::kTensorName:
        return AddKeptTensor(parts_, node_.tensor_name(), Path("tensor_name"));
      case v1::Node::kConstant:
        return AddNamedConstant(parts_, node_.constant(), Path("constant"));
      case v1::Node::kNumber:
        return parts_.builder.AddNumber(node_.number(), Path("number"));
      case v1::Node::kNoise:
        return Noise();
      case v1::Node::kGradient:
        return Gradient();
      default:
        return AddMetric(parts_, nodes_, node_.metric(), /*run=*/-1,
                         Path("metric"));
    }
  }

  absl::StatusOr<RunRead> ReadOf(const v1::RunValue& value,
                                 const std::string& path) const {
    return ResolveRunValue(parts_, value, RunValueDefaults(), path);
  }

  absl::StatusOr<int> Noise() const {
    const std::string path = Path("noise.like");
    const v1::RunValue& like = node_.noise().like();
    if (like.read_time() == v1::READ_TIME_BEFORE) {
      return Invalid(path + ".read_time", "noise is not read", "unset");
    }
    ASSIGN_OR_RETURN(RunRead place, ReadOf(like, path));
    return parts_.builder.AddNoise(
        {.seed = node_.noise().seed(), .like = std::move(place)}, {}, field_);
  }

  absl::StatusOr<int> Gradient() const {
    const v1::GradientSource& gradient = node_.gradient();
    const std::string path = Path("gradient.with_respect_to");
    if (gradient.with_respect_to().read_time() == v1::READ_TIME_BEFORE) {
      return Invalid(path + ".read_time",
                     "gradients are taken after the interventions", "unset");
    }
    ASSIGN_OR_RETURN(const int of,
                     nodes_.Find(gradient.of(), Path("gradient.of")));
    ASSIGN_OR_RETURN(RunRead read, ReadOf(gradient.with_respect_to(), path));
    return AddGradientOf(parts_, of, std::move(read), Path("gradient"));
  }

  absl::StatusOr<int> PlanOperation() const {
    switch (node_.operation_case()) {
      case v1::Node::kFunction:
        return PlanFunction();
      case v1::Node::kGather:
        return Gather();
      case v1::Node::kScatter:
        return Scatter();
      case v1::Node::kReshape:
        return Reshape();
      case v1::Node::kEncode:
        RETURN_IF_ERROR(CheckInputCount(1));
        return AddEncode(parts_, node_.encode().dictionary(), inputs_[0],
                         Path("encode.dictionary"));
      case v1::Node::kDecode:
        RETURN_IF_ERROR(CheckInputCount(1));
        return AddDecode(parts_, node_.decode().dictionary(), inputs_[0],
                         Path("decode.dictionary"));
      case v1::Node::kLatch:
        RETURN_IF_ERROR(CheckInputCount(1));
        return AddLatch(parts_, inputs_[0], field_);
      case v1::Node::kReduce:
        return Reduce();
      case v1::Node::kRound:
        return Round();
      default:
        return parts_.builder.Add(PlainOperation(), inputs_, field_);
    }
  }

  // Those whose attributes are taken as they are.
  Operation PlainOperation() const {
    switch (node_.operation_case()) {
      case v1::Node::kLinear:
        return LinearOp();
      case v1::Node::kDot:
        return DotOp();
      case v1::Node::kSoftmax:
        return SoftmaxOp{node_.softmax().log() ? SoftmaxOp::Scale::kLog
                                               : SoftmaxOp::Scale::kLinear};
      case v1::Node::kClamp:
        return Clamp();
      case v1::Node::kTopK:
        return TopKOp{.k = node_.top_k().k(),
                      .part = node_.top_k().indices() ? TopKOp::Part::kIndices
                                                      : TopKOp::Part::kValues};
      case v1::Node::kPermute:
        return PermuteOp{{node_.permute().dimensions().begin(),
                          node_.permute().dimensions().end()}};
      case v1::Node::kConcatenate:
        return ConcatenateOp{node_.concatenate().dimension()};
      default:
        return UnembedOp{node_.unembed().skip_final_norm()
                             ? UnembedOp::Norm::kSkip
                             : UnembedOp::Norm::kApply};
    }
  }

  Operation Clamp() const {
    ClampOp clamp;
    if (node_.clamp().has_low()) clamp.low = node_.clamp().low();
    if (node_.clamp().has_high()) clamp.high = node_.clamp().high();
    return clamp;
  }

  absl::StatusOr<int> PlanFunction() const {
    const std::optional<Function> function = FromWire(node_.function());
    if (function.has_value()) {
      return parts_.builder.Add(FunctionOp{*function}, inputs_, field_);
    }
    return Invalid(Path("function"), v1::Function_Name(node_.function()),
                   "a function, e.g. FUNCTION_ADD");
  }

  absl::StatusOr<int> Reduce() const {
    const std::optional<ReduceOp::Kind> kind = FromWire(node_.reduce().kind());
    if (!kind.has_value()) {
      return Invalid(Path("reduce.kind"),
                     v1::ReduceKind_Name(node_.reduce().kind()),
                     "a kind, e.g. REDUCE_KIND_SUM");
    }
    ReduceOp reduce = {.kind = *kind,
                       .dimensions = {node_.reduce().dimensions().begin(),
                                      node_.reduce().dimensions().end()},
                       .reduced = node_.reduce().keep()
                                      ? ReduceOp::Dimensions::kKeep
                                      : ReduceOp::Dimensions::kDrop};
    return parts_.builder.Add(std::move(reduce), inputs_, field_);
  }

  absl::StatusOr<int> Round() const {
    const std::optional<DType> dtype = FromWire(node_.round().dtype());
    if (dtype.has_value()) {
      return parts_.builder.Add(RoundOp{*dtype}, inputs_, field_);
    }
    return Invalid(Path("round.dtype"),
                   v1::DataType_Name(node_.round().dtype()),
                   "DATA_TYPE_F32, DATA_TYPE_F16, DATA_TYPE_BF16");
  }

  absl::StatusOr<int> Gather() const {
    const v1::Gather& gather = node_.gather();
    GatherOp op = {.dimension = gather.dimension()};
    if (gather.has_indices()) {
      RETURN_IF_ERROR(CheckInputCount(1));
      ASSIGN_OR_RETURN(op.indices,
                       Indices(gather.indices(), op.dimension, Path("gather")));
    }
    return parts_.builder.Add(std::move(op), inputs_, field_);
  }

  absl::StatusOr<int> Scatter() const {
    const v1::Scatter& scatter = node_.scatter();
    RETURN_IF_ERROR(CheckInputCount(2));
    ScatterOp op = {.dimension = scatter.dimension()};
    ASSIGN_OR_RETURN(op.indices,
                     Indices(scatter.indices(), op.dimension, Path("scatter")));
    return parts_.builder.Add(std::move(op), inputs_, field_);
  }

  // Of a dimension of the first input.
  absl::StatusOr<std::vector<int64_t>> Indices(const v1::IndexSet& set,
                                               int64_t dimension,
                                               const std::string& path) const {
    const Shape& x = parts_.builder.ShapeOf(inputs_[0]);
    const int64_t rank = static_cast<int64_t>(x.size());
    if (dimension < -rank || dimension >= rank) {
      return Invalid(
          path + ".dimension",
          absl::StrCat("dimension ", dimension, " of ", ShapeText(x)),
          rank == 0 ? "a value with dimensions"
                    : absl::StrCat(-rank, " to ", rank - 1));
    }
    const int64_t size = x[dimension < 0 ? dimension + rank : dimension];
    return ResolveIndices(
        set,
        {.size = size,
         .extent = absl::StrCat("the ", size, " of dimension ", dimension,
                                " of ", ShapeText(x))},
        path + ".indices");
  }

  absl::StatusOr<int> Reshape() const {
    RETURN_IF_ERROR(CheckInputCount(1));
    const Shape shape(node_.reshape().shape().begin(),
                      node_.reshape().shape().end());
    return parts_.builder.AddReshape(inputs_[0], shape, field_);
  }

  absl::Status CheckInputCount(size_t count) const {
    if (inputs_.size() == count) return absl::OkStatus();
    return Invalid(Path("inputs"),
                   absl::StrCat("node ", Quoted(node_.name()), " has ",
                                inputs_.size(), " inputs"),
                   absl::StrCat(count));
  }

  const PlanParts& parts_;
  const NodeIndex& nodes_;
  const v1::Node& node_;
  const std::string field_;
  std::vector<int> inputs_;
};

}  // namespace

absl::StatusOr<NodeIndex> PlanProgram(const PlanParts& parts) {
  RETURN_IF_ERROR(AddConstants(parts));
  const v1::Program& program = parts.request.program();
  ASSIGN_OR_RETURN(const std::vector<int> order,
                   OrderProgram(program, parts.context.limits));
  NodeIndex nodes;
  for (int index : order) {
    const v1::Node& node = program.nodes(index);
    ASSIGN_OR_RETURN(nodes.nodes[node.name()],
                     NodePlanner(parts, nodes, node, index).Plan());
  }
  return nodes;
}

}  // namespace phitap
