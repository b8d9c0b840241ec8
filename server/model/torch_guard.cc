// SPDX-License-Identifier: Apache-2.0
#include "server/model/torch_guard.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace phitap {
namespace {

// The CPU allocator throws a plain c10::Error.
bool TellsOfMemory(absl::string_view message) {
  return absl::StrContains(message, "can't allocate memory") ||
         absl::StrContains(message, "not enough memory");
}

}  // namespace

absl::Status RunGuarded(absl::FunctionRef<absl::Status()> work) {
  try {
    return work();
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    return absl::InvalidArgumentError(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    const absl::string_view message = error.what_without_backtrace();
    return TellsOfMemory(message) ? absl::ResourceExhaustedError(message)
                                  : absl::InternalError(message);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace phitap
