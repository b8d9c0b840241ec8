// Element types of tensors: what a checkpoint stores, the model computes and
// the wire carries. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_DTYPE_H_
#define PHITAP_SERVER_BASE_DTYPE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace phitap {

enum class DType { kF32, kF16, kBF16, kI64, kI32, kBool };

// Bytes of one element.
int64_t SizeInBytes(DType dtype);

// "float32", "bfloat16", …: the names that flags, messages and the terminal
// use.
absl::string_view Name(DType dtype);

}  // namespace phitap

#endif  // PHITAP_SERVER_BASE_DTYPE_H_
