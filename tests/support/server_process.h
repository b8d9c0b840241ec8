// The real phitapd in a process of its own.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_SERVER_PROCESS_H_
#define PHITAP_TESTS_SUPPORT_SERVER_PROCESS_H_

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "phitap/v1/activation_service.grpc.pb.h"

namespace phitap {

// Thread-compatible. The destructor kills what still runs.
class ServerProcess {
 public:
  // Starts `phitapd ARGUMENTS...`; on a free port unless they say --listen.
  explicit ServerProcess(std::vector<std::string> arguments);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Blocks until it is ready and says where, or ends. "" if it ended.
  std::string AwaitAddress();
  // The same as soon as it listens.
  std::string AwaitListening();
  // Blocks until its log has a line with `text`, or it ends.
  bool AwaitLog(const std::string& text);
  void Signal(int signal);
  // Blocks until it ends: its exit code, or minus the signal that ended it.
  int Wait();
  pid_t pid() const { return pid_; }
  // Everything written so far, standard output and standard error together.
  std::string Output();

  // After AwaitAddress or AwaitListening.
  std::shared_ptr<grpc::Channel> Connect();
  // Thread-safe.
  v1::ActivationService::Stub& stub();

 private:
  void ReadOutput();
  std::string AwaitAddressAfter(const std::string& words);

  pid_t pid_ = -1;
  int output_fd_ = -1;
  bool waited_ = false;
  int exit_code_ = 0;
  std::string address_;
  std::once_flag connected_;
  std::unique_ptr<v1::ActivationService::Stub> stub_;

  std::mutex mutex_;  // Guards the next two.
  std::string output_;
  bool ended_ = false;
  std::condition_variable changed_;
  std::thread reader_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_SERVER_PROCESS_H_
