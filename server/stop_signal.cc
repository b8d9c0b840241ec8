#include "server/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

namespace phitap {
namespace {

// What shells add to the number of the signal that ended a program.
constexpr int kSignalExit = 128;

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

int NextSignal() {
  const sigset_t signals = StopSignals();
  int signal = 0;
  sigwait(&signals, &signal);
  return signal;
}

}  // namespace

void WatchStopSignals(StopRequest& request) {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A reader of the log that goes away is no reason to end.
  signal(SIGPIPE, SIG_IGN);
  // Nor is a file that may not grow: its write fails.
  signal(SIGXFSZ, SIG_IGN);
  std::thread([&request] {
    request.Ask(NextSignal() == SIGTERM ? "SIGTERM" : "SIGINT");
    _exit(kSignalExit + NextSignal());
  }).detach();
}

}  // namespace phitap
