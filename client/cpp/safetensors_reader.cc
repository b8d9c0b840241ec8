#include "client/cpp/safetensors_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"

namespace phitap::client {
namespace {

using nlohmann::json;

constexpr char kMetadata[] = "__metadata__";
constexpr size_t kNamesInAMessage = 20;

// A file's bytes, mapped for as long as anyone holds `owner`.
struct MappedFile {
  std::shared_ptr<const void> owner;
  absl::Span<const std::byte> bytes;
};

absl::StatusOr<MappedFile> MapFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (file < 0 || fstat(file, &status) != 0) {
    const absl::Status failure =
        absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    if (file >= 0) close(file);
    return failure;
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* memory = size == 0 ? MAP_FAILED
                           : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file,
                                  /*offset=*/0);
  close(file);
  if (memory == MAP_FAILED) {
    return absl::InvalidArgumentError(absl::StrCat(path, " cannot be mapped"));
  }
  return MappedFile{.owner = {memory,
                              [size](const void* mapped) {
                                munmap(const_cast<void*>(mapped), size);
                              }},
                    .bytes = {static_cast<const std::byte*>(memory), size}};
}

absl::Status NoSafetensors(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is no safetensors file: ", why));
}

// The header, and in `data` what follows it.
absl::StatusOr<json> HeaderOf(const std::string& path, const MappedFile& file,
                              absl::Span<const std::byte>* data) {
  uint64_t size = 0;
  if (file.bytes.size() < sizeof(size)) return NoSafetensors(path, "too short");
  std::memcpy(&size, file.bytes.data(), sizeof(size));
  if (size > file.bytes.size() - sizeof(size)) {
    return NoSafetensors(path, "its header is longer than the file");
  }
  const absl::Span<const std::byte> header =
      file.bytes.subspan(sizeof(size), size);
  json parsed =
      json::parse(reinterpret_cast<const char*>(header.data()),
                  reinterpret_cast<const char*>(header.data()) + header.size(),
                  /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return NoSafetensors(path, "its header is no JSON");
  parsed.erase(kMetadata);
  *data = file.bytes.subspan(sizeof(size) + size);
  return parsed;
}

std::optional<DType> DtypeOf(const json& entry) {
  const std::string name = entry.value("dtype", "");
  for (const auto& [text, dtype] :
       {std::pair("F32", DType::kF32), std::pair("F16", DType::kF16),
        std::pair("BF16", DType::kBF16), std::pair("I64", DType::kI64),
        std::pair("I32", DType::kI32), std::pair("BOOL", DType::kBool)}) {
    if (name == text) return dtype;
  }
  return std::nullopt;
}

std::vector<std::string> NamesOf(const json& header) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : header.items()) names.push_back(name);
  return names;
}

std::string SomeNamesOf(const json& header) {
  std::vector<std::string> names = NamesOf(header);
  if (names.size() > kNamesInAMessage) {
    const size_t more = names.size() - kNamesInAMessage;
    names.resize(kNamesInAMessage);
    names.push_back(absl::StrCat("and ", more, " more"));
  }
  return absl::StrJoin(names, ", ");
}

// What a header says of one tensor, as a view of the file's bytes.
absl::StatusOr<HostTensor> TensorOf(const std::string& path, const json& entry,
                                    absl::Span<const std::byte> data) {
  const std::optional<DType> dtype = DtypeOf(entry);
  if (!dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": element type `", entry.value("dtype", ""),
                     "`; valid: F32, F16, BF16, I64, I32 or BOOL"));
  }
  const auto shape = entry.at("shape").get<std::vector<int64_t>>();
  const auto offsets = entry.at("data_offsets").get<std::vector<uint64_t>>();
  int64_t bytes = SizeInBytes(*dtype);
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) bytes = -1;
  }
  if (offsets.size() != 2 || bytes < 0 || offsets[0] > offsets[1] ||
      offsets[1] > data.size() ||
      offsets[1] - offsets[0] != static_cast<uint64_t>(bytes)) {
    return NoSafetensors(path, "shape and bytes of a tensor disagree");
  }
  return HostTensor{.dtype = *dtype,
                    .shape = shape,
                    .bytes = data.subspan(offsets[0], offsets[1] - offsets[0])};
}

}  // namespace

absl::StatusOr<HostTensor> ReadSafetensor(const std::string& path,
                                          absl::string_view name) {
  ASSIGN_OR_RETURN(const MappedFile file, MapFile(path));
  absl::Span<const std::byte> data;
  ASSIGN_OR_RETURN(const json header, HeaderOf(path, file, &data));
  if (name.empty() && header.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", header.size(),
                     " tensors: name one of them, ", SomeNamesOf(header)));
  }
  const auto found =
      name.empty() ? header.begin() : header.find(std::string(name));
  if (found == header.end()) {
    return absl::NotFoundError(absl::StrCat(path, " has no tensor `", name,
                                            "`; it has ", SomeNamesOf(header)));
  }
  try {
    ASSIGN_OR_RETURN(HostTensor tensor, TensorOf(path, *found, data));
    tensor.owner = file.owner;
    return tensor;
  } catch (const json::exception& error) {
    return NoSafetensors(path, error.what());
  }
}

absl::StatusOr<std::vector<std::string>> SafetensorNames(
    const std::string& path) {
  ASSIGN_OR_RETURN(const MappedFile file, MapFile(path));
  absl::Span<const std::byte> data;
  ASSIGN_OR_RETURN(const json header, HeaderOf(path, file, &data));
  return NamesOf(header);
}

}  // namespace phitap::client
