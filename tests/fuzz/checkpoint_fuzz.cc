// A checkpoint's folder: its configs, its index and the headers of its files.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/config.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/file_parts.h"

namespace phitap {
namespace {

const std::vector<std::string>& FileNames() {
  static const auto& names = *new std::vector<std::string>(
      {"config.json", "generation_config.json", "model.safetensors",
       "model.safetensors.index.json", "a.safetensors", "b.safetensors",
       "adapter_config.json"});
  return names;
}

// What the engine divides by and allocates.
void ExpectUsable(const ModelSpec& spec) {
  Expect(spec.num_layers > 0 && spec.hidden_size > 0 && spec.vocab_size > 0 &&
             spec.intermediate_size > 0 && spec.max_positions > 0,
         "sizes are positive");
  Expect(spec.num_heads > 0 && spec.num_kv_heads > 0 &&
             spec.num_heads % spec.num_kv_heads == 0,
         "every query head has a key head");
  Expect(spec.head_dim > 0 && spec.rotary_dims > 0 &&
             spec.rotary_dims <= spec.head_dim && spec.rotary_dims % 2 == 0,
         "the rotary turns pairs of a head's dimensions");
  Expect(!spec.sliding_window.has_value() || *spec.sliding_window > 0,
         "a window sees something");
  if (!spec.longrope.has_value()) return;
  const auto pairs = static_cast<size_t>(spec.rotary_dims / 2);
  Expect(spec.longrope->short_factor.size() == pairs &&
             spec.longrope->long_factor.size() == pairs,
         "a factor for each pair");
}

void Open(const std::string& folder) {
  const auto config = ReadConfig(folder);
  ExpectRefusal(config.status());
  if (config.ok()) ExpectUsable(config->spec);
  ExpectRefusal(FindWeights(folder).status());
  const auto checkpoint = Checkpoint::Open(folder, WeightStorage::kCopy);
  ExpectRefusal(checkpoint.status());
  if (!checkpoint.ok()) return;
  Expect(config.ok(), "no checkpoint without a config");
  Expect((*checkpoint)->digest().size() == 32, "a digest of 32 digits");
}

}  // namespace
}  // namespace phitap

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  const phitap::TempFolder folder;
  const auto parts = phitap::FileParts(input, size, phitap::FileNames());
  for (const auto& [name, text] : parts) {
    folder.Write(
        name, absl::EndsWith(name, ".safetensors")
                  ? phitap::WithData(absl::StripTrailingAsciiWhitespace(text))
                  : text);
  }
  phitap::Open(folder.path());
  return 0;
}
