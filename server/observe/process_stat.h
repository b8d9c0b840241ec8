// What the kernel says of this process.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_OBSERVE_PROCESS_STAT_H_
#define PHITAP_SERVER_OBSERVE_PROCESS_STAT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace phitap {

// 0 where the kernel does not say.
struct ProcessStat {
  absl::Time started_at = absl::UnixEpoch();
  absl::Duration cpu_time;
  int64_t resident_bytes = 0;
  int64_t open_files = 0;
  int64_t max_files = 0;
};

ProcessStat ReadProcessStat();

// From the text of /proc/PID/stat, whose times are in clock ticks.
struct ProcessTimes {
  int64_t cpu_ticks = 0;
  // Since the machine has started.
  int64_t start_ticks = 0;
  int64_t resident_pages = 0;
};
std::optional<ProcessTimes> ParseProcessTimes(const std::string& stat);

}  // namespace phitap

#endif  // PHITAP_SERVER_OBSERVE_PROCESS_STAT_H_
