// Row rules that earlier starts measured, in the state folder.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_ROW_RULE_FILE_H_
#define PHITAP_SERVER_ROW_RULE_FILE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/trace/known_row_rules.h"

namespace phitap {

// A line for each key: key, tab, rule. A file that is not there or cannot be
// read holds none. Not thread-safe.
class RowRuleFile final : public KnownRowRules {
 public:
  // `folder` exists and is this process's alone; with an empty one nothing is
  // kept.
  explicit RowRuleFile(absl::string_view folder);

  std::string Find(absl::string_view key) const override;
  void Keep(absl::string_view key, absl::string_view rule) override;

  // Why the last Keep did not reach the disk.
  const absl::Status& write_status() const { return write_status_; }

 private:
  absl::Status Write() const;

  std::string path_;
  std::map<std::string, std::string, std::less<>> rules_;
  absl::Status write_status_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_ROW_RULE_FILE_H_
