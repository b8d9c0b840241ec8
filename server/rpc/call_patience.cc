#include "server/rpc/call_patience.h"

#include <algorithm>
#include <chrono>

namespace phitap {

absl::Duration PatienceOf(const grpc::CallbackServerContext& context,
                          const ServiceLimits& limits) {
  const auto asked = context.deadline();
  if (asked == std::chrono::system_clock::time_point::max()) {
    return limits.default_deadline;
  }
  // gRPC knows what is left, and tells it by the machine's clock, which may
  // have been set since ours was made. absl::Now() would notice that late.
  return std::min(absl::FromChrono(asked - std::chrono::system_clock::now()),
                  limits.max_deadline);
}

}  // namespace phitap
