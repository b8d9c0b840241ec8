// What a request holds on the server besides its answer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/plan/captures/reduction.h"
#include "server/plan/order/plan_groups.h"
#include "server/plan/program/shapes.h"
#include "server/plan/saturating.h"

namespace phitap {
namespace {

constexpr int64_t kFloat32Bytes = 4;
// Keys and values are kept in whole tiles of so many positions.
constexpr int64_t kCacheTile = 32;

// a · b · c · …
int64_t Product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors) product = SaturatingMultiply(product, factor);
  return product;
}

// A kind of bytes: what it is called in a refusal, and how many.
struct Part {
  std::string name;
  int64_t size_bytes = 0;
};

Part Constants(const TracePlan& plan) {
  Part part = {.name = "constants and kept tensors"};
  absl::flat_hash_set<const std::byte*> counted;
  for (const ProgramNode& node : plan.nodes) {
    const auto* constant = std::get_if<ConstantValue>(&node.operation);
    if (constant == nullptr) continue;
    const auto bytes = constant->value.bytes;
    if (!counted.insert(bytes.data()).second) continue;
    part.size_bytes =
        SaturatingAdd(part.size_bytes, static_cast<int64_t>(bytes.size()));
  }
  return part;
}

// Each until the request ends: a later group may need it.
Part ReadValues(const PlanContext& context, const TracePlan& plan) {
  Part part = {.name = "values read for programs, edits and metrics"};
  for (const ProgramNode& node : plan.nodes) {
    int64_t element_bytes = 0;
    if (const auto* read = std::get_if<RunRead>(&node.operation)) {
      element_bytes =
          SizeInBytes(ValueType(read->point.hook, context.compute_dtype));
    } else if (std::holds_alternative<GradientValue>(node.operation)) {
      element_bytes = kFloat32Bytes;
    }
    part.size_bytes =
        SaturatingAdd(part.size_bytes,
                      Product({SaturatingElements(node.shape), element_bytes}));
  }
  return part;
}

Part KeysAndValues(const PlanContext& context, const TracePlan& plan) {
  Part part = {.name = "keys and values of runs that generate"};
  const ModelSpec& spec = context.spec;
  for (const PlannedRun& run : plan.runs) {
    if (!run.generation.has_value()) continue;
    const int64_t token_count =
        static_cast<int64_t>(run.ids.size()) + run.generation->max_tokens;
    const int64_t held =
        (token_count + kCacheTile - 1) / kCacheTile * kCacheTile;
    part.size_bytes = SaturatingAdd(
        part.size_bytes,
        Product({2, spec.num_layers, spec.num_kv_heads, spec.head_dim, held,
                 SizeInBytes(context.compute_dtype)}));
  }
  return part;
}

// Of what libtorch keeps of a layer for its gradients, the bytes of one token,
// b a value's: both norms keep their input in float32, and scaled and unscaled
// (4 + 2b); qkv, queries and keys turned and as halves, head outputs twice (b);
// gate and up, the activation, the neurons (4F b); both branches' sums (2D b).
int64_t LayerBytesPerToken(const ModelSpec& spec, int64_t value_bytes) {
  const int64_t queries = spec.num_heads * spec.head_dim;
  const int64_t keys = spec.num_kv_heads * spec.head_dim;
  const int64_t attention =
      (queries + 2 * keys) + 2 * (queries + keys) + 2 * queries;
  return 2 * spec.hidden_size * (kFloat32Bytes + 2 * value_bytes) +
         (attention + 4 * spec.intermediate_size + 2 * spec.hidden_size) *
             value_bytes;
}

// Of one pass over `token_count` tokens: layers; in EAGER scores, their softmax
// in float32 and the probabilities of every head; logits, as computed and in
// float32 with their softmax.
int64_t GraphBytes(const PlanContext& context, Attention attention,
                   int64_t token_count) {
  const ModelSpec& spec = context.spec;
  const int64_t value_bytes = SizeInBytes(context.compute_dtype);
  int64_t size_bytes = Product(
      {spec.num_layers, token_count, LayerBytesPerToken(spec, value_bytes)});
  if (attention == Attention::kEager) {
    size_bytes = SaturatingAdd(
        size_bytes, Product({spec.num_layers, spec.num_heads, token_count,
                             token_count, kFloat32Bytes + 2 * value_bytes}));
  }
  return SaturatingAdd(size_bytes, Product({token_count, spec.vocab_size,
                                            value_bytes + 2 * kFloat32Bytes}));
}

// Passes come one at a time.
Part LargestGraph(const PlanContext& context, const TracePlan& plan) {
  Part part = {.name = "the graph of the largest gradient pass"};
  for (const GradientPass& pass : plan.gradient_passes) {
    const int64_t token_count =
        static_cast<int64_t>(plan.runs[pass.run].ids.size());
    part.size_bytes = std::max(
        part.size_bytes, GraphBytes(context, plan.attention, token_count));
  }
  return part;
}

}  // namespace

absl::Status CountWorkingBytes(const PlanContext& context, TracePlan& plan) {
  std::vector<Part> parts = {Constants(plan), ReadValues(context, plan),
                             KeysAndValues(context, plan),
                             LargestGraph(context, plan)};
  plan.storage_bytes = plan.size_bytes;
  plan.working_bytes = 0;
  for (const Part& part : parts) {
    plan.working_bytes = SaturatingAdd(plan.working_bytes, part.size_bytes);
  }
  const int64_t allowed = context.limits.max_working_bytes;
  if (plan.working_bytes <= allowed) return absl::OkStatus();
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.size_bytes > b.size_bytes;
  });
  return InvalidField(
      {.field = "runs",
       .problem = absl::StrCat("the server would hold ", plan.working_bytes,
                               " bytes besides the answer, ",
                               parts[0].size_bytes, " of them ", parts[0].name),
       .valid = absl::StrCat("at most ", allowed, " bytes")},
      absl::StatusCode::kResourceExhausted);
}

}  // namespace phitap
