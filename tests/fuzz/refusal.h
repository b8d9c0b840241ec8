// What a caller is told where its request is refused.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_REFUSAL_H_
#define PHITAP_TESTS_FUZZ_REFUSAL_H_

#include <google/protobuf/stubs/common.h>

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "server/base/field_error.h"
#include "tests/fuzz/expect.h"

namespace phitap {

// A line of text, whatever a caller has put into it.
inline void ExpectLine(absl::string_view text) {
  constexpr size_t kMostBytes = 2000;  // what is sent of it
  Expect(text.size() <= kMostBytes, "a message is not longer than is sent");
  Expect(google::protobuf::internal::IsStructurallyValidUTF8(
             text.data(), static_cast<int>(text.size())),
         "a message is text");
  Expect(std::none_of(text.begin(), text.end(), absl::ascii_iscntrl),
         "a message is one line");
}

// The request could never work, or not here: the field is named.
inline void ExpectFieldRefusal(const absl::Status& status) {
  if (status.ok()) return;
  ExpectRefusal(status);
  ExpectLine(status.message());
  Expect(!FieldOf(status).empty(), status.ToString());
}

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_REFUSAL_H_
