// What earlier starts measured, so that it need not be measured again.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_KNOWN_ROW_RULES_H_
#define PHITAP_SERVER_TRACE_KNOWN_ROW_RULES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace phitap {

// Keys are one line and say all that decides a measurement: CPU, libtorch,
// threads, dtype, shapes. Rules are those of NumericsReport. Called for
// one model at a time.
class KnownRowRules {
 public:
  virtual ~KnownRowRules() = default;
  // Empty where there is none.
  virtual std::string Find(absl::string_view key) const = 0;
  virtual void Keep(absl::string_view key, absl::string_view rule) = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_KNOWN_ROW_RULES_H_
