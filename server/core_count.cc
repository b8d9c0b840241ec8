#include "server/core_count.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace phitap {

int PhysicalCoreCount() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return 1;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable)) continue;
    std::ifstream siblings(absl::StrCat("/sys/devices/system/cpu/cpu", cpu,
                                        "/topology/thread_siblings_list"));
    std::string core = absl::StrCat("cpu", cpu);  // Where the file is missing.
    std::getline(siblings, core);
    cores.insert(core);
  }
  return std::max<int>(1, static_cast<int>(cores.size()));
}

}  // namespace phitap
