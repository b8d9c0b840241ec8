// Shows tokens as they are generated.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_GENERATION_VIEW_H_
#define PHITAP_CLIENT_CLI_GENERATION_VIEW_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/growing_columns.h"
#include "client/cli/terminal.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::cli {

// One run's text as it comes; of several runs side by side in a terminal that
// is wide enough, else one after another at the end. Thread-compatible.
class GenerationView {
 public:
  using Writer = std::function<void(absl::string_view)>;

  // `runs` are labels, left to right.
  GenerationView(std::vector<std::string> runs, const Terminal& terminal,
                 Writer write);

  // Tokens of other runs are not shown.
  void Add(const v1::GeneratedToken& token);
  // Ends the last line; also where the trace failed halfway.
  void Finish();

 private:
  void WriteTitles();

  const std::vector<std::string> runs_;
  const Terminal terminal_;
  const Writer write_;
  // Where there are several runs and room for them.
  std::unique_ptr<GrowingColumns> columns_;
  std::vector<std::string> texts_;
};

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_GENERATION_VIEW_H_
