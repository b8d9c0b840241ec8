// A trace that is refused: what spoils it, and what the refusal says.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_INTEGRATION_TRACE_REFUSALS_H_
#define PHITAP_TESTS_INTEGRATION_TRACE_REFUSALS_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/integration/served_models_fixture.h"

namespace phitap {

struct Refusal {
  std::string name;
  // What makes a good request a bad one.
  std::function<void(v1::TraceRequest&)> spoil;
  // In the message: the field, and what else must be said.
  std::vector<std::string> says;
  grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT;
};

// Instantiate it with the refusals of one part of the request.
class TraceRefusals : public ServedModelsTest,
                      public ::testing::WithParamInterface<Refusal> {};

inline std::string NameOfRefusal(
    const ::testing::TestParamInfo<Refusal>& info) {
  return info.param.name;
}

}  // namespace phitap

#endif  // PHITAP_TESTS_INTEGRATION_TRACE_REFUSALS_H_
