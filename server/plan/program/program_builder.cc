#include "server/plan/program/program_builder.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/captures/reduction.h"
#include "server/plan/captures/selection.h"
#include "server/plan/program/node_shapes.h"
#include "server/plan/saturating.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

constexpr int64_t kFloat32Bytes = 4;

absl::Status Exhausted(absl::string_view field, std::string problem,
                       std::string valid) {
  return InvalidField({.field = std::string(field),
                       .problem = std::move(problem),
                       .valid = std::move(valid)},
                      absl::StatusCode::kResourceExhausted);
}

std::string Key(const std::optional<std::vector<int64_t>>& indices) {
  return indices.has_value() ? absl::StrJoin(*indices, ",") : "all";
}

// Equal for reads of the same part of the same value.
std::string Key(const RunRead& read) {
  const ResolvedSelection& part = read.selection;
  return absl::StrJoin(
      {absl::StrCat("read ", read.run, " ", FullName(read.point), " ",
                    static_cast<int>(read.time), " ",
                    static_cast<int>(read.passes)),
       Key(part.positions), Key(part.heads), Key(part.features),
       Key(part.queries), Key(part.keys)},
      ";");
}

HostTensor Float32Number(double value) {
  const float number = static_cast<float>(value);
  std::byte bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  return CopyOf(DType::kF32, {}, bytes);
}

}  // namespace

int ProgramBuilder::FindShared(absl::string_view name) const {
  const auto found = shared_.find(name);
  return found == shared_.end() ? -1 : found->second;
}

void ProgramBuilder::Share(absl::string_view name, int node) {
  shared_.emplace(name, node);
}

absl::StatusOr<int> ProgramBuilder::Append(ProgramNode node) {
  const Limits& limits = context_.limits;
  const int64_t count = static_cast<int64_t>(plan_.nodes.size());
  if (count >= limits.max_lowered_nodes) {
    return Exhausted(node.field,
                     absl::StrCat("brings the request to ", count + 1,
                                  " nodes, edits and metrics included"),
                     absl::StrCat("at most ", limits.max_lowered_nodes));
  }
  const int64_t size_bytes =
      SaturatingMultiply(SaturatingElements(node.shape), kFloat32Bytes);
  if (size_bytes > limits.max_node_bytes) {
    return Exhausted(node.field,
                     absl::StrCat("a value of ", ShapeText(node.shape), " has ",
                                  size_bytes, " bytes in float32"),
                     absl::StrCat("at most ", limits.max_node_bytes));
  }
  for (int input : node.inputs) {
    node.in_write |= plan_.nodes[input].in_write;
    node.every_pass |= plan_.nodes[input].every_pass;
  }
  plan_.nodes.push_back(std::move(node));
  return static_cast<int>(count);
}

absl::StatusOr<int> ProgramBuilder::Add(Operation operation,
                                        std::vector<int> inputs,
                                        absl::string_view field) {
  std::vector<Shape> shapes;
  for (int input : inputs) shapes.push_back(ShapeOf(input));
  ASSIGN_OR_RETURN(Shape shape,
                   ResolveOperation(operation, shapes, context_.spec, field));
  return Append({.operation = std::move(operation),
                 .inputs = std::move(inputs),
                 .shape = std::move(shape),
                 .field = std::string(field)});
}

absl::StatusOr<int> ProgramBuilder::AddReshape(int input, const Shape& shape,
                                               absl::string_view field) {
  ASSIGN_OR_RETURN(Shape resolved, ReshapedTo(ShapeOf(input), shape, field));
  return Append({.operation = ReshapeOp(),
                 .inputs = {input},
                 .shape = std::move(resolved),
                 .field = std::string(field)});
}

absl::Status ProgramBuilder::CountIndices(const RunRead& read,
                                          absl::string_view field) {
  index_count_ += IndexCount(read.selection);
  const int64_t allowed = context_.limits.max_selected_indices;
  if (index_count_ <= allowed) return absl::OkStatus();
  return Exhausted(field,
                   absl::StrCat("brings what is read for programs, edits and "
                                "metrics to ",
                                index_count_, " selected indices"),
                   absl::StrCat("at most ", allowed));
}

