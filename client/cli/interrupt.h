// Ctrl-C as a cancellation.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_INTERRUPT_H_
#define PHITAP_CLIENT_CLI_INTERRUPT_H_

#include <csignal>
#include <thread>

#include "client/cpp/cancellation.h"

namespace phitap::cli {

// While it lives, SIGINT and SIGTERM cancel the calls in flight; a second one
// ends the process. Make it before any other thread: they inherit the mask
// that keeps the signals from them.
class InterruptWatch {
 public:
  // `cancellation` must outlive it.
  explicit InterruptWatch(client::Cancellation* cancellation);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  void Watch();

  client::Cancellation* const cancellation_;
  sigset_t signals_;
  std::thread thread_;
};

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_INTERRUPT_H_
