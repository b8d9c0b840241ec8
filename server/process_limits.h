// What the system allows the process.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PROCESS_LIMITS_H_
#define PHITAP_SERVER_PROCESS_LIMITS_H_

namespace phitap {

// Takes as many open files as the system lets it have: each connection is one.
void TakeAllowedFiles();

}  // namespace phitap

#endif  // PHITAP_SERVER_PROCESS_LIMITS_H_
