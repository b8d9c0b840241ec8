#include "server/rpc/admin_messages.h"

#include "absl/time/time.h"

namespace phitap {
namespace {

v1::ModelStatus ToWire(ModelStatus status) {
  switch (status) {
    case ModelStatus::kAvailable:
      return v1::MODEL_STATUS_AVAILABLE;
    case ModelStatus::kLoading:
      return v1::MODEL_STATUS_LOADING;
    case ModelStatus::kReady:
      return v1::MODEL_STATUS_READY;
    case ModelStatus::kUnloading:
      return v1::MODEL_STATUS_UNLOADING;
    case ModelStatus::kFailed:
      return v1::MODEL_STATUS_FAILED;
  }
  return v1::MODEL_STATUS_UNSPECIFIED;
}

}  // namespace

v1::ModelState DescribeState(const ModelState& state,
                             const ModelKeeper& keeper) {
  v1::ModelState described;
  described.set_name(state.name);
  described.set_path(state.path);
  described.set_status(ToWire(state.status));
  described.set_stage(state.stage);
  described.set_progress(state.progress);
  described.set_failure(state.failure);
  described.set_weight_bytes(state.weight_bytes);
  described.set_requests(keeper.requests_of(state));
  if (state.status != ModelStatus::kAvailable) {
    described.mutable_status_time()->set_seconds(
        absl::ToUnixSeconds(state.since));
    described.mutable_status_time()->set_nanos(
        static_cast<int32_t>(absl::ToUnixNanos(state.since) % 1'000'000'000));
  }
  return described;
}

v1::ListModelStatesResponse DescribeStates(const ModelKeeper& keeper) {
  v1::ListModelStatesResponse response;
  for (const ModelState& state : keeper.states()) {
    *response.add_models() = DescribeState(state, keeper);
  }
  return response;
}

std::optional<LogLevel> FromWire(v1::LogVerbosity verbosity) {
  switch (verbosity) {
    case v1::LOG_VERBOSITY_DEBUG:
      return LogLevel::kDebug;
    case v1::LOG_VERBOSITY_INFO:
      return LogLevel::kInfo;
    case v1::LOG_VERBOSITY_WARNING:
      return LogLevel::kWarning;
    case v1::LOG_VERBOSITY_ERROR:
      return LogLevel::kError;
    default:
      return std::nullopt;
  }
}

}  // namespace phitap
