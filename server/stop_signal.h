// SIGTERM and SIGINT: the first asks the server to stop, the second ends it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_STOP_SIGNAL_H_
#define PHITAP_SERVER_STOP_SIGNAL_H_

#include "server/stop_request.h"

namespace phitap {

// From now on, on a thread of its own: the first signal asks `request`, which
// lives as long as the process; the next one ends the process at once, with
// exit code 128 and its number. Call in main, before any thread is made:
// threads that exist already would take the signals.
void WatchStopSignals(StopRequest& request);

}  // namespace phitap

#endif  // PHITAP_SERVER_STOP_SIGNAL_H_
