// Element types between the wire and host tensors.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_WIRE_DTYPE_H_
#define PHITAP_CLIENT_CPP_WIRE_DTYPE_H_

#include <string>

#include "absl/status/statusor.h"
#include "phitap/v1/tensor.pb.h"
#include "server/base/dtype.h"

namespace phitap::client {

// INVALID_ARGUMENT where the wire's type is unspecified or newer than this
// client.
absl::StatusOr<DType> FromWire(v1::DataType dtype);

v1::DataType ToWire(DType dtype);

// "float32", "bfloat16", …; "unspecified" and the number of unknown ones.
std::string WireName(v1::DataType dtype);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_WIRE_DTYPE_H_
