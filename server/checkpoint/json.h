// The JSON files of a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_JSON_H_
#define PHITAP_SERVER_CHECKPOINT_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/json.h"

namespace phitap {

// The object in the file `folder`/`name`. NOT_FOUND where there is no such
// file, DATA_LOSS where it holds something else.
absl::StatusOr<nlohmann::json> ReadJsonObject(absl::string_view folder,
                                              absl::string_view name);

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_JSON_H_
