#include "server/rpc/request_id.h"

#include <cstdint>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"

namespace phitap {

std::string NewRequestId() {
  thread_local absl::BitGen random;
  return absl::StrCat(
      absl::Hex(absl::Uniform<uint64_t>(random), absl::PadSpec::kZeroPad16));
}

}  // namespace phitap
