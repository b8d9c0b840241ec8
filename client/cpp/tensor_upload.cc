#include "client/cpp/tensor_upload.h"

#include <algorithm>

#include "client/cpp/wire_dtype.h"
#include "server/base/tensor_hash.h"

namespace phitap::client {

TensorUpload::TensorUpload(absl::string_view name, const HostTensor& tensor)
    : name_(name), tensor_(tensor) {}

void TensorUpload::FillHeader(v1::PutTensorHeader* header) const {
  header->set_name(name_);
  header->set_dtype(ToWire(tensor_.dtype));
  header->mutable_shape()->Add(tensor_.shape.begin(), tensor_.shape.end());
}

bool TensorUpload::Next(v1::PutTensorRequest* message) {
  message->Clear();
  if (!has_header_) {
    has_header_ = true;
    FillHeader(message->mutable_header());
    return true;
  }
  if (has_last_chunk_) return false;
  v1::PutTensorChunk* chunk = message->mutable_chunk();
  const int64_t size = std::min(kUploadChunkBytes, total_bytes() - sent_bytes_);
  chunk->set_offset_bytes(sent_bytes_);
  chunk->set_data(tensor_.bytes.data() + sent_bytes_,
                  static_cast<size_t>(size));
  sent_bytes_ += size;
  if (sent_bytes_ == total_bytes()) {
    has_last_chunk_ = true;
    chunk->set_xxh3(HashTensor(tensor_.bytes));
  }
  return true;
}

}  // namespace phitap::client
