// Tensors that are kept on the server in the protocol's words.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_TENSOR_MESSAGES_H_
#define PHITAP_SERVER_RPC_TENSOR_MESSAGES_H_

#include "phitap/v1/activation_service.pb.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

v1::StoredTensor DescribeStored(const NamedTensor& tensor);
v1::ListTensorsResponse DescribeAll(const OwnedTensors& tensors,
                                    absl::string_view prefix);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_TENSOR_MESSAGES_H_
