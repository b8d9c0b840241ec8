// How long threads of a parallel loop look out for the next one.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_THREAD_SPIN_H_
#define PHITAP_SERVER_THREAD_SPIN_H_

namespace phitap {

// libgomp's threads spin for milliseconds before they sleep. Where other
// processes want the cores, too, they spin away the time that the one they wait
// for would need: a trace of a few tokens takes a hundred times as long. Has
// them sleep after some tens of microseconds, longer than the next loop of a
// forward takes to come. The library reads that from the environment when it is
// loaded, so the program starts itself again, under the same process id. No
// effect where the environment says how to wait. Call first, with main's argv.
void LimitThreadSpin(char* const* argv);

}  // namespace phitap

#endif  // PHITAP_SERVER_THREAD_SPIN_H_
