#include "server/plan/describe_model.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/plan/captures/reduction.h"
#include "server/plan/wire_type.h"
#include "server/spec/hook_point.h"

namespace phitap {
namespace {

v1::RopeConfig DescribeRope(const ModelSpec& spec) {
  v1::RopeConfig rope;
  rope.set_type(spec.longrope.has_value() ? "longrope" : "default");
  rope.set_theta(spec.rope_theta);
  rope.set_rotary_dims(spec.rotary_dims);
  rope.set_attention_factor(1.0);
  if (!spec.longrope.has_value()) return rope;
  const LongRope& longrope = *spec.longrope;
  rope.set_original_max_position_embeddings(longrope.original_max_positions);
  rope.set_attention_factor(longrope.attention_factor);
  rope.mutable_short_factor()->Add(longrope.short_factor.begin(),
                                   longrope.short_factor.end());
  rope.mutable_long_factor()->Add(longrope.long_factor.begin(),
                                  longrope.long_factor.end());
  return rope;
}

// Whether a prompt of the longest length has positions out of a query's sight.
bool WindowHides(const ModelSpec& spec) {
  return spec.sliding_window.has_value() &&
         *spec.sliding_window < spec.max_positions;
}

std::string WindowCondition(const ModelSpec& spec, absl::string_view entry) {
  return absl::StrCat("A window of ", *spec.sliding_window,
                      ": a query sees itself and the ",
                      *spec.sliding_window - 1, " positions before it; ", entry,
                      " further back.");
}

std::string LongRopeCondition(const ModelSpec& spec) {
  return absl::StrCat(
      "Turned with the long factors, at every position, in "
      "runs with a position from ",
      spec.longrope->original_max_positions, " on.");
}

// Conditions that come from the checkpoint.
std::string CheckpointCondition(Hook hook, const ModelSpec& spec) {
  switch (hook) {
    case Hook::kAttentionScores:
      return WindowHides(spec) ? WindowCondition(spec, "−infinity") : "";
    case Hook::kAttentionProbabilities:
      return WindowHides(spec) ? WindowCondition(spec, "exactly 0") : "";
    case Hook::kRotaryCos:
    case Hook::kRotarySin:
    case Hook::kAttentionQueries:
    case Hook::kAttentionKeys:
      return spec.longrope.has_value() ? LongRopeCondition(spec) : "";
    default:
      return "";
  }
}

std::string Condition(const HookEntry& entry, const ModelSpec& spec) {
  std::vector<std::string> conditions;
  const bool grouped = spec.num_kv_heads != spec.num_heads;
  const bool about_groups = entry.dimensions.front() == Dimension::kNumKvHeads;
  if (!entry.condition.empty() && !(about_groups && !grouped)) {
    conditions.emplace_back(entry.condition);
  }
  const std::string own = CheckpointCondition(entry.hook, spec);
  if (!own.empty()) conditions.push_back(own);
  return absl::StrJoin(conditions, " ");
}

v1::HookPoint DescribeHookPoint(const HookEntry& entry, const ModelSpec& spec,
                                DType compute_dtype) {
  v1::HookPoint point;
  point.set_name(std::string(entry.name));
  point.set_full_name(FullNamePattern(entry.hook));
  point.set_module(std::string(ModulePath(entry.module)));
  for (Dimension dimension : entry.dimensions) {
    const std::string name(Name(dimension));
    point.add_dimension_names(name);
    point.add_dimension_sizes(DependsOnPrompt(dimension)
                                  ? name
                                  : absl::StrCat(SizeOf(dimension, spec, 0)));
  }
  point.set_dtype(WireType(ValueType(entry.hook, compute_dtype)));
  point.set_writable(entry.access == Access::kReadWrite);
  point.set_available(true);
  point.set_condition(Condition(entry, spec));
  point.set_description(std::string(entry.description));
  for (absl::string_view alias : entry.aliases) {
    point.add_aliases(std::string(alias));
  }
  return point;
}

}  // namespace

v1::ModelConfig DescribeConfig(const ModelSpec& spec, DType compute_dtype) {
  v1::ModelConfig config;
  config.add_architectures(spec.architecture);
  config.set_num_layers(spec.num_layers);
  config.set_hidden_size(spec.hidden_size);
  config.set_num_heads(spec.num_heads);
  config.set_num_kv_heads(spec.num_kv_heads);
  config.set_head_dim(spec.head_dim);
  config.set_qk_head_dim(spec.head_dim);
  config.set_vocab_size(spec.vocab_size);
  config.set_intermediate_size(spec.intermediate_size);
  config.set_max_position_embeddings(spec.max_positions);
  if (spec.sliding_window) config.set_sliding_window(*spec.sliding_window);
  config.set_hidden_act(spec.hidden_act);
  config.set_rms_norm_eps(spec.rms_norm_eps);
  *config.mutable_rope() = DescribeRope(spec);
  config.set_tie_word_embeddings(spec.tied_head);
  config.set_stored_dtype(WireType(spec.dtype));
  config.set_dtype(WireType(compute_dtype));
  if (spec.bos_id) config.set_bos_token_id(*spec.bos_id);
  config.mutable_eos_token_ids()->Add(spec.eos_ids.begin(), spec.eos_ids.end());
  if (spec.pad_id) config.set_pad_token_id(*spec.pad_id);
  return config;
}

std::vector<v1::HookPoint> DescribeHookPoints(const ModelSpec& spec,
                                              DType compute_dtype) {
  std::vector<v1::HookPoint> points;
  for (const HookEntry& entry : HookCatalogue()) {
    points.push_back(DescribeHookPoint(entry, spec, compute_dtype));
  }
  return points;
}

}  // namespace phitap
