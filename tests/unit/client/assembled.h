// Traces put together from streams that a test writes down.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_CLIENT_ASSEMBLED_H_
#define PHITAP_TESTS_UNIT_CLIENT_ASSEMBLED_H_

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "client/cpp/trace_assembler.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/small_streams.h"

namespace phitap::client {

inline absl::StatusOr<Trace> Assemble(
    const std::vector<v1::TraceResponse>& messages) {
  TraceAssembler assembler;
  for (const v1::TraceResponse& message : messages) {
    if (absl::Status status = assembler.Add(Received(message)); !status.ok()) {
      return status;
    }
  }
  return std::move(assembler).Finish();
}

inline testing::Matcher<absl::StatusOr<Trace>> IsLost(
    const std::string& message) {
  return StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr(message));
}

}  // namespace phitap::client

#endif  // PHITAP_TESTS_UNIT_CLIENT_ASSEMBLED_H_
