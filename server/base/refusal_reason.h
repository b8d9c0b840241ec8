// Why a request was not taken on, as one of a few words that can be counted.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_REFUSAL_REASON_H_
#define PHITAP_SERVER_BASE_REFUSAL_REASON_H_

#include <array>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phitap {

enum class RefusalReason {
  // Nobody knows the caller.
  kUnauthenticated,
  // The caller lacks a role.
  kForbidden,
  // A field or value that cannot work.
  kInvalid,
  // A model or tensor that is not there.
  kUnknownName,
  // It can never fit.
  kTooLarge,
  // As many requests wait as may.
  kQueueFull,
  // As many requests of the caller wait as may.
  kCallerQueueFull,
  // No room for its bytes beside those of others.
  kMemory,
  // No room for its bytes beside the caller's own.
  kCallerMemory,
  // As many calls wait to be planned as may.
  kPlanningBacklog,
  // The identity's requests at once.
  kRequestQuota,
  // The identity's bytes.
  kByteQuota,
  // The identity's tokens a minute.
  kTokenQuota,
  // The server or the model ends.
  kStopping,
  kOther,
};

inline constexpr std::array kRefusalReasons = {RefusalReason::kUnauthenticated,
                                               RefusalReason::kForbidden,
                                               RefusalReason::kInvalid,
                                               RefusalReason::kUnknownName,
                                               RefusalReason::kTooLarge,
                                               RefusalReason::kQueueFull,
                                               RefusalReason::kCallerQueueFull,
                                               RefusalReason::kMemory,
                                               RefusalReason::kCallerMemory,
                                               RefusalReason::kPlanningBacklog,
                                               RefusalReason::kRequestQuota,
                                               RefusalReason::kByteQuota,
                                               RefusalReason::kTokenQuota,
                                               RefusalReason::kStopping,
                                               RefusalReason::kOther};

// "queue_full".
absl::string_view Name(RefusalReason reason);

// `status`, an error, with its reason: one that the code alone does not tell.
absl::Status WithRefusalReason(absl::Status status, RefusalReason reason);

// What WithRefusalReason said, else what the code of the error tells.
RefusalReason RefusalReasonOf(const absl::Status& status);

}  // namespace phitap

#endif  // PHITAP_SERVER_BASE_REFUSAL_REASON_H_
