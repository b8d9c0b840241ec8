// Names under which tensors are kept on the server.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_TENSOR_NAME_H_
#define PHITAP_SERVER_PLAN_TENSOR_NAME_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phitap {

// INVALID_ARGUMENT against `field` unless `name` has 1 to 256 letters, digits
// and `_ - . /`, the first of them no `.` or `/`.
absl::Status CheckTensorName(absl::string_view name, absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_TENSOR_NAME_H_
