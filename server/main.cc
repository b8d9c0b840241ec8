// phitapd: reads its configuration, serves, stops.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <string>

#include "server/config.h"
#include "server/observe/log.h"
#include "server/process_limits.h"
#include "server/serve.h"
#include "server/stop_request.h"
#include "server/stop_signal.h"
#include "server/thread_spin.h"

namespace phitap {
namespace {

int Main(int argc, const char* const* argv) {
  const ConfigOutcome outcome = ReadServerConfig(argc, argv);
  if (!outcome.config.has_value()) {
    (outcome.exit_code == 0 ? std::cout : std::cerr)
        << outcome.text << std::endl;
    return outcome.exit_code;
  }
  SetUpLog(outcome.config->log);
  static StopRequest stop;
  WatchStopSignals(stop);
  const absl::Status status = Serve(*outcome.config, stop);
  if (status.ok()) return 0;
  Log(LogLevel::kError,
      absl::IsDeadlineExceeded(status) ? "stopped early" : "cannot serve",
      {{log_field::kError, std::string(status.message())}});
  return 1;
}

}  // namespace
}  // namespace phitap

int main(int argc, char** argv) {
  phitap::LimitThreadSpin(argv);
  phitap::TakeAllowedFiles();
  return phitap::Main(argc, argv);
}
