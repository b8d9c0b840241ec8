// Whole requests from files.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_REQUEST_FILE_H_
#define PHITAP_CLIENT_CLI_REQUEST_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::cli {

// A TraceRequest as JSON (protobuf's mapping; field names as in the .proto or
// in camel case), or on standard input for `-`. NOT_FOUND where the file
// cannot be read, INVALID_ARGUMENT where it is no such JSON.
absl::StatusOr<v1::TraceRequest> ReadRequestFile(const std::string& path);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_REQUEST_FILE_H_
