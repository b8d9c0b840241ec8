// The models that requests can name, and what is known of each.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_SERVED_MODELS_H_
#define PHITAP_SERVER_RPC_SERVED_MODELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/dtype.h"
#include "server/spec/model_spec.h"
#include "server/tokenizer/tokenizer.h"

namespace phitap {

struct ServedModel {
  std::string name;
  ModelSpec spec;
  DType compute_dtype = DType::kBF16;
  // Of weights and config.
  std::string weights_digest;
  int64_t parameter_count = 0;
  int64_t weight_bytes = 0;
  // Whether its matrices are packed, and so not used where they are stored.
  bool packed = false;
  // What was odd about the checkpoint.
  std::vector<std::string> warnings;
  // What the measurement at start found.
  bool batch_invariant = false;
  std::string row_rule;
  std::string numerics_fingerprint;
  // Null where the checkpoint has none.
  std::shared_ptr<const Tokenizer> tokenizer;
};

// Immutable, hence thread-safe. The models stay where they are.
class ServedModels {
 public:
  // In the order in which they are listed.
  explicit ServedModels(std::vector<ServedModel> models)
      : models_(std::move(models)) {}

  // The model of that name; with an empty name the only one. NOT_FOUND against
  // `field`, with the nearest names; INVALID_ARGUMENT for an empty name where
  // there are several.
  absl::StatusOr<const ServedModel*> Find(
      absl::string_view name, absl::string_view field = "model") const;

  const std::vector<ServedModel>& all() const { return models_; }

 private:
  std::vector<ServedModel> models_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_SERVED_MODELS_H_
