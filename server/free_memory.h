// How much memory the process may still take before it is refused or killed.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_FREE_MEMORY_H_
#define PHITAP_SERVER_FREE_MEMORY_H_

#include <cstdint>
#include <string>

namespace phitap {

// Where Linux tells, and what binds beside it.
struct MemorySources {
  // In front of /proc and /sys.
  std::string root;
  // RLIMIT_AS; negative for none.
  int64_t address_space_bytes = -1;
  // Of files that are used in place and should stay in memory, though the
  // kernel counts their pages as free; a part of the address space already.
  int64_t mapped_bytes = 0;
};
MemorySources ProcessMemorySources();

struct FreeMemory {
  int64_t size_bytes = 0;
  // What bounds it: "physical memory", "cgroup", "address space".
  std::string bound;
};

// The least of: physical memory that is available; what cgroups (v1 or v2, this
// one or one above it) leave of their limits; the rest of the address space,
// less a quarter for what is reserved and never touched.
FreeMemory ReadFreeMemory(const MemorySources& sources);

}  // namespace phitap

#endif  // PHITAP_SERVER_FREE_MEMORY_H_
