#include "client/cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include "client/cli/exit_status.h"

namespace phitap::cli {
namespace {

// Tells the watching thread to end.
constexpr int kStopSignal = SIGUSR1;

}  // namespace

InterruptWatch::InterruptWatch(client::Cancellation* cancellation)
    : cancellation_(cancellation) {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, kStopSignal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this] { Watch(); });
}

InterruptWatch::~InterruptWatch() {
  pthread_kill(thread_.native_handle(), kStopSignal);
  thread_.join();
}

void InterruptWatch::Watch() {
  int signal = 0;
  while (sigwait(&signals_, &signal) == 0 && signal != kStopSignal) {
    if (cancellation_->cancelled()) _exit(kExitInterrupted);
    cancellation_->Cancel();
  }
}

}  // namespace phitap::cli
