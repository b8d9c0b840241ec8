// Small real checkpoints of the Phi-3 family, written to temporary folders.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_CHECKPOINT_FILES_H_
#define PHITAP_TESTS_SUPPORT_CHECKPOINT_FILES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/base/dtype.h"

namespace phitap {

// A folder that lives as long as the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  // `path()`/`name`.
  std::string File(absl::string_view name) const;
  void Write(absl::string_view name, absl::string_view bytes) const;

 private:
  std::string path_;
};

// A tensor as a safetensors file stores it.
struct RawTensor {
  std::string name;
  std::string dtype;  // "F32", "BF16", …
  std::vector<int64_t> shape;
  std::string bytes;
};

// The bytes of a safetensors file: a header padded with spaces to a multiple of
// 8, then the tensors in their order.
std::string SafetensorsBytes(const std::vector<RawTensor>& tensors);
// The same around a header that may be anything.
std::string SafetensorsBytes(absl::string_view header, absl::string_view data);

// The kinds of checkpoint that the family has. All have a vocabulary of 96.
enum class TinyKind {
  kWindow,          // Phi-3-mini-4k: a window of 8
  kLongRope,        // Phi-3.5-mini: longrope from 16 positions on
  kSu,              // Phi-3-medium-128k: the same under its old name, 4:1 heads
  kGroupedQueries,  // Phi-3-medium-4k: 4 query heads a key head
  kPartialTied,     // Phi-4-mini: three quarters rotary, longrope, tied head
  kPhi4,            // phi-4: large theta, null window
  kHeadDim,         // a head_dim that is not hidden_size / heads
};
inline constexpr TinyKind kTinyKinds[] = {
    TinyKind::kWindow,         TinyKind::kLongRope,    TinyKind::kSu,
    TinyKind::kGroupedQueries, TinyKind::kPartialTied, TinyKind::kPhi4,
    TinyKind::kHeadDim};
// "window", "longrope", …
std::string Name(TinyKind kind);
// In the spelling of transformers 4.
nlohmann::json TinyConfig(TinyKind kind);

// A checkpoint not yet written: change what a test is about, then Write.
struct CheckpointFiles {
  nlohmann::json config;
  std::optional<nlohmann::json> generation_config;
  std::vector<RawTensor> tensors;

  // The tensor of that name, which must be there.
  RawTensor& Tensor(absl::string_view name);
  void Remove(absl::string_view name);
  // With model.safetensors.
  void Write(const TempFolder& folder) const;
  // With `count` shards, tensors dealt out in order, and their index.
  void WriteSharded(const TempFolder& folder, size_t count) const;
};

struct TinyWeights {
  DType dtype = DType::kF32;
  uint64_t seed = 1;
};

// The same seed gives the same numbers in every element type: each is exact in
// bfloat16 and in float16.
CheckpointFiles TinyCheckpoint(TinyKind kind, TinyWeights weights = {});
// For any config with the sizes of TinyConfig's keys.
CheckpointFiles SeededCheckpoint(nlohmann::json config, TinyWeights weights);

// Public files to test against, see PHITAP_TEST_DATA: that folder, by default
// ../shared/data beside the source tree; none where it is not there.
std::optional<std::string> TestDataFolder();

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_CHECKPOINT_FILES_H_
