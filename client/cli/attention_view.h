// Shows captured attention scores and probabilities.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_ATTENTION_VIEW_H_
#define PHITAP_CLIENT_CLI_ATTENTION_VIEW_H_

#include <string>

#include "client/cli/terminal.h"
#include "client/cli/traced_groups.h"

namespace phitap::cli {

// Whether a tensor is heads × queries × keys.
bool IsAttention(const v1::TensorDescriptor& tensor);

// A heatmap for each layer: queries × keys, the mean over the captured heads;
// heads × keys where there is one query. Of many layers the last few.
std::string RenderAttention(const TracedGroup& group, const Terminal& terminal);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_ATTENTION_VIEW_H_
