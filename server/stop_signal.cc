#include "server/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

namespace phitap {
namespace {

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

StopSignal::StopSignal() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A reader of the log that goes away is no reason to end.
  signal(SIGPIPE, SIG_IGN);
}

const char* StopSignal::Await() {
  const int first = NextSignal();
  std::thread([] {
    NextSignal();
    _exit(1);
  }).detach();
  return first == SIGTERM ? "SIGTERM" : "SIGINT";
}

}  // namespace phitap
