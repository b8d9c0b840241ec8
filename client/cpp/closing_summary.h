// Holds what came of a trace against the summary that closes its stream.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_CLOSING_SUMMARY_H_
#define PHITAP_CLIENT_CPP_CLOSING_SUMMARY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "client/cpp/trace.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::client {

// Puts the summary into the trace, and its statuses into the runs. DATA_LOSS
// where a run has none, or one that succeeded was never sent.
absl::Status TakeSummary(const v1::TraceSummary& summary, Trace* trace);

// Tensors that came whole.
struct CompleteTensors {
  int32_t count = 0;
  int64_t size_bytes = 0;
};

// DATA_LOSS where they are not those of header and summary. There may be fewer
// than announced where a run or cell failed, or a run generated.
absl::Status CheckAgainstSummary(const CompleteTensors& complete,
                                 const Trace& trace);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_CLOSING_SUMMARY_H_
