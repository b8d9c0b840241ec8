// Early return on an error status. Debian 12's abseil has no such macros.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_STATUS_MACROS_H_
#define PHITAP_SERVER_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define PHITAP_CONCAT_INNER(a, b) a##b
#define PHITAP_CONCAT(a, b) PHITAP_CONCAT_INNER(a, b)

// RETURN_IF_ERROR(expression yielding absl::Status);
#define RETURN_IF_ERROR(expression)                                   \
  if (absl::Status phitap_status = (expression); !phitap_status.ok()) \
  return phitap_status

// ASSIGN_OR_RETURN(auto value, expression yielding absl::StatusOr);
#define ASSIGN_OR_RETURN(lhs, expression)                                 \
  ASSIGN_OR_RETURN_INNER(PHITAP_CONCAT(phitap_status_or_, __LINE__), lhs, \
                         expression)
#define ASSIGN_OR_RETURN_INNER(result, lhs, expression) \
  auto result = (expression);                           \
  if (!result.ok()) return std::move(result).status();  \
  lhs = *std::move(result)

#endif  // PHITAP_SERVER_BASE_STATUS_MACROS_H_
