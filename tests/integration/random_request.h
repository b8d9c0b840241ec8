// Requests that are half sense: every field that the protocol has, with values
// that often fit.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_INTEGRATION_RANDOM_REQUEST_H_
#define PHITAP_TESTS_INTEGRATION_RANDOM_REQUEST_H_

#include <random>

#include "phitap/v1/trace.pb.h"

namespace phitap {

// Of the model `tiny`: runs a and b of four tokens, a constant `c` and a node
// `n`, edited, generated from, differentiated and swept in ways that mostly
// work; to half of them fields are added at random.
v1::TraceRequest RandomRequest(std::mt19937& random);

}  // namespace phitap

#endif  // PHITAP_TESTS_INTEGRATION_RANDOM_REQUEST_H_
