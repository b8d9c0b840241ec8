// A tensor on its way to the server, piece by piece.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_TENSOR_UPLOAD_H_
#define PHITAP_CLIENT_CPP_TENSOR_UPLOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "phitap/v1/activation_service.pb.h"
#include "server/base/host_tensor.h"

namespace phitap::client {

inline constexpr int64_t kUploadChunkBytes = 1 << 20;

// Bytes handed over so far, of all.
using UploadCallback = std::function<void(int64_t sent, int64_t total)>;

// The messages of an upload in their order: a header, then chunks of at most
// 1 MiB, the last with the checksum. A tensor of no bytes has one chunk.
// Thread-compatible; `tensor` must outlive it.
class TensorUpload {
 public:
  TensorUpload(absl::string_view name, const HostTensor& tensor);

  // Fills in the next message; false after the last.
  bool Next(v1::PutTensorRequest* message);

  int64_t sent_bytes() const { return sent_bytes_; }
  int64_t total_bytes() const {
    return static_cast<int64_t>(tensor_.bytes.size());
  }

 private:
  void FillHeader(v1::PutTensorHeader* header) const;

  const std::string name_;
  const HostTensor& tensor_;
  bool has_header_ = false;
  bool has_last_chunk_ = false;
  int64_t sent_bytes_ = 0;
};

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_TENSOR_UPLOAD_H_
