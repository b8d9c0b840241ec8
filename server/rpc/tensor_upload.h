// A tensor that a caller sends piece by piece.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_TENSOR_UPLOAD_H_
#define PHITAP_SERVER_RPC_TENSOR_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phitap/v1/activation_service.pb.h"
#include "server/base/host_tensor.h"
#include "server/base/tensor_hash.h"
#include "server/schedule/byte_budget.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

struct TensorUploadOptions {
  // Where it goes.
  OwnedTensors tensors;
  // For the bytes of uploads under way: shared, for a task that drops the last
  // upload may outlive the service.
  std::shared_ptr<ByteBudget> budget;
};

// Thread-compatible. Nothing is kept unless Finish says so.
class TensorUpload {
 public:
  explicit TensorUpload(TensorUploadOptions options);

  // The header first: what cannot be kept is refused before its bytes come.
  // Then each chunk, written where it belongs. INVALID_ARGUMENT against the
  // message's field; RESOURCE_EXHAUSTED where the bytes do not fit.
  absl::Status Take(const v1::PutTensorRequest& request);

  // After the last message. INVALID_ARGUMENT where bytes are missing.
  absl::StatusOr<v1::PutTensorResponse> Finish();

 private:
  absl::Status Open(const v1::PutTensorHeader& header);
  absl::Status Add(const v1::PutTensorChunk& chunk);
  absl::Status CheckPlace(const v1::PutTensorChunk& chunk) const;
  absl::Status CheckHash(const v1::PutTensorChunk& chunk) const;

  const TensorUploadOptions options_;
  // Empty before the header.
  std::string name_;
  HostTensor value_;
  ByteBudget::Reservation reservation_;
  // The bytes that `value_` shows.
  std::shared_ptr<std::byte[]> buffer_;
  int64_t size_bytes_ = 0;
  int64_t received_bytes_ = 0;
  bool complete_ = false;
  TensorHash hash_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_TENSOR_UPLOAD_H_
