#include "server/checkpoint/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/json.h"

namespace phitap {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
// The format's own limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr char kMetadata[] = "__metadata__";

struct StoredDType {
  absl::string_view name;
  int64_t bits;
  std::optional<DType> dtype;
};

constexpr StoredDType kStoredDTypes[] = {
    {"F32", 32, DType::kF32},         {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBF16},       {"I64", 64, DType::kI64},
    {"I32", 32, DType::kI32},         {"BOOL", 8, DType::kBool},
    {"F64", 64, std::nullopt},        {"C64", 64, std::nullopt},
    {"U64", 64, std::nullopt},        {"U32", 32, std::nullopt},
    {"I16", 16, std::nullopt},        {"U16", 16, std::nullopt},
    {"I8", 8, std::nullopt},          {"U8", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},     {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},     {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},     {"F4", 4, std::nullopt},
};

const StoredDType* FindDType(absl::string_view name) {
  for (const StoredDType& dtype : kStoredDTypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

// A header under scrutiny: every error names the file and the place in it.
class HeaderReader {
 public:
  HeaderReader(absl::Span<const std::byte> file, absl::string_view source)
      : file_(file), source_(source) {}

  absl::StatusOr<std::vector<StoredTensor>> Read() {
    ASSIGN_OR_RETURN(const json header, ReadJson());
    std::vector<StoredTensor> tensors;
    tensors.reserve(header.size());
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) {
        RETURN_IF_ERROR(CheckMetadata(entry));
        continue;
      }
      ASSIGN_OR_RETURN(StoredTensor tensor, ReadEntry(name, entry));
      tensors.push_back(std::move(tensor));
    }
    // Of tensors at the same offset the empty ones come first.
    std::sort(tensors.begin(), tensors.end(),
              [](const StoredTensor& a, const StoredTensor& b) {
                return std::tie(a.offset_bytes, a.size_bytes) <
                       std::tie(b.offset_bytes, b.size_bytes);
              });
    RETURN_IF_ERROR(CheckCover(tensors));
    return tensors;
  }

 private:
  absl::Status MalformedFile(std::string problem,
                             std::string valid = "") const {
    return InvalidField({.field = source_,
                         .problem = std::move(problem),
                         .valid = std::move(valid)},
                        absl::StatusCode::kDataLoss);
  }

  absl::Status MalformedTensor(const std::string& tensor, std::string problem,
                               std::string valid = "") const {
    return InvalidField(
        {.field = absl::StrCat(source_, ": ", QuotedName(tensor)),
         .problem = std::move(problem),
         .valid = std::move(valid)},
        absl::StatusCode::kDataLoss);
  }

  absl::StatusOr<json> ReadJson() {
    if (file_.size() < kLengthBytes) {
      return MalformedFile(absl::StrCat("has ", file_.size(), " bytes"),
                           "a safetensors file, which has at least 8");
    }
    uint64_t length = 0;  // little-endian, as every machine that we run on
    std::memcpy(&length, file_.data(), kLengthBytes);
    if (length > kMaxHeaderBytes) {
      return MalformedFile(
          absl::StrCat("says its header has ", length, " bytes"),
          absl::StrCat("at most ", kMaxHeaderBytes));
    }
    if (length > file_.size() - kLengthBytes) {
      return MalformedFile(absl::StrCat("is truncated: the header alone has ",
                                        length, " bytes, the file has ",
                                        file_.size()));
    }
    data_start_ = static_cast<int64_t>(kLengthBytes + length);
    data_size_ = static_cast<int64_t>(file_.size()) - data_start_;
    const absl::string_view text(
        reinterpret_cast<const char*>(file_.data() + kLengthBytes), length);
    if (text.empty() || text[0] != '{') {
      return MalformedFile("has a header that does not begin with an object");
    }
    return ParseJson(text, source_);
  }

  absl::Status CheckMetadata(const json& metadata) const {
    if (!metadata.is_object()) {
      return MalformedTensor(kMetadata, Shown(metadata),
                             "an object of strings");
    }
    for (const auto& [key, value] : metadata.items()) {
      if (!value.is_string()) {
        return MalformedTensor(
            kMetadata, absl::StrCat(QuotedName(key), " is ", Shown(value)),
            "an object of strings");
      }
    }
    return absl::OkStatus();
  }

  // The list of sizes or offsets that `entry` has under `key`.
  absl::StatusOr<std::vector<int64_t>> ReadSizes(const std::string& tensor,
                                                 const json& entry,
                                                 const char* key) const {
    const auto list = entry.find(key);
    if (list == entry.end() || !list->is_array()) {
      return MalformedTensor(tensor, absl::StrCat("has no list ", key));
    }
    std::vector<int64_t> sizes;
    for (const json& element : *list) {
      if (!element.is_number_unsigned() ||
          element.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        return MalformedTensor(tensor,
                               absl::StrCat(key, " holds ", Shown(element)),
                               absl::StrCat("integers from 0 to ", INT64_MAX));
      }
      sizes.push_back(element.get<int64_t>());
    }
    return sizes;
  }

  absl::StatusOr<int64_t> ByteCount(const StoredTensor& tensor,
                                    int64_t bits) const {
    for (const int64_t size : tensor.shape) {
      if (__builtin_mul_overflow(bits, size, &bits)) {
        return MalformedTensor(tensor.name,
                               "has more bytes than 64 bits count");
      }
    }
    if (bits % 8 != 0) {
      return MalformedTensor(tensor.name, "does not fill its last byte");
    }
    return bits / 8;
  }

  absl::StatusOr<StoredTensor> ReadEntry(const std::string& name,
                                         const json& entry) const {
    if (!entry.is_object()) {
      return MalformedTensor(name, Shown(entry),
                             "an object with dtype, shape and data_offsets");
    }
    const auto dtype_name = entry.find("dtype");
    if (dtype_name == entry.end() || !dtype_name->is_string()) {
      return MalformedTensor(name, "has no dtype");
    }
    const StoredDType* dtype =
        FindDType(dtype_name->get_ref<const std::string&>());
    if (dtype == nullptr) {
      return MalformedTensor(name, absl::StrCat("dtype ", Shown(*dtype_name),
                                                " is not one of the format's"));
    }
    StoredTensor tensor{.name = name,
                        .stored_dtype = std::string(dtype->name),
                        .dtype = dtype->dtype};
    ASSIGN_OR_RETURN(tensor.shape, ReadSizes(name, entry, "shape"));
    ASSIGN_OR_RETURN(tensor.size_bytes, ByteCount(tensor, dtype->bits));
    ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                     ReadSizes(name, entry, "data_offsets"));
    RETURN_IF_ERROR(CheckOffsets(tensor, offsets));
    tensor.offset_bytes = data_start_ + offsets[0];
    return tensor;
  }

