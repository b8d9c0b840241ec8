// Token ids of a prompt, whichever way it is written.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_RUNS_PROMPT_TOKENS_H_
#define PHITAP_SERVER_PLAN_RUNS_PROMPT_TOKENS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/trace.pb.h"
#include "server/plan/plan_context.h"

namespace phitap {

// The ids of a prompt that is not `same_as` another: at least one, each in the
// vocabulary, no more than the model and the server take. INVALID_ARGUMENT
// against a field under `field`, the prompt's path; FAILED_PRECONDITION for
// text without a tokenizer; the encoder's own errors.
absl::StatusOr<std::vector<int32_t>> PromptTokens(const v1::Prompt& prompt,
                                                  const PlanContext& context,
                                                  absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_RUNS_PROMPT_TOKENS_H_
