// Matchers for absl::Status and StatusOr; Debian 12's abseil has none.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define PHITAP_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <gmock/gmock.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phitap {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

// EXPECT_THAT(Open(path), IsOk());
MATCHER(IsOk, "") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).ok();
}

// EXPECT_THAT(Open(path), StatusIs(absl::StatusCode::kNotFound,
// HasSubstr("x")));
MATCHER_P2(StatusIs, code, message,
           absl::StatusCodeToString(code) + " with a message that " +
               testing::DescribeMatcher<std::string>(message, negation)) {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).code() == code &&
         testing::Matches(message)(std::string(StatusOf(arg).message()));
}

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_STATUS_MATCHERS_H_
