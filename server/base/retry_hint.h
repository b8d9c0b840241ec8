// When it is worth trying again what did not fit now.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_RETRY_HINT_H_
#define PHITAP_SERVER_BASE_RETRY_HINT_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace phitap {

// `status` with the hint, which is also said in its message; others than
// UNAVAILABLE as they are.
absl::Status WithRetryHint(absl::Status status, absl::Duration delay);

// The hint of a status made by WithRetryHint, in whole milliseconds.
std::optional<absl::Duration> RetryHintOf(const absl::Status& status);

}  // namespace phitap

#endif  // PHITAP_SERVER_BASE_RETRY_HINT_H_
