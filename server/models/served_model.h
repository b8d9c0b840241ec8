// A model that takes requests, and what is known of it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODELS_SERVED_MODEL_H_
#define PHITAP_SERVER_MODELS_SERVED_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/base/dtype.h"
#include "server/spec/model_spec.h"
#include "server/tokenizer/tokenizer.h"

namespace phitap {

struct ServedModel {
  std::string name;
  // Key of what computes it, in the scheduler and as TracePlan::model: the
  // name, and `NAME#N` where it is the N-th executor that the server has.
  std::string executor;
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
  // What the measurement of its loading found.
  bool batch_invariant = false;
  std::string row_rule;
  std::string numerics_fingerprint;
  // Null where the checkpoint has none.
  std::shared_ptr<const Tokenizer> tokenizer;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODELS_SERVED_MODEL_H_
