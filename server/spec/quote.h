// A caller's text inside a message.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SPEC_QUOTE_H_
#define PHITAP_SERVER_SPEC_QUOTE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace phitap {

// `text` in double quotes, control characters escaped, cut after 64 bytes: a
// message stays small and printable whatever was sent.
std::string Quoted(absl::string_view text);

// `text` cut to at most `size_bytes` without splitting a UTF-8 character.
absl::string_view Shortened(absl::string_view text, size_t size_bytes);

}  // namespace phitap

#endif  // PHITAP_SERVER_SPEC_QUOTE_H_
