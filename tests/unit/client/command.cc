#include "tests/unit/client/command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

namespace phitap {
namespace {

constexpr char kServerVariable[] = "PHITAP_SERVER=";

// The environment of this process with another PHITAP_SERVER.
std::vector<std::string> EnvironmentFor(const std::string& server) {
  std::vector<std::string> variables = {kServerVariable + server};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string(*variable).rfind(kServerVariable, 0) == 0) continue;
    variables.emplace_back(*variable);
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts a program; where output and errors go is given as descriptors. 0
// where it does not start.
pid_t Start(const std::string& program, std::vector<std::string> arguments,
            int output, int errors, const std::string& server) {
  arguments.insert(arguments.begin(), program);
  std::vector<std::string> environment = EnvironmentFor(server);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  pid_t process = 0;
  const int failure =
      posix_spawn(&process, program.c_str(), &actions, nullptr,
                  Pointers(&arguments).data(), Pointers(&environment).data());
  posix_spawn_file_actions_destroy(&actions);
  return failure == 0 ? process : 0;
}

// What comes until the other end is closed.
std::string ReadAll(int descriptor) {
  std::string text;
  std::array<char, 4096> block;
  ssize_t size = 0;
  while ((size = read(descriptor, block.data(), block.size())) > 0) {
    text.append(block.data(), static_cast<size_t>(size));
  }
  return text;
}

}  // namespace

Command::Command(const std::string& program,
                 const std::vector<std::string>& arguments,
                 const std::string& server) {
  int output[2];
  int errors[2];
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) return;
  process_ = Start(program, arguments, output[1], errors[1], server);
  close(output[1]);
  close(errors[1]);
  output_ = output[0];
  errors_ = errors[0];
}

void Command::Send(int signal) const { kill(process_, signal); }

CommandResult Command::Finish() {
  CommandResult result;
  std::thread reader([&] { result.errors = ReadAll(errors_); });
  result.output = ReadAll(output_);
  reader.join();
  close(output_);
  close(errors_);
  int status = 0;
  waitpid(process_, &status, 0);
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

}  // namespace phitap
