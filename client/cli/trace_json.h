// A trace for scripts.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TRACE_JSON_H_
#define PHITAP_CLIENT_CLI_TRACE_JSON_H_

#include <string>
#include <vector>

#include "client/cli/invocation.h"
#include "client/cpp/trace.h"
#include "server/base/host_tensor.h"

namespace phitap::cli {

enum class Values { kLeftOut, kIncluded };

// The header, runs, each tensor's descriptor with its name in a file and its
// statistics, and the summary; with the numbers themselves as nested lists if
// asked for (null where a value is not finite). `names` as TensorNames gives.
Json TraceJson(const client::Trace& trace,
               const std::vector<std::string>& names, Values values);

// Elements as nested lists, integers as integers.
Json ValuesJson(const HostTensor& tensor);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TRACE_JSON_H_
