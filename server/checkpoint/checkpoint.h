// A Hugging Face folder of the Phi-3 family, checked and ready to be computed
// with. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_CHECKPOINT_H_
#define PHITAP_SERVER_CHECKPOINT_CHECKPOINT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/host_tensor.h"
#include "server/checkpoint/file_bytes.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Immutable after Open, hence thread-safe.
class Checkpoint {
 public:
  // Reads config.json, generation_config.json and the headers of
  // model.safetensors or of the shards that its index names; with
  // WeightStorage::kMap the weights themselves are read when they are used.
  // Either every tensor of ExpectedTensors(spec()) is there with its shape, in
  // float32, float16 or bfloat16 (which need not be the same for all), or Open
  // fails with the error of ReadConfig, FindWeights or SafetensorsFile::Open;
  // FAILED_PRECONDITION for tensors that are missing, misshapen, biases or of
  // another element type; DATA_LOSS for shards that contradict the index.
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(
      absl::string_view folder, WeightStorage storage = WeightStorage::kMap);

  // `dtype` is config.json's, else the one that all tensors are stored in.
  // `tied_head` says whether head and embedding are one tensor: where
  // config.json ties them but both are stored and differ, they are two, and
  // where only one of them is stored, it is both.
  const ModelSpec& spec() const { return spec_; }

  // `name` is one of ExpectedTensors(spec()), else std::out_of_range is thrown.
  // The tensor keeps its file open and may outlive the checkpoint.
  const HostTensor& Tensor(absl::string_view name) const;

  // Takes no memory for the tensor until it is used again, where the weights
  // are mapped; with WeightStorage::kCopy nothing happens.
  void GiveBackPages(absl::string_view name) const;

  // What was found and has no effect (extra tensors, ignored keys), one
  // sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // 32 hexadecimal digits that stand for the model's numbers, however they are
  // divided into files: see server/checkpoint/weight_digest.h for what it
  // covers.
  const std::string& digest() const { return digest_; }

 private:
  Checkpoint() = default;

  WeightStorage storage_ = WeightStorage::kMap;
  ModelSpec spec_;
  absl::flat_hash_map<std::string, HostTensor> tensors_;
  std::vector<std::string> warnings_;
  std::string digest_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_CHECKPOINT_H_
