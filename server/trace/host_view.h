// Hands a tensor's bytes over to code without libtorch.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_HOST_VIEW_H_
#define PHITAP_SERVER_TRACE_HOST_VIEW_H_

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "server/base/dtype.h"
#include "server/base/host_tensor.h"

namespace phitap {

// The inverse of ScalarTypeOf in server/model/weights.h.
DType DTypeOf(c10::ScalarType type);

// `value`, contiguous: a view where it covers at least half of the storage that
// it would keep alive, else a copy. What is viewed must not be written any
// more.
at::Tensor ToKeep(const at::Tensor& value);

// The bytes of ToKeep(value).
HostTensor ToHost(const at::Tensor& value);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_HOST_VIEW_H_