absl::StatusOr<Shape> ProgramBuilder::ReadShape(const RunRead& read,
                                                absl::string_view field) {
  RETURN_IF_ERROR(CountIndices(read, field));
  const HookEntry& entry = EntryOf(read.point.hook);
  const DType dtype = ValueType(entry.hook, context_.compute_dtype);
  if (dtype == DType::kI64) {
    return InvalidField({.field = std::string(field),
                         .problem = absl::StrCat(entry.name, " holds integers"),
                         .valid = "a hook point of floating-point values"});
  }
  const PlannedRun& run = plan_.runs[read.run];
  const int64_t token_count = static_cast<int64_t>(run.ids.size());
  const Shape shape =
      SelectedShape(entry.hook, read.selection, context_.spec, token_count);
  // Columns are made whether they are selected or not.
  Shape made = shape;
  made.back() = SizeOf(entry.dimensions.back(), context_.spec, token_count);
  const int64_t made_bytes =
      SaturatingMultiply(SaturatingElements(made), SizeInBytes(dtype));
  const int64_t allowed = context_.limits.max_value_bytes;
  if (made_bytes <= allowed) return shape;
  return Exhausted(
      field,
      absl::StrCat(entry.name, " of run ", Quoted(run.label),
                   " has, before selection of columns, ", made_bytes, " bytes"),
      absl::StrCat("at most ", allowed, " bytes"));
}

absl::StatusOr<int> ProgramBuilder::AddRead(RunRead read,
                                            absl::string_view field) {
  const std::string key = Key(read);
  const int known = FindShared(key);
  if (known >= 0) return known;
  ASSIGN_OR_RETURN(Shape shape, ReadShape(read, field));
  const bool every_pass = read.passes == RunRead::Passes::kEvery;
  ASSIGN_OR_RETURN(const int node, Append({.operation = std::move(read),
                                           .shape = std::move(shape),
                                           .every_pass = every_pass,
                                           .field = std::string(field)}));
  Share(key, node);
  return node;
}

absl::StatusOr<int> ProgramBuilder::AddGradient(RunRead with_respect_to,
                                                absl::string_view field) {
  ASSIGN_OR_RETURN(Shape shape, ReadShape(with_respect_to, field));
  return Append({.operation = GradientValue{std::move(with_respect_to)},
                 .shape = std::move(shape),
                 .field = std::string(field)});
}

absl::StatusOr<int> ProgramBuilder::AddConstant(HostTensor value,
                                                absl::string_view field) {
  const int64_t allowed = context_.limits.max_constant_bytes;
  constant_bytes_ =
      SaturatingAdd(constant_bytes_, static_cast<int64_t>(value.bytes.size()));
  if (constant_bytes_ > allowed) {
    return Exhausted(
        field,
        absl::StrCat("brings the request's tensors to ", constant_bytes_,
                     " bytes"),
        absl::StrCat("at most ", allowed, ", or a tensor kept on the server"));
  }
  return AddKept(std::move(value), field);
}

absl::StatusOr<int> ProgramBuilder::AddKept(HostTensor value,
                                            absl::string_view field) {
  Shape shape = value.shape;
  return Append({.operation = ConstantValue{std::move(value)},
                 .shape = std::move(shape),
                 .field = std::string(field)});
}

absl::StatusOr<int> ProgramBuilder::AddNumber(double value,
                                              absl::string_view field) {
  HostTensor number = Float32Number(value);
  if (!std::isfinite(static_cast<float>(value))) {
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat(value, " is no float32 number"),
         .valid = "a finite number"});
  }
  const std::string key = absl::StrCat(
      "number ",
      absl::string_view(reinterpret_cast<const char*>(number.bytes.data()),
                        number.bytes.size()));
  const int known = FindShared(key);
  if (known >= 0) return known;
  ASSIGN_OR_RETURN(const int node, AddKept(std::move(number), field));
  Share(key, node);
  return node;
}

absl::StatusOr<int> ProgramBuilder::AddNoise(NoiseValue noise,
                                             const Shape& shape,
                                             absl::string_view field) {
  ProgramNode node = {.shape = shape,
                      .in_write = !noise.like.has_value(),
                      .field = std::string(field)};
  if (noise.like.has_value()) {
    ASSIGN_OR_RETURN(node.shape, ReadShape(*noise.like, field));
  }
  node.operation = std::move(noise);
  return Append(std::move(node));
}

absl::StatusOr<int> ProgramBuilder::AddCurrent(const Shape& shape,
                                               absl::string_view field) {
  return Append({.operation = CurrentValue(),
                 .shape = shape,
                 .in_write = true,
                 .field = std::string(field)});
}

}  // namespace phitap
