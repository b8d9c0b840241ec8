// Shows captured tensors of any kind, one line each.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_STRIP_VIEW_H_
#define PHITAP_CLIENT_CLI_STRIP_VIEW_H_

#include <string>

#include "client/cli/terminal.h"
#include "client/cli/traced_groups.h"

namespace phitap::cli {

// Name, shape and type, and a strip of the norms at each position (of the
// values themselves where there is one number a position, or no position),
// each tensor between its own ends, which follow. Small tensors are printed as
// numbers.
std::string RenderStrips(const TracedGroup& group, const Terminal& terminal);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_STRIP_VIEW_H_
