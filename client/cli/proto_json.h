// Messages as JSON for scripts.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_PROTO_JSON_H_
#define PHITAP_CLIENT_CLI_PROTO_JSON_H_

#include "client/cli/invocation.h"
#include "google/protobuf/message.h"

namespace phitap::cli {

// Every field under its own name, defaults included; unset optional fields and
// messages are left out. Unlike protobuf's own mapping, all integers are
// numbers, durations are seconds, and enum values are their last part in lower
// case (`bf16`, `causal`).
Json ToJson(const google::protobuf::Message& message);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_PROTO_JSON_H_
