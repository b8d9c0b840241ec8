// A model's attributes and hook points in the protocol's words.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_DESCRIBE_MODEL_H_
#define PHITAP_SERVER_PLAN_DESCRIBE_MODEL_H_

#include <vector>

#include "phitap/v1/model.pb.h"
#include "server/base/dtype.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Attributes of a checkpoint that the server computes in `compute_dtype`.
v1::ModelConfig DescribeConfig(const ModelSpec& spec, DType compute_dtype);

// Its hook points in forward order, with sizes and conditions of this
// checkpoint.
std::vector<v1::HookPoint> DescribeHookPoints(const ModelSpec& spec,
                                              DType compute_dtype);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_DESCRIBE_MODEL_H_
