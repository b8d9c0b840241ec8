// Elements of host tensors as numbers.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_FLOAT_VALUES_H_
#define PHITAP_CLIENT_CPP_FLOAT_VALUES_H_

#include <cstdint>
#include <vector>

#include "server/base/host_tensor.h"

namespace phitap::client {

// The upper half of an IEEE binary32.
float FromBfloat16(uint16_t bits);
// IEEE binary16, subnormals, infinities and NaN included.
float FromFloat16(uint16_t bits);

// Element `index` in row-major order. Exact for every type but int64 beyond
// 2^53.
double ElementAt(const HostTensor& tensor, int64_t index);

// `count` elements from `start` on.
std::vector<double> ElementsAt(const HostTensor& tensor, int64_t start,
                               int64_t count);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_FLOAT_VALUES_H_
