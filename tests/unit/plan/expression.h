// Nodes of a plan as text, so that a test can say what it expects in a line.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_PLAN_EXPRESSION_H_
#define PHITAP_TESTS_UNIT_PLAN_EXPRESSION_H_

#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/plan/program/functions.h"
#include "server/plan/program/shapes.h"
#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"

namespace phitap {

inline std::string IndicesText(
    const char* name, const std::optional<std::vector<int64_t>>& indices) {
  if (!indices.has_value()) return "";
  return absl::StrCat(" ", name, "=", absl::StrJoin(*indices, ","));
}

inline std::string SelectionText(const ResolvedSelection& selection) {
  return absl::StrCat(IndicesText("positions", selection.positions),
                      IndicesText("heads", selection.heads),
                      IndicesText("features", selection.features),
                      IndicesText("queries", selection.queries),
                      IndicesText("keys", selection.keys));
}

// "clean:layers.2.layer_output positions=4"
inline std::string ReadText(const TracePlan& plan, const RunRead& read) {
  return absl::StrCat(plan.runs[read.run].label, ":", FullName(read.point),
                      SelectionText(read.selection),
                      read.time == ReadTime::kBefore ? " before" : "");
}

// A float32 number as it is, any other constant by its shape: "const[24]".
inline std::string ConstantText(const HostTensor& value) {
  if (!value.shape.empty() || value.dtype != DType::kF32) {
    return absl::StrCat("const", ShapeText(value.shape));
  }
  float number = 0;
  std::memcpy(&number, value.bytes.data(), sizeof(number));
  return absl::StrCat(number);
}

inline std::string OperationText(const ProgramNode& node) {
  const auto named = [&](auto kind, std::vector<std::string> names) {
    return names[static_cast<size_t>(kind)];
  };
  if (const auto* call = std::get_if<FunctionOp>(&node.operation)) {
    return std::string(Name(call->function));
  }
  if (const auto* linear = std::get_if<LinearOp>(&node.operation)) {
    return named(linear->weight, {"linear_out_in", "linear_in_out"});
  }
  if (std::holds_alternative<DotOp>(node.operation)) return "dot";
  if (const auto* reduce = std::get_if<ReduceOp>(&node.operation)) {
    return absl::StrCat(
        named(reduce->kind, {"sum", "mean", "max", "min", "norm"}),
        absl::StrJoin(reduce->dimensions, ","),
        named(reduce->reduced, {"", "keep"}));
  }
  if (const auto* clamp = std::get_if<ClampOp>(&node.operation)) {
    return absl::StrCat("clamp<", clamp->low ? absl::StrCat(*clamp->low) : "",
                        ":", clamp->high ? absl::StrCat(*clamp->high) : "",
                        ">");
  }
  if (const auto* gather = std::get_if<GatherOp>(&node.operation)) {
    return absl::StrCat("gather", gather->dimension, "<",
                        absl::StrJoin(*gather->indices, ","), ">");
  }
  if (const auto* scatter = std::get_if<ScatterOp>(&node.operation)) {
    return absl::StrCat("scatter", scatter->dimension, "<",
                        absl::StrJoin(scatter->indices, ","), ">");
  }
  if (const auto* joined = std::get_if<ConcatenateOp>(&node.operation)) {
    return absl::StrCat("concatenate", joined->dimension);
  }
  if (const auto* top = std::get_if<TopKActivationOp>(&node.operation)) {
    return absl::StrCat("top", top->k);
  }
  if (std::holds_alternative<ReshapeOp>(node.operation)) {
    return absl::StrCat("reshape", ShapeText(node.shape));
  }
  return "another";
}

// "subtract(x, multiply(dot(x, u), u))": the node and all below it.
inline std::string Expression(const TracePlan& plan, int index) {
  const ProgramNode& node = plan.nodes[index];
  if (std::holds_alternative<CurrentValue>(node.operation)) return "x";
  if (const auto* read = std::get_if<RunRead>(&node.operation)) {
    return ReadText(plan, *read);
  }
  if (const auto* constant = std::get_if<ConstantValue>(&node.operation)) {
    return ConstantText(constant->value);
  }
  if (const auto* noise = std::get_if<NoiseValue>(&node.operation)) {
    return absl::StrCat("noise<", noise->seed, ">");
  }
  std::vector<std::string> inputs;
  for (int input : node.inputs) inputs.push_back(Expression(plan, input));
  return absl::StrCat(OperationText(node), "(", absl::StrJoin(inputs, ", "),
                      ")");
}

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_PLAN_EXPRESSION_H_
