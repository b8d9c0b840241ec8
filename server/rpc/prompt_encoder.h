// Texts and conversations of requests through a model's tokenizer.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_PROMPT_ENCODER_H_
#define PHITAP_SERVER_RPC_PROMPT_ENCODER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "phitap/v1/activation_service.pb.h"
#include "phitap/v1/trace.pb.h"
#include "server/models/served_models.h"
#include "server/plan/plan_context.h"

namespace phitap {

// Encodes prompts of a request; empty where the model has no tokenizer.
// `model` outlives it. Thread-safe.
PromptEncoder EncoderOf(const ServedModel& model);

// Ids, their texts and what was encoded. INVALID_ARGUMENT for what the request
// says, FAILED_PRECONDITION for a model without tokenizer or chat template.
absl::StatusOr<v1::TokenizeResponse> Tokenize(
    const v1::TokenizeRequest& request, const ServedModel& model);

// The text of ids, together and one by one. Errors as Tokenize.
absl::StatusOr<v1::DetokenizeResponse> Detokenize(
    const v1::DetokenizeRequest& request, const ServedModel& model);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_PROMPT_ENCODER_H_
