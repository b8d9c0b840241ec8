// How many cores there are to compute with.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CORE_COUNT_H_
#define PHITAP_SERVER_CORE_COUNT_H_

namespace phitap {

// Cores that this process may use, hyperthreads not counted; at least 1.
int PhysicalCoreCount();

}  // namespace phitap

#endif  // PHITAP_SERVER_CORE_COUNT_H_
