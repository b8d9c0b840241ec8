// How the command line tells its caller what happened.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_EXIT_STATUS_H_
#define PHITAP_CLIENT_CLI_EXIT_STATUS_H_

namespace phitap::cli {

inline constexpr int kExitOk = 0;
// The server refused or failed, or a file could not be written.
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoServer = 3;
// 128 + SIGINT, as shells have it.
inline constexpr int kExitInterrupted = 130;

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_EXIT_STATUS_H_