  absl::Status CheckOffsets(const StoredTensor& tensor,
                            absl::Span<const int64_t> offsets) const {
    if (offsets.size() != 2) {
      return MalformedTensor(
          tensor.name, absl::StrCat("has ", offsets.size(), " data_offsets"),
          "2");
    }
    if (offsets[0] > offsets[1] || offsets[1] > data_size_) {
      return MalformedTensor(
          tensor.name,
          absl::StrCat("data_offsets ", offsets[0], " to ", offsets[1],
                       " are not within the file (truncated?)"),
          absl::StrCat("0 to ", data_size_));
    }
    if (offsets[1] - offsets[0] != tensor.size_bytes) {
      return MalformedTensor(
          tensor.name,
          absl::StrCat("data_offsets hold ", offsets[1] - offsets[0],
                       " bytes, dtype and shape need ", tensor.size_bytes));
    }
    return absl::OkStatus();
  }

  absl::Status CheckCover(absl::Span<const StoredTensor> tensors) const {
    int64_t end = data_start_;
    for (const StoredTensor& tensor : tensors) {
      if (tensor.offset_bytes != end) {
        return MalformedTensor(tensor.name,
                               tensor.offset_bytes < end
                                   ? "overlaps the tensor before it"
                                   : "comes after a hole");
      }
      end += tensor.size_bytes;
    }
    const int64_t rest = data_start_ + data_size_ - end;
    if (rest == 0) return absl::OkStatus();
    return MalformedFile(
        absl::StrCat("has ", rest, " bytes that belong to no tensor"));
  }

  absl::Span<const std::byte> file_;
  std::string source_;
  int64_t data_start_ = 0;
  int64_t data_size_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> ParseSafetensorsHeader(
    absl::Span<const std::byte> file, absl::string_view source) {
  return HeaderReader(file, source).Read();
}

}  // namespace phitap
