#include "tests/fuzz/demo_server.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/checkpoint/config.h"
#include "server/spec/hook_point.h"
#include "tests/fuzz/expect.h"
#include "tests/support/model_specs.h"

namespace phitap {
namespace {

constexpr int64_t kHidden = 192;
constexpr int64_t kFeatures = 96;

struct KeptTensor {
  const char* name;
  std::vector<int64_t> shape;
};

// Those that the requests of tests/golden/techniques name.
std::vector<KeptTensor> KeptTensors() {
  return {{"sae.encoder_weight", {kFeatures, kHidden}},
          {"sae.encoder_bias", {kFeatures}},
          {"sae.decoder_weight", {kFeatures, kHidden}},
          {"sae.decoder_bias", {kHidden}},
          {"sae.threshold", {kFeatures}},
          {"transcoder.encoder_weight", {kFeatures, kHidden}},
          {"transcoder.decoder_weight", {kFeatures, kHidden}},
          {"das/basis", {kHidden, 24}},
          {"das/mask", {24}},
          {"pca/components", {8, kHidden}},
          {"pca/scales", {8}},
          {"reft/rotation", {4, kHidden}},
          {"reft/weight", {4, kHidden}},
          {"reft/bias", {4}},
          {"lens/translator", {kHidden, kHidden}},
          {"lens/bias", {kHidden}},
          {"probe/weight", {1, kHidden}},
          {"condition/projection", {kHidden, kHidden}},
          {"path/output_head", {kHidden, 32}},
          {"path/query_head", {32, kHidden}},
          {"unembed/mary_minus_john", {kHidden}},
          {"number", {}}};
}

HostTensor Halves(const std::vector<int64_t>& shape) {
  const std::vector<float> values(ElementCount(shape), 0.5f);
  return CopyOf(
      DType::kF32, shape,
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                          values.size() * sizeof(float)));
}

ServedModel Demo() {
  const auto config = ReadConfig(DEMO_MODEL);
  Expect(config.ok(), config.status().ToString());
  auto tokenizer = Tokenizer::Load(DEMO_MODEL);
  Expect(tokenizer.ok(), tokenizer.status().ToString());
  return {.name = "demo",
          .executor = "demo",
          .spec = config->spec,
          .compute_dtype = DType::kBF16,
          .batch_invariant = true,
          .tokenizer = *std::move(tokenizer)};
}

// What the demo model is not: grouped heads, a window, partial rotary, longrope
// factors; runs share no waves, and there is no tokenizer.
ServedModel Other() {
  ModelSpec spec = TinyGrouped();
  spec.longrope = LongRope{.short_factor = {1, 1},
                           .long_factor = {2, 2},
                           .original_max_positions = 32};
  return {.name = "other",
          .executor = "other#2",
          .spec = std::move(spec),
          .compute_dtype = DType::kF32,
          .batch_invariant = false};
}

}  // namespace

DemoServer& DemoServer::Get() {
  static auto& server = *new DemoServer();
  return server;
}

DemoServer::DemoServer()
    : tensors_(*NamedTensors::Open({.max_bytes = 8 << 20, .clock = &clock_})),
      caller_{.name = "somebody", .roles = {Role::kTrace, Role::kTensors}},
      limits_{.max_runs = 64,
              .max_request_tokens = 16384,
              .max_captures = 64,
              .max_tensors = 2048,
              .max_selected_indices = 1 << 16,
              .max_interventions = 1024,
              .max_program_nodes = 128,
              .max_lowered_nodes = 8192,
              .max_constant_bytes = 4096,
              .max_sweep_cells = 256,
              .max_linked_tokens = 256} {
  models_.Serve(std::make_shared<ServedModel>(Demo()));
  models_.Serve(std::make_shared<ServedModel>(Other()));
  for (const KeptTensor& tensor : KeptTensors()) {
    const absl::Status kept = tensors_->Of({.name = caller_.name})
                                  .Put(tensor.name, Halves(tensor.shape), "");
    Expect(kept.ok(), kept.ToString());
  }
}

PlanningParts DemoServer::parts() {
  return {.models = models_,
          .tensors = tensors_->Of({.name = caller_.name, .max_bytes = 4 << 20}),
          .identity = caller_,
          .limits = limits_};
}

std::vector<std::string> DemoServer::words() const {
  std::vector<std::string> words = {"demo", "other",      "user", "assistant",
                                    "sae",  "transcoder", "lens", "ä·"};
  for (const KeptTensor& tensor : KeptTensors()) words.push_back(tensor.name);
  for (const HookEntry& entry : HookCatalogue()) {
    if (!HasLayer(entry.hook)) {
      words.emplace_back(entry.name);
      continue;
    }
    for (const char* layers : {"0", "3", "-1", "*", "{1,2}"}) {
      words.push_back(
          absl::StrCat("layers.", layers, ".", std::string(entry.name)));
    }
  }
  return words;
}

}  // namespace phitap
