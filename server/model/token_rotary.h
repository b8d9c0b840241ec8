// What the tokens of a forward are turned by.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_TOKEN_ROTARY_H_
#define PHITAP_SERVER_MODEL_TOKEN_ROTARY_H_

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "server/model/forward.h"
#include "server/model/hooks.h"
#include "server/model/rotary.h"

namespace phitap {

// Tables of all tokens of some rows, computed once. Immutable.
class TokenRotary {
 public:
  TokenRotary(const Rotary& rotary, absl::Span<const ForwardRow> rows,
              const std::vector<int>& indices, at::ScalarType dtype);

  // A line for each of the layout's, zeros up to `line_count`.
  RotaryTables Tables(const TokenLayout& layout, int64_t line_count) const;

 private:
  struct RowTokens {
    int64_t first_position = 0;
    std::vector<int64_t> lines;  // in the tables, a token
  };
  std::map<int, RowTokens> rows_;  // by the caller's index
  // A line for each two tokens that are turned differently.
  RotaryTables tables_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_TOKEN_ROTARY_H_
