// A tensor in a few numbers.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TENSOR_STATS_H_
#define PHITAP_CLIENT_CLI_TENSOR_STATS_H_

#include <cstdint>
#include <vector>

#include "server/base/host_tensor.h"

namespace phitap::cli {

// Of the finite values; zeros where there are none.
struct TensorStats {
  double low = 0;
  double high = 0;
  double mean = 0;
  // Euclidean norm.
  double norm = 0;
  // Values that are infinite or no number.
  int64_t not_finite = 0;
};

TensorStats StatsOf(const HostTensor& tensor);

// Euclidean norm, over all other dimensions, at each index of dimension `axis`.
std::vector<double> NormsAlong(const HostTensor& tensor, int axis);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TENSOR_STATS_H_
