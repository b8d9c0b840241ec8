// Ends the process, so that the fuzzer keeps what led there.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_EXPECT_H_
#define PHITAP_TESTS_FUZZ_EXPECT_H_

#include <cstdio>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phitap {

// What must hold for every input.
inline void Expect(bool holds, absl::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::abort();
}

// A refusal is one that a caller can act on: it says why, and blames no defect
// of ours.
inline void ExpectRefusal(const absl::Status& status) {
  if (status.ok()) return;
  Expect(!status.message().empty(), "an error says what is wrong");
  Expect(status.code() != absl::StatusCode::kInternal &&
             status.code() != absl::StatusCode::kUnknown,
         status.ToString());
}

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_EXPECT_H_
