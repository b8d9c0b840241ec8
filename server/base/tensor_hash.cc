#include "server/base/tensor_hash.h"

#include <xxhash.h>

// Chooses at run time, where the library has more than one way. Its own names
// stay those of the narrowest vectors: a quarter of the speed.
#ifdef __x86_64__
#include <xxh_x86dispatch.h>
#endif

namespace phitap {

void TensorHash::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

TensorHash::TensorHash() : state_(XXH3_createState()) { Reset(); }

void TensorHash::Add(absl::Span<const std::byte> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

uint64_t TensorHash::Value() const { return XXH3_64bits_digest(state_.get()); }

void TensorHash::Reset() { XXH3_64bits_reset(state_.get()); }

uint64_t HashTensor(absl::Span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace phitap
