#include "server/plan/sharing/canonical_bytes.h"

#include <xxhash.h>

#include <bit>

namespace phitap {

Digest DigestOf(absl::Span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

CanonicalBytes& CanonicalBytes::Add(int64_t number) {
  bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  return *this;
}

CanonicalBytes& CanonicalBytes::Add(const std::optional<double>& number) {
  Add(int64_t{number.has_value()});
  return number.has_value() ? Add(std::bit_cast<int64_t>(*number)) : *this;
}

CanonicalBytes& CanonicalBytes::Add(const std::vector<int64_t>& numbers) {
  Add(static_cast<int64_t>(numbers.size()));
  bytes_.append(reinterpret_cast<const char*>(numbers.data()),
                numbers.size() * sizeof(int64_t));
  return *this;
}

CanonicalBytes& CanonicalBytes::Add(
    const std::optional<std::vector<int64_t>>& numbers) {
  Add(int64_t{numbers.has_value()});
  return numbers.has_value() ? Add(*numbers) : *this;
}

CanonicalBytes& CanonicalBytes::Add(HookPoint point) {
  return Add(static_cast<int64_t>(point.hook)).Add(int64_t{point.layer});
}

CanonicalBytes& CanonicalBytes::Add(const ResolvedSelection& selection) {
  return Add(selection.positions)
      .Add(selection.heads)
      .Add(selection.features)
      .Add(selection.queries)
      .Add(selection.keys);
}

CanonicalBytes& CanonicalBytes::Add(const Digest& digest) {
  return Add(std::bit_cast<int64_t>(digest.first))
      .Add(std::bit_cast<int64_t>(digest.second));
}

Digest CanonicalBytes::Hash() const {
  return DigestOf(
      {reinterpret_cast<const std::byte*>(bytes_.data()), bytes_.size()});
}

}  // namespace phitap
