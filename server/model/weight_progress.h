// How far the loading of weights is.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_WEIGHT_PROGRESS_H_
#define PHITAP_SERVER_MODEL_WEIGHT_PROGRESS_H_

#include <functional>

#include "absl/status/status.h"

namespace phitap {

// Told after each layer how much of the weights is there, from 0 to 1, on the
// thread that loads. An error ends the loading with it.
using WeightProgress = std::function<absl::Status(double share)>;

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_WEIGHT_PROGRESS_H_
