// Every flag of the server, declared once.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SERVER_FLAGS_H_
#define PHITAP_SERVER_SERVER_FLAGS_H_

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/config.h"
#include "server/flag_values.h"

namespace phitap {

// One flag: its default as text, and where its value goes.
struct Flag {
  std::string name;  // "--threads"
  std::string type;
  std::string help;
  // What was given, else the default. Several only for --model.
  std::vector<std::string> texts;
  std::function<absl::Status(const FlagText&)> apply;
};

// In the order of --help. They write to `config`, which outlives them.
std::deque<Flag> ServerFlags(ServerConfig& config);

}  // namespace phitap

#endif  // PHITAP_SERVER_SERVER_FLAGS_H_
