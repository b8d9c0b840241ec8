// A served model in the protocol's words.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_MODEL_MESSAGES_H_
#define PHITAP_SERVER_RPC_MODEL_MESSAGES_H_

#include "phitap/v1/model.pb.h"
#include "server/models/served_models.h"

namespace phitap {

v1::ModelSummary SummarizeModel(const ServedModel& model);
v1::Model DescribeModel(const ServedModel& model);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_MODEL_MESSAGES_H_
