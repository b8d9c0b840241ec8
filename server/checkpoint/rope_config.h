// The rotary embedding's part of config.json.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_ROPE_CONFIG_H_
#define PHITAP_SERVER_CHECKPOINT_ROPE_CONFIG_H_

#include "absl/status/status.h"
#include "server/checkpoint/config.h"
#include "server/checkpoint/json_fields.h"

namespace phitap {

// Fills in spec.rotary_dims, rope_theta and longrope from `fields`, the whole
// config, and the sizes read before. The parameters stand in `rope_scaling`
// (transformers 4, beside top-level rope_theta and partial_rotary_factor) or in
// `rope_parameters` (5, all inside).
absl::Status ReadRope(const JsonFields& fields, CheckpointConfig& config);

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_ROPE_CONFIG_H_
