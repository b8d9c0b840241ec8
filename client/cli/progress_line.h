// One line on standard error that tells how far something has come.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_PROGRESS_LINE_H_
#define PHITAP_CLIENT_CLI_PROGRESS_LINE_H_

#include <string>

#include "absl/time/time.h"
#include "client/cli/terminal.h"
#include "client/cpp/client.h"

namespace phitap::cli {

// "42%  1.20 GB of 2.86 GB  2.31 GB/s", or what the request waits for.
std::string ProgressText(const client::TraceProgress& progress);

// Shows itself only to a terminal, once it takes longer than half a
// second, and wipes itself out at the end.
class ProgressLine {
 public:
  explicit ProgressLine(const Terminal& terminal) : terminal_(terminal) {}
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Update(const client::TraceProgress& progress);
  // The same of anything else that began so long ago.
  void Show(const std::string& text, absl::Duration elapsed);

 private:
  const Terminal terminal_;
  absl::Duration shown_at_;
};

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_PROGRESS_LINE_H_
