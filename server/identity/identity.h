// Who a caller is and what it may do.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_IDENTITY_IDENTITY_H_
#define PHITAP_SERVER_IDENTITY_IDENTITY_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phitap {

enum class Role {
  // Reads models, tokenizes, plans and runs traces.
  kTrace,
  // Puts, lists and deletes named tensors.
  kTensors,
  // Loads and unloads models, sees everybody's load, drains the server.
  kAdmin,
};

// "trace", "tensors", "admin".
absl::string_view Name(Role role);
// The role of that name.
std::optional<Role> RoleOf(absl::string_view name);

// What one identity may have at once, over all of its connections. Each bound
// stands beside the server's own, and the smaller one counts.
struct Quotas {
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
  // Traces that are queued or computed.
  int64_t max_requests = kUnbounded;
  // Bytes of answers that are queued, computed or not yet sent.
  int64_t max_queued_bytes = kUnbounded;
  // Prompt and generated tokens that are accepted in a minute.
  int64_t max_tokens_per_minute = kUnbounded;
  // Bytes of its named tensors.
  int64_t max_tensor_bytes = kUnbounded;
};

// Immutable once shared.
struct Identity {
  // Empty for callers that do not have to say who they are: these are one
  // identity with one set of named tensors, and each connection takes its own
  // turns.
  std::string name;
  std::set<Role> roles;
  Quotas quotas;
};

// PERMISSION_DENIED against `field` (empty for a whole call), with the role
// that is missing.
absl::Status CheckRole(const Identity& identity, Role role,
                       absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_IDENTITY_IDENTITY_H_
