// Values of a prompt and of the tokens generated after it, as of one text.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_MERGED_STEPS_H_
#define PHITAP_CLIENT_CLI_MERGED_STEPS_H_

#include <memory>
#include <vector>

#include "client/cpp/trace.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::cli {

struct MergedSteps {
  // Its tokens are the prompt's and those generated that went on through the
  // model: the last one did not.
  client::TracedRun run;
  // [seq, …], one for each hook point and part, in the order of the prompt's.
  std::vector<client::TracedTensor> tensors;
};

// What a logit lens of all positions read in a run that generated. Null for
// other captures, whose rows do not stand for one position each.
std::shared_ptr<const MergedSteps> MergeSteps(
    const v1::Capture& capture, const client::TracedRun& run,
    const std::vector<const client::TracedTensor*>& tensors);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_MERGED_STEPS_H_
