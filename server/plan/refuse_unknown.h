// Refusal of requests that say more than this server understands.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_REFUSE_UNKNOWN_H_
#define PHITAP_SERVER_PLAN_REFUSE_UNKNOWN_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phitap {

// INVALID_ARGUMENT if `message`, or any message inside, has a field or an enum
// value that this server's protocol lacks: ignoring a newer client's selection
// would answer another question. `path` leads to `message`; "" for a request.
absl::Status RefuseUnknown(const google::protobuf::Message& message,
                           absl::string_view path);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_REFUSE_UNKNOWN_H_
