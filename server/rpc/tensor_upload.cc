#include "server/rpc/tensor_upload.h"

#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/refuse_unknown.h"
#include "server/plan/wire_type.h"
#include "server/rpc/tensor_messages.h"
#include "server/rpc/tensor_wire.h"

namespace phitap {
namespace {

constexpr int kMaxDimensions = 16;

absl::StatusOr<DType> DtypeOf(const v1::PutTensorHeader& header) {
  switch (header.dtype()) {
    case v1::DATA_TYPE_F32:
    case v1::DATA_TYPE_F16:
    case v1::DATA_TYPE_BF16:
      return *FromWire(header.dtype());
    default:
      return InvalidField(
          {.field = "header.dtype",
           .problem = v1::DataType_Name(header.dtype()),
           .valid = "DATA_TYPE_F32, DATA_TYPE_F16 or DATA_TYPE_BF16"});
  }
}

absl::StatusOr<int64_t> SizeOf(const v1::PutTensorHeader& header, DType dtype) {
  if (header.shape_size() > kMaxDimensions) {
    return InvalidField(
        {.field = "header.shape",
         .problem = absl::StrCat(header.shape_size(), " dimensions"),
         .valid = absl::StrCat("at most ", kMaxDimensions)});
  }
  int64_t size_bytes = SizeInBytes(dtype);
  for (int i = 0; i < header.shape_size(); ++i) {
    const int64_t size = header.shape(i);
    if (size < 1 || size > std::numeric_limits<int64_t>::max() / size_bytes) {
      return InvalidField(
          {.field = absl::StrCat("header.shape[", i, "]"),
           .problem = absl::StrCat(size),
           .valid = "sizes of 1 or more, with fewer than 2^63 bytes together"});
    }
    size_bytes *= size;
  }
  return size_bytes;
}

}  // namespace

TensorUpload::TensorUpload(TensorUploadOptions options) : options_(options) {}

absl::Status TensorUpload::Take(const v1::PutTensorRequest& request) {
  RETURN_IF_ERROR(RefuseUnknown(request, ""));
  if (name_.empty() && request.has_header()) return Open(request.header());
  if (!name_.empty() && request.has_chunk()) return Add(request.chunk());
  return InvalidField({.field = "message",
                       .problem = name_.empty() ? "the first has no header"
                                  : request.has_header()
                                      ? "a second header"
                                      : "neither header nor chunk",
                       .valid = "one header, then chunks"});
}

absl::Status TensorUpload::Open(const v1::PutTensorHeader& header) {
  ASSIGN_OR_RETURN(const DType dtype, DtypeOf(header));
  ASSIGN_OR_RETURN(size_bytes_, SizeOf(header, dtype));
  RETURN_IF_ERROR(
      options_.tensors.CheckPut(header.name(), size_bytes_, "header.name"));
  ASSIGN_OR_RETURN(reservation_, options_.budget->Reserve(size_bytes_));
  // Not cleared: pages that never come are never touched.
  buffer_.reset(new (std::nothrow) std::byte[size_bytes_]);
  if (buffer_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there is no memory for ", size_bytes_, " bytes"));
  }
  value_ = {.dtype = dtype,
            .shape = {header.shape().begin(), header.shape().end()},
            .bytes = absl::MakeConstSpan(buffer_.get(), size_bytes_),
            .owner = buffer_};
  name_ = header.name();
  return absl::OkStatus();
}

absl::Status TensorUpload::Add(const v1::PutTensorChunk& chunk) {
  RETURN_IF_ERROR(CheckPlace(chunk));
  std::byte* const target = buffer_.get() + received_bytes_;
  std::memcpy(target, chunk.data().data(), chunk.data().size());
  hash_.Add(absl::MakeConstSpan(target, chunk.data().size()));
  received_bytes_ += static_cast<int64_t>(chunk.data().size());
  complete_ = received_bytes_ == size_bytes_;
  return CheckHash(chunk);
}

absl::Status TensorUpload::CheckPlace(const v1::PutTensorChunk& chunk) const {
  if (chunk.offset_bytes() != received_bytes_) {
    return InvalidField({.field = "chunk.offset_bytes",
                         .problem = absl::StrCat(chunk.offset_bytes()),
                         .valid = absl::StrCat(received_bytes_)});
  }
  const auto bytes = static_cast<int64_t>(chunk.data().size());
  if (bytes > kMaxChunkBytes) {
    return InvalidField({.field = "chunk.data",
                         .problem = absl::StrCat(bytes, " bytes"),
                         .valid = absl::StrCat("at most ", kMaxChunkBytes)});
  }
  if (bytes == 0 || bytes > size_bytes_ - received_bytes_) {
    return InvalidField(
        {.field = "chunk.data",
         .problem = absl::StrCat(bytes, " bytes after ", received_bytes_,
                                 " of the tensor's ", size_bytes_),
         .valid = complete_
                      ? "no chunk after the last"
                      : absl::StrCat("1 to ", size_bytes_ - received_bytes_)});
  }
  return absl::OkStatus();
}

absl::Status TensorUpload::CheckHash(const v1::PutTensorChunk& chunk) const {
  if (chunk.has_xxh3() != complete_) {
    return InvalidField(
        {.field = "chunk.xxh3",
         .problem = complete_ ? "not set on the last chunk"
                              : "set before the last chunk",
         .valid = "XXH3-64 of the whole tensor, on its last chunk"});
  }
  if (!complete_) return absl::OkStatus();
  const uint64_t hash = hash_.Value();
  if (chunk.xxh3() == hash) return absl::OkStatus();
  return InvalidField(
      {.field = "chunk.xxh3",
       .problem = absl::StrCat(absl::Hex(chunk.xxh3(), absl::kZeroPad16),
                               " is not that of the bytes that came"),
       .valid = absl::StrCat(absl::Hex(hash, absl::kZeroPad16))});
}

absl::StatusOr<v1::PutTensorResponse> TensorUpload::Finish() {
  if (!complete_) {
    return InvalidField(
        {.field = name_.empty() ? "header" : "chunk",
         .problem = absl::StrCat("the upload ended after ", received_bytes_,
                                 " of ", size_bytes_, " bytes"),
         .valid = "a header, then chunks with all of the tensor's bytes"});
  }
  RETURN_IF_ERROR(
      options_.tensors.Put(name_, std::move(value_), "header.name"));
  ASSIGN_OR_RETURN(const NamedTensor kept,
                   options_.tensors.Get(name_, "header.name"));
  v1::PutTensorResponse response;
  *response.mutable_tensor() = DescribeStored(kept);
  return response;
}

}  // namespace phitap
