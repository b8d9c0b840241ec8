#include "server/plan/program/wire_function.h"

namespace phitap {

// Both lists stand in one order; the protocol's begins with "unspecified".
static_assert(v1::FUNCTION_ADD - 1 == static_cast<int>(Function::kAdd));
static_assert(v1::FUNCTION_TANH - 1 == static_cast<int>(Function::kTanh));
static_assert(v1::FUNCTION_EQUAL - 1 == static_cast<int>(Function::kEqual));
static_assert(v1::FUNCTION_WHERE - 1 == static_cast<int>(Function::kWhere));
static_assert(v1::Function_MAX == v1::FUNCTION_WHERE);

std::optional<Function> FromWire(v1::Function function) {
  if (!v1::Function_IsValid(function) || function == 0) return std::nullopt;
  return static_cast<Function>(function - 1);
}

std::optional<ReduceOp::Kind> FromWire(v1::ReduceKind kind) {
  switch (kind) {
    case v1::REDUCE_KIND_SUM:
      return ReduceOp::Kind::kSum;
    case v1::REDUCE_KIND_MEAN:
      return ReduceOp::Kind::kMean;
    case v1::REDUCE_KIND_MAX:
      return ReduceOp::Kind::kMax;
    case v1::REDUCE_KIND_MIN:
      return ReduceOp::Kind::kMin;
    case v1::REDUCE_KIND_NORM:
      return ReduceOp::Kind::kNorm;
    default:
      return std::nullopt;
  }
}

}  // namespace phitap
