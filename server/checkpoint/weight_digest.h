// A short name for the numbers of a model, taken without reading all of them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_WEIGHT_DIGEST_H_
#define PHITAP_SERVER_CHECKPOINT_WEIGHT_DIGEST_H_

#include <memory>
#include <string>

#include "server/base/host_tensor.h"
#include "server/spec/model_spec.h"

namespace phitap {

// XXH3-128, as 32 hexadecimal digits, of what decides the values of a forward:
// the spec, then name, element type, shape and a sample of the bytes of each
// tensor added. The sample is the first and the last 4 KiB and 14 more pieces
// of 4 KiB evenly between them; a tensor of at most 64 KiB is taken whole.
// Reading every byte of a large checkpoint would take seconds. Training changes
// nearly every number, so that other weights have another digest, but an edit
// of a few numbers between the pieces goes unseen: it is no proof of integrity.
class WeightDigest {
 public:
  explicit WeightDigest(const ModelSpec& spec);
  ~WeightDigest();
  WeightDigest(const WeightDigest&) = delete;
  WeightDigest& operator=(const WeightDigest&) = delete;

  void Add(const std::string& name, const HostTensor& tensor);
  std::string Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_WEIGHT_DIGEST_H_
