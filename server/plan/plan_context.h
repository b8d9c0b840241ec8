// What planning knows besides the request.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PLAN_CONTEXT_H_
#define PHITAP_SERVER_PLAN_PLAN_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/trace.pb.h"
#include "server/base/dtype.h"
#include "server/base/host_tensor.h"
#include "server/plan/limits.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Token ids of a prompt's text or conversation. An error keeps its code; a
// field that it names is one of the prompt's, e.g. `chat.messages[1].role`.
using PromptEncoder =
    std::function<absl::StatusOr<std::vector<int32_t>>(const v1::Prompt&)>;

// A tensor kept on the server. NOT_FOUND, with the nearest names.
using TensorFinder = std::function<absl::StatusOr<HostTensor>(
    absl::string_view name, absl::string_view field)>;

// Whether runs may share a wave in numerics kCausal: not where the start
// measurement found no row rule that holds.
enum class WaveSharing { kTogether, kAlone };

struct PlanContext {
  // Name of the model that the request was resolved to.
  std::string model;
  // Must outlive the call that it is passed to.
  const ModelSpec& spec;
  // What the server computes in.
  DType compute_dtype = DType::kBF16;
  Limits limits;
  // Empty where the checkpoint has no tokenizer: then only token ids do.
  PromptEncoder encode;
  // Empty where the server keeps no tensors.
  TensorFinder find_tensor;
  WaveSharing wave_sharing = WaveSharing::kTogether;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PLAN_CONTEXT_H_
