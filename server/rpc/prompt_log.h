// What callers ask about, as lines of the log: where everybody has been told.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_PROMPT_LOG_H_
#define PHITAP_SERVER_RPC_PROMPT_LOG_H_

#include "phitap/v1/trace.pb.h"
#include "server/rpc/call_tag.h"

namespace phitap {

enum class PromptLogging { kOff, kOn };

// Of one prompt in its line; what is longer is cut, and says so.
inline constexpr int kMaxLoggedPromptBytes = 4096;

// One line for each run: its request, label and prompt as they were sent.
void LogPrompts(const v1::TraceRequest& request, const CallTag& tag);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_PROMPT_LOG_H_
