// Tiny models and random prompts for tests of the forward.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_MODEL_FORWARD_FIXTURE_H_
#define PHITAP_TESTS_UNIT_MODEL_FORWARD_FIXTURE_H_

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "server/model/phi3.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/recording_hooks.h"

namespace phitap {

// A model of that kind, stored in `dtype`. Aborts where it cannot be loaded.
std::unique_ptr<Phi3> TinyModel(TinyKind kind, DType dtype);
// The kind `window` with another one: over several tiles from 33 on.
std::unique_ptr<Phi3> ModelWithWindow(int64_t window, DType dtype);

// A run and what it asks for; by default all of it.
struct Prompt {
  std::vector<int32_t> ids;
  std::vector<int64_t> position_ids;
  bool has_position_ids = false;
  std::vector<int64_t> hidden;
  int layer_count = 0;
  std::vector<int64_t> tail, norm, head;

  int64_t token_count() const { return static_cast<int64_t>(ids.size()); }
  ForwardRow Row() const;
};

// Every value of every layer of the model.
Prompt WholePrompt(const Phi3& model, std::vector<int32_t> ids);
// The same up to `token_count` tokens.
Prompt PrefixOf(const Phi3& model, const Prompt& prompt, int64_t token_count);
Prompt RandomPrompt(const Phi3& model, int64_t token_count,
                    std::mt19937& random);

using Records = std::map<RecordingHooks::Key, Recorded>;

// Everything that a forward of the prompts shows.
Records ForwardAll(const Phi3& model, const std::vector<Prompt>& prompts,
                   const ForwardOptions& options = {});

// The same shape, element type and bytes, any NaN equal to any NaN.
bool SameBits(const at::Tensor& a, const at::Tensor& b);

// "attention_keys of layer 1", for messages.
std::string NameOf(const RecordingHooks::Key& key);

bool IsPattern(Hook hook);

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_MODEL_FORWARD_FIXTURE_H_
