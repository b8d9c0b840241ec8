// Named places in the forward pass: the vocabulary that planner, model and
// clients share.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SPEC_HOOK_POINT_H_
#define PHITAP_SERVER_SPEC_HOOK_POINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/spec/dimension.h"
#include "server/spec/model_spec.h"

namespace phitap {

// In forward order.
enum class Hook {
  kInputIds,
  kAttentionMask,
  kInputSize,
  kTokenEmbeddings,
  kRotaryCos,
  kRotarySin,
  kLayerInput,
  kAttentionNormOutput,
  kAttentionQkv,
  kAttentionQueriesPreRotary,
  kAttentionKeysPreRotary,
  kAttentionQueries,
  kAttentionKeys,
  kAttentionValues,
  kAttentionScores,
  kAttentionProbabilities,
  kAttentionHeadOutputs,
  kAttentionPremix,
  kAttentionOutput,
  kLayerMid,
  kMlpNormOutput,
  kMlpInput,
  kMlpGateUp,
  kMlpGate,
  kMlpUp,
  kMlpActivation,
  kMlpNeurons,
  kMlpOutput,
  kLayerOutput,
  kFinalNormOutput,
  kLmHeadOutput,
  kLogits,
  kNextTokenProbs,
};
inline constexpr int kHookCount = static_cast<int>(Hook::kNextTokenProbs) + 1;

enum class Module { kModel, kLayer, kSelfAttn, kMlp };

enum class Access { kRead, kReadWrite };

// One line of the catalogue.
struct HookEntry {
  Hook hook;
  absl::string_view name;  // "attention_queries"
  Module module;
  std::vector<Dimension> dimensions;
  Access access;
  absl::string_view description;
  // Under which condition, or what it costs; empty where there is none.
  absl::string_view condition;
  // The same place elsewhere, laid out alike but for a batch dimension in
  // front; `{i}` is the layer.
  std::vector<absl::string_view> aliases;
};

// Every hook point, indexed by Hook.
absl::Span<const HookEntry> HookCatalogue();
const HookEntry& EntryOf(Hook hook);

// A hook in a layer; layer is −1 for hooks of the whole model.
struct HookPoint {
  Hook hook = Hook::kInputIds;
  int layer = -1;

  friend bool operator==(const HookPoint&, const HookPoint&) = default;
};

bool HasLayer(Hook hook);

// "layers.{i}.self_attn", or "model".
absl::string_view ModulePath(Module module);
// "layers.5.self_attn.attention_queries", "logits".
std::string FullName(HookPoint point);
// "layers.{i}.self_attn.attention_queries".
std::string FullNamePattern(Hook hook);

// Reads a hook point or a set of them, in forward order without repeats:
// `layers.5.layer_output`, `layers.5.self_attn.attention_keys`, `layers.*.x`,
// `layers.8-15.x`, `layers.{0,5,8-10}.x`, `layers.-1.x`, `layers[5].x`, a
// model-level name, or an alias such as `blocks.*.hook_resid_post` or
// `layers_output[5]`; each may start with `model.`. INVALID_ARGUMENT against
// `field`, with the nearest names or the valid layers.
absl::StatusOr<std::vector<HookPoint>> ParseHookPoints(absl::string_view text,
                                                       const ModelSpec& spec,
                                                       absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_SPEC_HOOK_POINT_H_
