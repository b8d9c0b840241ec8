// Names of requests in logs, headers and errors.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_REQUEST_ID_H_
#define PHITAP_SERVER_RPC_REQUEST_ID_H_

#include <string>

namespace phitap {

// Metadata that carries the request's id: before an answer, else with the
// error.
inline constexpr char kRequestIdMetadata[] = "phitap-request-id";

// 16 random hexadecimal digits. Thread-safe.
std::string NewRequestId();

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_REQUEST_ID_H_
