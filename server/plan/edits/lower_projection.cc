#include "server/plan/edits/lower_projection.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/edits/edit_bounds.h"

namespace phitap {
namespace {

int64_t Width(const PartNodes& nodes) { return nodes.part().shape.back(); }

absl::StatusOr<int> UnitVector(PartNodes& nodes, const v1::EditSource& source,
                               absl::string_view name) {
  return nodes.sources().AddUnitVector(source, Width(nodes), nodes.part(),
                                       nodes.Field(name));
}

// x · unit
absl::StatusOr<int> Projection(PartNodes& nodes, int unit) {
  ASSIGN_OR_RETURN(const int x, nodes.Current());
  return nodes.builder().Add(DotOp(), {x, unit}, nodes.part().field);
}

// value + length unit, or value − length unit.
absl::StatusOr<int> Moved(PartNodes& nodes, int value, Function sign,
                          int length, int unit) {
  ASSIGN_OR_RETURN(const int step,
                   nodes.Call(Function::kMultiply, {length, unit}));
  return nodes.Call(sign, {value, step});
}

// R: [width, k].
absl::StatusOr<int> AddBasis(PartNodes& nodes, const v1::EditSource& source) {
  const std::string field = nodes.Field("subspace.basis");
  ASSIGN_OR_RETURN(const int basis,
                   nodes.sources().Add(source, nodes.part(), field));
  const Shape& shape = nodes.builder().ShapeOf(basis);
  const int64_t width = Width(nodes);
  if (shape.size() == 2 && shape[0] == width && shape[1] <= width) return basis;
  return InvalidField(
      {.field = field,
       .problem =
           absl::StrCat("a value of ", ShapeText(shape), " is no basis here"),
       .valid = absl::StrCat("[", width, ", k] with k at most ", width)});
}

absl::StatusOr<int> AddMask(PartNodes& nodes, const v1::EditSource& source,
                            int64_t size) {
  const std::string field = nodes.Field("subspace.mask");
  ASSIGN_OR_RETURN(const int mask,
                   nodes.sources().Add(source, nodes.part(), field));
  const Shape& shape = nodes.builder().ShapeOf(mask);
  if (shape == Shape{size}) return mask;
  return InvalidField(
      {.field = field,
       .problem =
           absl::StrCat("a value of ", ShapeText(shape), " is no mask here"),
       .valid = absl::StrCat("[", size,
                             "], one number for each column of the basis")});
}

}  // namespace

absl::StatusOr<int> LowerProjectOut(PartNodes& nodes,
                                    const v1::ProjectOutEdit& edit) {
  ASSIGN_OR_RETURN(const int unit, UnitVector(nodes, edit.direction(),
                                              "project_out.direction"));
  ASSIGN_OR_RETURN(int length, Projection(nodes, unit));
  if (edit.keep() != 0) {
    ASSIGN_OR_RETURN(const int share,
                     nodes.builder().AddNumber(
                         1 - edit.keep(), nodes.Field("project_out.keep")));
    ASSIGN_OR_RETURN(length, nodes.Call(Function::kMultiply, {share, length}));
  }
  ASSIGN_OR_RETURN(const int x, nodes.Current());
  return Moved(nodes, x, Function::kSubtract, length, unit);
}

absl::StatusOr<int> LowerClampProjection(PartNodes& nodes,
                                         const v1::ClampProjectionEdit& edit) {
  ASSIGN_OR_RETURN(const ClampOp bounds,
                   BoundsOf(edit, nodes.Field("clamp_projection")));
  ASSIGN_OR_RETURN(const int unit, UnitVector(nodes, edit.direction(),
                                              "clamp_projection.direction"));
  ASSIGN_OR_RETURN(const int length, Projection(nodes, unit));
  ASSIGN_OR_RETURN(const int bounded,
                   nodes.builder().Add(bounds, {length}, nodes.part().field));
  ASSIGN_OR_RETURN(const int change,
                   nodes.Call(Function::kSubtract, {bounded, length}));
  ASSIGN_OR_RETURN(const int x, nodes.Current());
  return Moved(nodes, x, Function::kAdd, change, unit);
}

absl::StatusOr<int> LowerSwap(PartNodes& nodes, const v1::SwapEdit& edit) {
  ASSIGN_OR_RETURN(const int from, UnitVector(nodes, edit.from(), "swap.from"));
  ASSIGN_OR_RETURN(const int to, UnitVector(nodes, edit.to(), "swap.to"));
  ASSIGN_OR_RETURN(int value, nodes.Current());
  ASSIGN_OR_RETURN(const int along_from, Projection(nodes, from));
  ASSIGN_OR_RETURN(value,
                   Moved(nodes, value, Function::kSubtract, along_from, from));
  ASSIGN_OR_RETURN(value, Moved(nodes, value, Function::kAdd, along_from, to));
  if (!edit.both()) return value;
  ASSIGN_OR_RETURN(const int along_to, Projection(nodes, to));
  ASSIGN_OR_RETURN(value,
                   Moved(nodes, value, Function::kSubtract, along_to, to));
  return Moved(nodes, value, Function::kAdd, along_to, from);
}

absl::StatusOr<int> LowerSubspace(PartNodes& nodes,
                                  const v1::SubspaceEdit& edit) {
  ASSIGN_OR_RETURN(const int basis, AddBasis(nodes, edit.basis()));
  ASSIGN_OR_RETURN(const int source,
                   nodes.sources().AddValue(edit.source(), nodes.part(),
                                            nodes.Field("subspace.source")));
  const std::string& field = nodes.part().field;
  ASSIGN_OR_RETURN(const int x, nodes.Current());
  ASSIGN_OR_RETURN(const int change,
                   nodes.Call(Function::kSubtract, {source, x}));
  ASSIGN_OR_RETURN(int inside,
                   nodes.builder().Add(LinearOp{LinearOp::Weight::kInOut},
                                       {change, basis}, field));
  if (edit.has_mask()) {
    ASSIGN_OR_RETURN(
        const int mask,
        AddMask(nodes, edit.mask(), nodes.builder().ShapeOf(basis).back()));
    ASSIGN_OR_RETURN(inside, nodes.Call(Function::kMultiply, {inside, mask}));
  }
  ASSIGN_OR_RETURN(const int outside,
                   nodes.builder().Add(LinearOp{LinearOp::Weight::kOutIn},
                                       {inside, basis}, field));
  return nodes.Call(Function::kAdd, {x, outside});
}

}  // namespace phitap
