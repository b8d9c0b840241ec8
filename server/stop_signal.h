// SIGTERM and SIGINT: the first asks the server to drain, the second ends it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_STOP_SIGNAL_H_
#define PHITAP_SERVER_STOP_SIGNAL_H_

namespace phitap {

// Make one, in main, before any thread: threads that exist already would take
// the signals.
class StopSignal {
 public:
  StopSignal();

  // Blocks until the first signal; from then on the next one ends the process
  // at once, with exit code 1. Returns the signal's name.
  const char* Await();
};

}  // namespace phitap

#endif  // PHITAP_SERVER_STOP_SIGNAL_H_
