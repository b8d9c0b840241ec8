// All tensors that a checkpoint's files store, before anyone asks whether they
// are the right ones. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_STORED_WEIGHTS_H_
#define PHITAP_SERVER_CHECKPOINT_STORED_WEIGHTS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/host_tensor.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/safetensors.h"

namespace phitap {

// Immutable, hence thread-safe.
class StoredWeights {
 public:
  // Opens every file of `files`. DATA_LOSS where two files hold the same
  // tensor, or a tensor is not in the file that the index says.
  static absl::StatusOr<StoredWeights> Open(absl::string_view folder,
                                            const WeightFiles& files,
                                            WeightStorage storage);

  // Ascending.
  std::vector<std::string> Names() const;
  bool Has(absl::string_view name) const { return Find(name) != nullptr; }
  // Null where it is not stored.
  const StoredTensor* Find(absl::string_view name) const;
  // A stored tensor whose element type phitap has.
  HostTensor Tensor(absl::string_view name) const;
  // `FILE: "NAME"`, for errors: the file that holds it, else the one that lists
  // what there is.
  std::string Field(absl::string_view name) const;

 private:
  struct Place {
    const SafetensorsFile* file;
    const StoredTensor* tensor;
  };
  StoredWeights() = default;
  absl::Status Merge(const SafetensorsFile& file);
  absl::Status CheckIndex(const WeightFiles& files) const;

  std::string list_name_;
  // At addresses that stay.
  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string, Place> places_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_STORED_WEIGHTS_H_
