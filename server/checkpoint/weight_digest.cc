#include "server/checkpoint/weight_digest.h"

#include <xxhash.h>

#include <memory>
#include <type_traits>
#include <vector>

#include "absl/strings/escaping.h"
#include "server/checkpoint/file_bytes.h"

namespace phitap {
namespace {

constexpr size_t kPieceBytes = 4096;
constexpr size_t kPieces = 16;

template <typename T>
void Hash(XXH3_state_t* state, const T& value) {
  static_assert(std::is_arithmetic_v<T>);
  XXH3_128bits_update(state, &value, sizeof(value));
}

void Hash(XXH3_state_t* state, absl::Span<const std::byte> bytes) {
  // The length first, so that neighbours cannot trade bytes.
  Hash(state, static_cast<int64_t>(bytes.size()));
  XXH3_128bits_update(state, bytes.data(), bytes.size());
}

void Hash(XXH3_state_t* state, const std::string& text) {
  Hash(state,
       absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()),
                           text.size()));
}

template <typename T>
void Hash(XXH3_state_t* state, const std::vector<T>& values) {
  Hash(state, static_cast<int64_t>(values.size()));
  for (const T& value : values) Hash(state, value);
}

std::vector<absl::Span<const std::byte>> Sample(
    absl::Span<const std::byte> bytes) {
  if (bytes.size() <= kPieces * kPieceBytes) return {bytes};
  std::vector<absl::Span<const std::byte>> pieces;
  const size_t last = bytes.size() - kPieceBytes;
  for (size_t piece = 0; piece < kPieces; ++piece) {
    const size_t start = last / (kPieces - 1) * piece;
    pieces.push_back(
        bytes.subspan(piece + 1 == kPieces ? last : start, kPieceBytes));
  }
  return pieces;
}

}  // namespace

struct WeightDigest::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> hash{XXH3_createState()};
};

WeightDigest::WeightDigest(const ModelSpec& spec)
    : state_(std::make_unique<State>()) {
  XXH3_state_t* hash = state_->hash.get();
  XXH3_128bits_reset(hash);
  Hash(hash, spec.architecture);
  for (const int64_t size :
       {spec.num_layers, spec.hidden_size, spec.num_heads, spec.num_kv_heads,
        spec.head_dim, spec.rotary_dims, spec.intermediate_size,
        spec.vocab_size, spec.sliding_window.value_or(0)}) {
    Hash(hash, size);
  }
  Hash(hash, spec.hidden_act);
  Hash(hash, spec.rms_norm_eps);
  Hash(hash, spec.rope_theta);
  Hash(hash, spec.longrope.has_value());
  if (!spec.longrope) return;
  Hash(hash, spec.longrope->short_factor);
  Hash(hash, spec.longrope->long_factor);
  Hash(hash, spec.longrope->original_max_positions);
  Hash(hash, spec.longrope->attention_factor);
}

WeightDigest::~WeightDigest() = default;

void WeightDigest::Add(const std::string& name, const HostTensor& tensor) {
  XXH3_state_t* hash = state_->hash.get();
  Hash(hash, name);
  Hash(hash, std::string(Name(tensor.dtype)));
  Hash(hash, tensor.shape);
  const auto pieces = Sample(tensor.bytes);
  for (const absl::Span<const std::byte> piece : pieces) Prefetch(piece);
  for (const absl::Span<const std::byte> piece : pieces) Hash(hash, piece);
}

std::string WeightDigest::Finish() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->hash.get()));
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(canonical.digest),
       sizeof(canonical.digest)});
}

}  // namespace phitap
