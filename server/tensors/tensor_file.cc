#include "server/tensors/tensor_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/base/tensor_name.h"

namespace phitap {
namespace {

using Json = nlohmann::json;

// Shorter names are spelled out; file systems take 255 bytes.
constexpr size_t kMaxPlainBytes = 200;
constexpr size_t kLengthBytes = 8;
// Of the tensor within the file, so that it can be used in place.
constexpr size_t kAlignment = 64;
constexpr int64_t kMaxHeaderBytes = 1 << 20;
constexpr char kMetadata[] = "__metadata__";
constexpr char kCreateTime[] = "create_time";

constexpr std::pair<DType, absl::string_view> kDtypeNames[] = {
    {DType::kF32, "F32"}, {DType::kF16, "F16"}, {DType::kBF16, "BF16"},
    {DType::kI64, "I64"}, {DType::kI32, "I32"}, {DType::kBool, "BOOL"}};

absl::Status SystemError(absl::string_view path, int error) {
  return InvalidField(
      {.field = std::string(path), .problem = std::strerror(error)},
      absl::ErrnoToStatusCode(error));
}

absl::Status BadFile(absl::string_view path, absl::string_view problem) {
  return InvalidField(
      {.field = std::string(path),
       .problem = std::string(problem),
       .valid = "a safetensors file that the server wrote; move it away to "
                "start without it"},
      absl::StatusCode::kDataLoss);
}

// Length and JSON, padded so that the tensor is aligned.
std::string HeaderOf(const NamedTensor& tensor) {
  Json header;
  header[kMetadata][kCreateTime] = absl::FormatTime(
      absl::RFC3339_full, tensor.create_time, absl::UTCTimeZone());
  Json& entry = header[tensor.name];
  for (const auto& [dtype, name] : kDtypeNames) {
    if (dtype == tensor.value.dtype) entry["dtype"] = std::string(name);
  }
  entry["shape"] = tensor.value.shape;
  entry["data_offsets"] = {0, tensor.value.bytes.size()};
  std::string text = header.dump();
  text.append(
      (kAlignment - (kLengthBytes + text.size()) % kAlignment) % kAlignment,
      ' ');
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  }
  return length + text;
}

absl::Status WriteAll(const std::string& path, int file,
                      absl::Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path, errno);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

// The whole file, mapped for as long as the result or a copy of it lives.
absl::StatusOr<std::shared_ptr<const absl::Span<const std::byte>>> Map(
    const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return SystemError(path, errno);
  const auto closer = absl::MakeCleanup([file] { close(file); });
  struct stat status;
  if (fstat(file, &status) != 0) return SystemError(path, errno);
  if (!S_ISREG(status.st_mode)) return BadFile(path, "is no regular file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size <= kLengthBytes) return BadFile(path, "is cut short");
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (memory == MAP_FAILED) return SystemError(path, errno);
  return std::shared_ptr<const absl::Span<const std::byte>>(
      new absl::Span<const std::byte>(static_cast<std::byte*>(memory), size),
      [](const absl::Span<const std::byte>* bytes) {
        munmap(const_cast<std::byte*>(bytes->data()), bytes->size());
        delete bytes;
      });
}

std::optional<DType> DtypeOf(const Json& entry) {
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) return std::nullopt;
  for (const auto& [known, name] : kDtypeNames) {
    if (*dtype == std::string(name)) return known;
  }
  return std::nullopt;
}

// None where it is no list of sizes, or more than there can be.
std::optional<std::vector<int64_t>> ShapeOf(const Json& entry) {
  const auto sizes = entry.find("shape");
  if (sizes == entry.end() || !sizes->is_array()) return std::nullopt;
  std::vector<int64_t> shape;
  int64_t room = std::numeric_limits<int64_t>::max() / 8;
  for (const Json& size : *sizes) {
    if (!size.is_number_unsigned()) return std::nullopt;
    if (size.get<uint64_t>() > static_cast<uint64_t>(room)) return std::nullopt;
    shape.push_back(size.get<int64_t>());
    room /= std::max<int64_t>(shape.back(), 1);
  }
  return shape;
}

absl::Time CreateTimeOf(const Json& header) {
  const auto metadata = header.find(kMetadata);
  absl::Time time = absl::UnixEpoch();
  if (metadata == header.end() || !metadata->is_object()) return time;
  const auto text = metadata->find(kCreateTime);
  if (text == metadata->end() || !text->is_string()) return time;
  absl::ParseTime(absl::RFC3339_full, text->get<std::string>(), &time, nullptr);
  return time;
}

// The tensor that `header` describes, which `data` are the bytes of.
absl::StatusOr<NamedTensor> ReadHeader(const std::string& path,
                                       const Json& header,
                                       absl::Span<const std::byte> data) {
  NamedTensor tensor = {.create_time = CreateTimeOf(header),
                        .persistent = true};
  int count = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    ++count;
    const std::optional<DType> dtype = DtypeOf(entry);
    if (!dtype.has_value()) return BadFile(path, "its dtype is not known");
    const auto shape = ShapeOf(entry);
    if (!shape.has_value()) return BadFile(path, "its shape cannot be");
    tensor.name = name;
    tensor.value = {.dtype = *dtype, .shape = *shape, .bytes = data};
    const Json whole = {0, data.size()};
    if (entry.value("data_offsets", Json()) != whole ||
        ElementCount(*shape) * SizeInBytes(*dtype) !=
            static_cast<int64_t>(data.size())) {
      return BadFile(path, "its bytes are not as many as its shape needs");
    }
  }
  if (count != 1) return BadFile(path, "does not hold exactly one tensor");
  RETURN_IF_ERROR(CheckTensorName(tensor.name, path));
  return tensor;
}

}  // namespace

std::string TensorFileName(absl::string_view tensor_name) {
  std::string name(tensor_name);
  std::replace(name.begin(), name.end(), '/', '%');
  if (name.size() > kMaxPlainBytes) {
    // No name has a `~`.
    const XXH128_hash_t hash = XXH3_128bits(name.data(), name.size());
    name =
        absl::StrCat(name.substr(0, kMaxPlainBytes),
                     absl::StrFormat("~%016x%016x", hash.high64, hash.low64));
  }
  return name + kTensorFileSuffix;
}

absl::Status WriteTensorFile(const std::string& path,
                             const NamedTensor& tensor) {
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return SystemError(path, errno);
  const auto closer = absl::MakeCleanup([file] { close(file); });
  const std::string header = HeaderOf(tensor);
  RETURN_IF_ERROR(WriteAll(
      path, file,
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(header.data()),
                          header.size())));
  RETURN_IF_ERROR(WriteAll(path, file, tensor.value.bytes));
  if (fsync(file) != 0) return SystemError(path, errno);
  return absl::OkStatus();
}

absl::StatusOr<NamedTensor> ReadTensorFile(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, Map(path));
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>((*file)[i]) << (8 * i);
  }
  if (length >
      std::min<uint64_t>(kMaxHeaderBytes, file->size() - kLengthBytes)) {
    return BadFile(path, "its header is longer than it can be");
  }
  const auto* text = reinterpret_cast<const char*>(file->data()) + kLengthBytes;
  const Json header = Json::parse(text, text + length, nullptr, false);
  if (!header.is_object()) return BadFile(path, "its header is no JSON object");
  if ((kLengthBytes + length) % kAlignment != 0) {
    return BadFile(path, "its data are not aligned");
  }
  ASSIGN_OR_RETURN(
      NamedTensor tensor,
      ReadHeader(path, header, file->subspan(kLengthBytes + length)));
  tensor.value.owner = file;
  return tensor;
}

}  // namespace phitap
