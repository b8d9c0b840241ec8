// Bytes that stand for something planned, to be hashed: equal bytes for equal
// things, other bytes for others.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_SHARING_CANONICAL_BYTES_H_
#define PHITAP_SERVER_PLAN_SHARING_CANONICAL_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "server/plan/program.h"
#include "server/spec/hook_point.h"

namespace phitap {

// 128 bits of XXH3. 0,0 stands for "like no other".
using Digest = std::pair<uint64_t, uint64_t>;

Digest DigestOf(absl::Span<const std::byte> bytes);

// A list goes in with its length, so that no two sequences of calls with other
// arguments make the same bytes. Thread-compatible.
class CanonicalBytes {
 public:
  CanonicalBytes& Add(int64_t number);
  // Its bits: 0 and −0 are two numbers.
  CanonicalBytes& Add(const std::optional<double>& number);
  CanonicalBytes& Add(const std::vector<int64_t>& numbers);
  CanonicalBytes& Add(const std::optional<std::vector<int64_t>>& numbers);
  CanonicalBytes& Add(HookPoint point);
  CanonicalBytes& Add(const ResolvedSelection& selection);
  CanonicalBytes& Add(const Digest& digest);

  Digest Hash() const;

 private:
  std::string bytes_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_SHARING_CANONICAL_BYTES_H_
