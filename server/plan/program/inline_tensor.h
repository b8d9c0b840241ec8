// Tensors that travel inside a request.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_INLINE_TENSOR_H_
#define PHITAP_SERVER_PLAN_PROGRAM_INLINE_TENSOR_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/tensor.pb.h"
#include "server/base/host_tensor.h"

namespace phitap {

// A small tensor of a request, of a floating-point type: integers become
// float32. INVALID_ARGUMENT against a field under `field` where type, shape and
// bytes disagree, an element is not finite or an integer is none of float32's.
absl::StatusOr<HostTensor> InlineTensor(const v1::Tensor& tensor,
                                        absl::string_view field);

// A tensor of int32 or int64 as float32, any floating-point one as it is.
// INVALID_ARGUMENT against `field` for an integer that float32 does not hold
// and for booleans.
absl::StatusOr<HostTensor> FloatingTensor(HostTensor tensor,
                                          absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_INLINE_TENSOR_H_
