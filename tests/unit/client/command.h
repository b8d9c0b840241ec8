// A program in a process of its own, for tests of the command line.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_CLIENT_COMMAND_H_
#define PHITAP_TESTS_UNIT_CLIENT_COMMAND_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace phitap {

struct CommandResult {
  int exit_status = -1;
  std::string output;
  std::string errors;
};

// A program that runs with these arguments and, besides the usual environment,
// PHITAP_SERVER.
class Command {
 public:
  Command(const std::string& program, const std::vector<std::string>& arguments,
          const std::string& server);

  void Send(int signal) const;
  // Waits for its end; call once.
  CommandResult Finish();

 private:
  pid_t process_ = 0;
  int output_ = -1;
  int errors_ = -1;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_CLIENT_COMMAND_H_
