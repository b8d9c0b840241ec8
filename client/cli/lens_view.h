// Shows captured logit lenses.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_LENS_VIEW_H_
#define PHITAP_CLIENT_CLI_LENS_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/lens_table.h"
#include "client/cli/terminal.h"
#include "client/cli/traced_groups.h"

namespace phitap::cli {

// Ids whose names RenderLens needs.
std::vector<int32_t> IdsOfLens(const TracedGroup& group);

// A table of layers × positions; of layers × ranks where the capture has one
// position. Then the tokens that the capture asked about, over the layers.
std::string RenderLens(const TracedGroup& group, const TokenNames& names,
                       const Terminal& terminal);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_LENS_VIEW_H_
