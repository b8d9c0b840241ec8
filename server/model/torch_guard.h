// Where libtorch's exceptions end.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_TORCH_GUARD_H_
#define PHITAP_SERVER_MODEL_TORCH_GUARD_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace phitap {

// Returns what `work` returns. RESOURCE_EXHAUSTED where memory ran out,
// INVALID_ARGUMENT for c10::ValueError (a value that a request has computed and
// that cannot be used as asked), INTERNAL for any other exception; the message
// is the exception's without its backtrace.
absl::Status RunGuarded(absl::FunctionRef<absl::Status()> work);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_TORCH_GUARD_H_
