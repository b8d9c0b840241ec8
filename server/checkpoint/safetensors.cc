#include "server/checkpoint/safetensors.h"

#include <utility>

#include "server/base/status_macros.h"

namespace phitap {

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(absl::string_view path,
                                                      WeightStorage storage) {
  SafetensorsFile file;
  const size_t slash = path.rfind('/');
  file.name_ = std::string(
      slash == absl::string_view::npos ? path : path.substr(slash + 1));
  ASSIGN_OR_RETURN(file.file_, FileBytes::Open(path, storage));
  ASSIGN_OR_RETURN(file.tensors_,
                   ParseSafetensorsHeader(file.file_->bytes(), file.name_));
  file.index_.reserve(file.tensors_.size());
  for (size_t i = 0; i < file.tensors_.size(); ++i) {
    file.index_.emplace(file.tensors_[i].name, i);
  }
  return file;
}

const StoredTensor* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

HostTensor SafetensorsFile::Tensor(const StoredTensor& tensor) const {
  const DType dtype = tensor.dtype.value();
  const absl::Span<const std::byte> bytes =
      file_->bytes().subspan(tensor.offset_bytes, tensor.size_bytes);
  // Writers pad the header to 8 bytes, but need not.
  if (tensor.offset_bytes % SizeInBytes(dtype) != 0) {
    return CopyOf(dtype, tensor.shape, bytes);
  }
  return {
      .dtype = dtype, .shape = tensor.shape, .bytes = bytes, .owner = file_};
}

}  // namespace phitap
