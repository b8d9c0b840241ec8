// Shows the largest entries of captured values, with the tokens they stand for.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TOKEN_VIEW_H_
#define PHITAP_CLIENT_CLI_TOKEN_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/terminal.h"
#include "client/cli/traced_groups.h"

namespace phitap::cli {

// Whether columns of the last dimension are tokens of the vocabulary: logits,
// lm_head_output and next_token_probs, all of their features captured.
bool HasTokenColumns(const v1::TensorDescriptor& tensor,
                     const v1::Capture& capture);

// Ids whose names the functions below need.
std::vector<int32_t> IdsOfTopK(const TracedGroup& group);
std::vector<int32_t> IdsOfVocabulary(const TracedGroup& group);

// For a top-k capture: one line for each row of the values, best entry first;
// of many rows the last.
std::string RenderTopK(const TracedGroup& group, const TokenNames& names,
                       const Terminal& terminal);

// For whole rows of logits or probabilities: the likeliest tokens at each
// position, of many the last.
std::string RenderVocabulary(const TracedGroup& group, const TokenNames& names,
                             const Terminal& terminal);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TOKEN_VIEW_H_
