// What decides a model's bits on this machine, in words.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_NUMERICS_REPORT_H_
#define PHITAP_SERVER_TRACE_NUMERICS_REPORT_H_

#include "server/model/phi3.h"
#include "server/trace/trace_executor.h"

namespace phitap {

// Gives the model the row rule that is known to hold under the same conditions,
// else the one that it measures; one that holds is then known.
void SetRowRule(const LoadOptions& options, Phi3& model);

NumericsReport ReportOf(const Phi3& model, int thread_count);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_NUMERICS_REPORT_H_
