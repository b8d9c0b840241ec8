#include "tests/support/server_process.h"

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace phitap {
namespace {

constexpr char kReady[] = " ready address=";
constexpr char kListening[] = " listening address=";

bool Names(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(
      arguments.begin(), arguments.end(), [&](const std::string& argument) {
        return argument == flag || argument.rfind(flag + "=", 0) == 0;
      });
}

pid_t Spawn(std::vector<std::string> arguments, int output_fd) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + arguments[0]);
  return pid;
}

}  // namespace

ServerProcess::ServerProcess(std::vector<std::string> arguments) {
  if (!Names(arguments, "--listen")) {
    arguments.insert(arguments.end(), {"--listen", "127.0.0.1:0"});
  }
  arguments.insert(arguments.begin(), PHITAPD_BINARY);
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  pid_ = Spawn(std::move(arguments), pipe_fds[1]);
  close(pipe_fds[1]);
  output_fd_ = pipe_fds[0];
  reader_ = std::thread([this] { ReadOutput(); });
}

ServerProcess::~ServerProcess() {
  if (!waited_) {
    kill(pid_, SIGKILL);
    Wait();
  }
  reader_.join();
  close(output_fd_);
}

void ServerProcess::ReadOutput() {
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(output_fd_, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    std::lock_guard lock(mutex_);
    if (count > 0) {
      output_.append(buffer, count);
    } else {
      ended_ = true;
    }
    changed_.notify_all();
    if (count <= 0) return;
  }
}

bool ServerProcess::AwaitLog(const std::string& text) {
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [&] { return ended_ || output_.find(text) != std::string::npos; });
  return output_.find(text) != std::string::npos;
}

std::string ServerProcess::AwaitAddress() { return AwaitAddressAfter(kReady); }

std::string ServerProcess::AwaitListening() {
  return AwaitAddressAfter(kListening);
}

std::string ServerProcess::AwaitAddressAfter(const std::string& words) {
  if (!AwaitLog(words)) return "";
  std::unique_lock lock(mutex_);
  const size_t begin = output_.find(words) + words.size();
  changed_.wait(lock, [&] {
    return ended_ || output_.find_first_of(" \n", begin) != std::string::npos;
  });
  const size_t end = output_.find_first_of(" \n", begin);
  address_ = output_.substr(begin, end - begin);
  return address_;
}

void ServerProcess::Signal(int signal) { kill(pid_, signal); }

int ServerProcess::Wait() {
  if (waited_) return exit_code_;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  waited_ = true;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return exit_code_;
}

std::string ServerProcess::Output() {
  std::unique_lock lock(mutex_);
  if (waited_) changed_.wait(lock, [&] { return ended_; });
  return output_;
}

std::shared_ptr<grpc::Channel> ServerProcess::Connect() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(),
                                   arguments);
}

v1::ActivationService::Stub& ServerProcess::stub() {
  std::call_once(connected_,
                 [this] { stub_ = v1::ActivationService::NewStub(Connect()); });
  return *stub_;
}

}  // namespace phitap
