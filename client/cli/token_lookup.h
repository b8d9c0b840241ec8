// Token ids by their text.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TOKEN_LOOKUP_H_
#define PHITAP_CLIENT_CLI_TOKEN_LOOKUP_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace phitap::cli {

// The token that `text` is behind a prompt, since tokenizers read the beginning
// of a text differently; `prompt` may be empty. INVALID_ARGUMENT, with the
// tokens that it is, where it is not exactly one.
absl::StatusOr<int32_t> LookUpToken(const client::Client& client,
                                    const client::CallOptions& options,
                                    const std::string& model,
                                    const std::string& prompt,
                                    const std::string& text);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TOKEN_LOOKUP_H_
