#include "tests/unit/client/served_model.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

namespace phitap {
namespace {

// Starts a program; where output and errors go is given as descriptors.
pid_t Start(const std::string& program,
            const std::vector<std::string>& arguments, int output, int errors,
            const std::string& server) {
  std::vector<const char*> argv = {program.c_str()};
  for (const std::string& argument : arguments) {
    argv.push_back(argument.c_str());
  }
  argv.push_back(nullptr);
  const pid_t process = fork();
  if (process != 0) return process;
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  setenv("PHITAP_SERVER", server.c_str(), 1);
  execv(program.c_str(), const_cast<char* const*>(argv.data()));
  _exit(127);
}

// What comes until the other end is closed or `enough` has come.
std::string ReadUntil(int descriptor, const std::string& enough) {
  std::string text;
  std::array<char, 4096> block;
  ssize_t size = 0;
  while ((enough.empty() || text.find(enough) == std::string::npos) &&
         (size = read(descriptor, block.data(), block.size())) > 0) {
    text.append(block.data(), static_cast<size_t>(size));
  }
  return text;
}

// The word after `key=`.
std::string ValueOf(const std::string& key, const std::string& log) {
  const size_t at = log.find(key + "=");
  if (at == std::string::npos) return "";
  const size_t start = at + key.size() + 1;
  return log.substr(start, log.find_first_of(" \n", start) - start);
}

}  // namespace

ServedModel::ServedModel() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  output_ = ends[0];
  process_ = Start(PHITAPD,
                   {"--model", std::string("demo=") + DEMO_MODEL, "--listen",
                    "127.0.0.1:0", "--threads", "1"},
                   ends[1], ends[1], "");
  close(ends[1]);
  log_ = ReadUntil(output_, " ready ");
  address_ = ValueOf("address", log_);
  // A server whose log nobody reads would stop at a full pipe.
  reader_ = std::thread([this] { ReadUntil(output_, ""); });
}

ServedModel::~ServedModel() {
  if (process_ > 0) {
    kill(process_, SIGTERM);
    waitpid(process_, nullptr, 0);
  }
  if (reader_.joinable()) reader_.join();
  if (output_ >= 0) close(output_);
}

CommandResult RunCommand(const std::string& program,
                         const std::vector<std::string>& arguments,
                         const std::string& server) {
  CommandResult result;
  int output[2];
  int errors[2];
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) {
    return result;
  }
  const pid_t process = Start(program, arguments, output[1], errors[1], server);
  close(output[1]);
  close(errors[1]);
  std::thread reader([&] { result.errors = ReadUntil(errors[0], ""); });
  result.output = ReadUntil(output[0], "");
  reader.join();
  close(output[0]);
  close(errors[0]);
  int status = 0;
  waitpid(process, &status, 0);
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

}  // namespace phitap
