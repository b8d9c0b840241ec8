// One start of `phitap`: its global flags, and how it talks to server and user.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_INVOCATION_H_
#define PHITAP_CLIENT_CLI_INVOCATION_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/connection_flags.h"
#include "client/cli/terminal.h"
#include "client/cpp/cancellation.h"
#include "client/cpp/client.h"
#include "nlohmann/json.hpp"

namespace phitap::cli {

// JSON whose fields keep their order.
using Json = nlohmann::ordered_json;

struct GlobalFlags {
  ConnectionFlags connection;
  // Of a call; 0 means none.
  double timeout_s = 0;
  bool json = false;
  ColorChoice color = ColorChoice::kAuto;
};

class Invocation {
 public:
  // Not owned; must outlive it.
  explicit Invocation(client::Cancellation* cancellation)
      : cancellation_(cancellation) {}

  GlobalFlags& flags() { return flags_; }
  client::CallOptions call_options() const;

  // Standard output and standard error.
  Terminal output() const;
  Terminal errors() const;

  void Print(absl::string_view text) const;
  // The one document of `--json`; call at most once.
  void PrintJson(const Json& document);
  // For `--json` of what comes bit by bit: one of several lines.
  void PrintJsonLine(const Json& line);

  // What a command does once it is connected.
  using Work = std::function<absl::Status(const client::Client&)>;
  // Remembered until Run: the flags are not all read when a command is.
  void SetWork(Work work) { work_ = std::move(work); }
  // How long the server may take to begin to listen; otherwise a refused
  // connection is final.
  void WaitForServer(absl::Duration patience) { patience_ = patience; }
  // For commands that need no server.
  using OfflineWork = std::function<absl::Status()>;
  void SetOfflineWork(OfflineWork work) { offline_work_ = std::move(work); }
  void SetText(std::string text) {
    SetOfflineWork([this, text = std::move(text)] {
      Print(text);
      return absl::OkStatus();
    });
  }

  // Connects, works, and says what went wrong. Returns the exit status.
  int Run();

 private:
  absl::StatusOr<client::Client> Connect(
      const client::ClientOptions& options) const;
  int Fail(const absl::Status& status, int exit_status);

  client::Cancellation* const cancellation_;
  GlobalFlags flags_;
  Work work_;
  OfflineWork offline_work_;
  absl::Duration patience_ = absl::ZeroDuration();
  // A failure that comes after the document is not added to it.
  bool has_printed_json_ = false;
  bool prints_lines_ = false;
};

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_INVOCATION_H_
