// Headers nobody would write: whatever a file says, it is read or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/checkpoint/safetensors_header.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

constexpr int kMutations = 20'000;

// Pieces that a header is made of, and numbers at the edges of types.
constexpr const char* kPieces[] = {"{",
                                   "}",
                                   "[",
                                   "]",
                                   ":",
                                   ",",
                                   "\"",
                                   "0",
                                   "-1",
                                   "1e308",
                                   "null",
                                   "8",
                                   "F32",
                                   "F4",
                                   "BF16",
                                   "\\",
                                   "\xFF",
                                   "4294967296",
                                   "18446744073709551615",
                                   "9223372036854775807",
                                   "data_offsets",
                                   "shape",
                                   "dtype",
                                   "__metadata__",
                                   "model.norm.weight"};

// `bytes` after a few changes; the header's length follows what the change did,
// or lies.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string Mutate(std::string bytes) {
    const int changes = 1 + Below(4);
    for (int i = 0; i < changes && !bytes.empty(); ++i) Change(bytes);
    return bytes;
  }

 private:
  size_t Below(size_t bound) { return random_() % bound; }

  void Change(std::string& bytes) {
    const size_t place = Below(bytes.size());
    switch (Below(7)) {
      case 0:
        bytes[place] = static_cast<char>(random_());
        return;
      case 1:
        bytes[place] ^= static_cast<char>(1 << Below(8));
        return;
      case 2:
        bytes.resize(place);
        return;
      case 3:
        bytes.erase(place, 1 + Below(16));
        return FixLength(bytes);
      case 4:
        bytes.insert(place, kPieces[Below(std::size(kPieces))]);
        return FixLength(bytes);
      case 5:
        bytes.insert(place, bytes.substr(Below(bytes.size()), Below(64)));
        return FixLength(bytes);
      default:
        return ChangeNumber(bytes, place);
    }
  }

  // Makes the length agree with the last closing brace, so that what is inside
  // gets read.
  void FixLength(std::string& bytes) {
    const size_t brace = bytes.rfind('}');
    if (bytes.size() < 8 || brace == std::string::npos || brace < 8) return;
    const uint64_t length = brace + 1 - 8;
    std::memcpy(bytes.data(), &length, sizeof(length));
  }

  // Replaces the digits at or after `place`.
  void ChangeNumber(std::string& bytes, size_t place) {
    const size_t start = bytes.find_first_of("0123456789", place);
    if (start == std::string::npos) return;
    const size_t end = bytes.find_first_not_of("0123456789", start);
    if (end == std::string::npos) return;
    bytes.replace(start, end - start, absl::StrCat(random_() >> Below(64)));
    FixLength(bytes);
  }

  std::mt19937_64 random_;
};

// A copy whose end is the end of an allocation, for the address sanitizer.
struct ExactBytes {
  explicit ExactBytes(const std::string& text)
      : memory(new std::byte[text.size()]), size(text.size()) {
    std::memcpy(memory.get(), text.data(), size);
  }
  absl::Span<const std::byte> span() const { return {memory.get(), size}; }
  std::unique_ptr<std::byte[]> memory;
  size_t size;
};

// What a reader may rely on once a header has been accepted.
void ExpectTensorsTileTheFile(const std::vector<StoredTensor>& tensors,
                              size_t file_size) {
  if (tensors.empty()) return;
  int64_t end = tensors.front().offset_bytes;
  ASSERT_GE(end, 8);
  for (const StoredTensor& tensor : tensors) {
    ASSERT_EQ(tensor.offset_bytes, end);
    ASSERT_GE(tensor.size_bytes, 0);
    end += tensor.size_bytes;
  }
  ASSERT_EQ(static_cast<size_t>(end), file_size);
}

TEST(ParseSafetensorsHeader, ReadsOrRefusesWhateverAHeaderSays) {
  nlohmann::json config = TinyConfig(TinyKind::kWindow);
  config["num_hidden_layers"] = 1;
  config["hidden_size"] = 4;
  config["intermediate_size"] = 4;
  config["vocab_size"] = 4;
  const std::string valid = SafetensorsBytes(
      SeededCheckpoint(config, {.dtype = DType::kBF16}).tensors);
  int accepted = 0;
  int refused = 0;
  for (int seed = 0; seed < kMutations; ++seed) {
    SCOPED_TRACE(seed);
    const ExactBytes bytes(Mutator(seed).Mutate(valid));
    const auto tensors = ParseSafetensorsHeader(bytes.span(), "x.safetensors");
    if (tensors.ok()) {
      ++accepted;
      ASSERT_NO_FATAL_FAILURE(ExpectTensorsTileTheFile(*tensors, bytes.size));
    } else {
      ++refused;
      ASSERT_THAT(tensors, StatusIs(absl::StatusCode::kDataLoss,
                                    testing::StartsWith("x.safetensors: ")));
    }
  }
  // Both outcomes are met often, else the mutations test little.
  EXPECT_GT(accepted, kMutations / 50);
  EXPECT_GT(refused, kMutations / 2);
}

}  // namespace
}  // namespace phitap
