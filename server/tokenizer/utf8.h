// Well-formedness of text that callers send and folders hold.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TOKENIZER_UTF8_H_
#define PHITAP_SERVER_TOKENIZER_UTF8_H_

#include <cstddef>
#include <optional>

#include "absl/strings/string_view.h"

namespace phitap {

// Offset of the first byte that is not part of well-formed UTF-8 (the
// Unicode standard's table 3-7: no overlong forms, surrogates or values past
// U+10FFFF), or nothing.
std::optional<size_t> FirstInvalidUtf8(absl::string_view text);

}  // namespace phitap

#endif  // PHITAP_SERVER_TOKENIZER_UTF8_H_
