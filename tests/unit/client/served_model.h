// A real server in a process of its own, and the real command line against it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_CLIENT_SERVED_MODEL_H_
#define PHITAP_TESTS_UNIT_CLIENT_SERVED_MODEL_H_

#include <sys/types.h>

#include <string>
#include <thread>
#include <vector>

namespace phitap {

// phitapd with the checkpoint of deploy/demo-model under the name `demo`, on a
// port of its own, until the object goes.
class ServedModel {
 public:
  ServedModel();
  ~ServedModel();
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  // Empty where the server did not start; the log says why.
  const std::string& address() const { return address_; }
  const std::string& log() const { return log_; }

 private:
  pid_t process_ = 0;
  int output_ = -1;
  std::string log_;
  std::string address_;
  std::thread reader_;
};

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

#endif  // PHITAP_TESTS_UNIT_CLIENT_SERVED_MODEL_H_
