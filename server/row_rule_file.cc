#include "server/row_rule_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

constexpr absl::string_view kFileName = "row_rules.tsv";

}  // namespace

RowRuleFile::RowRuleFile(absl::string_view folder) {
  if (folder.empty()) return;
  path_ = absl::StrCat(folder, "/", kFileName);
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    rules_[line.substr(0, tab)] = line.substr(tab + 1);
  }
}

std::string RowRuleFile::Find(absl::string_view key) const {
  const auto found = rules_.find(std::string(key));
  return found == rules_.end() ? "" : found->second;
}

void RowRuleFile::Keep(absl::string_view key, absl::string_view rule) {
  rules_[std::string(key)] = std::string(rule);
  write_status_ = path_.empty() ? absl::OkStatus() : Write();
}

// Under another name first: a file cut short would lose the other rules.
absl::Status RowRuleFile::Write() const {
  const std::string unfinished = absl::StrCat(path_, ".new");
  {
    std::ofstream file(unfinished, std::ios::trunc);
    for (const auto& [key, rule] : rules_) file << key << '\t' << rule << '\n';
    file.close();
    if (!file) {
      return absl::UnavailableError(absl::StrCat("cannot write ", unfinished));
    }
  }
  std::error_code error;
  std::filesystem::rename(unfinished, path_, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot rename ", unfinished, ": ", error.message()));
}

}  // namespace phitap
