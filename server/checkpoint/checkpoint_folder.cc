#include "server/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/file_bytes.h"
#include "server/checkpoint/json.h"

namespace phitap {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigName[] = "config.json";
constexpr char kAdapterName[] = "adapter_config.json";
constexpr char kSingleName[] = "model.safetensors";
constexpr char kIndexName[] = "model.safetensors.index.json";

struct OtherFormat {
  absl::string_view suffix;
  absl::string_view description;
};

constexpr OtherFormat kOtherFormats[] = {
    {".onnx", "an ONNX export"},
    {".gguf", "a GGUF export"},
    {".bin", "pickled PyTorch weights"},
    {".pth", "pickled PyTorch weights"},
    {".pt", "pickled PyTorch weights"},
    {".safetensors", "safetensors under another name"},
};

// Names in the folder, ascending; empty where it cannot be read.
std::vector<std::string> FilesIn(absl::string_view folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(fs::path(std::string(folder)), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// `wanted` is not in the folder: says so, and what is there instead.
absl::Status MissingFile(absl::string_view folder, absl::string_view wanted,
                         std::string valid) {
  for (const std::string& name : FilesIn(folder)) {
    for (const OtherFormat& format : kOtherFormats) {
      if (!absl::EndsWith(name, format.suffix)) continue;
      return InvalidField(
          {.field = std::string(wanted),
           .problem = absl::StrCat("is not in ", folder, ", which holds ",
                                   format.description, " (", name, ")"),
           .valid = std::move(valid)},
          absl::StatusCode::kFailedPrecondition);
    }
  }
  return InvalidField({.field = std::string(wanted),
                       .problem = absl::StrCat("is not in ", folder),
                       .valid = std::move(valid)},
                      absl::StatusCode::kNotFound);
}

// A shard's name must not lead out of the folder.
bool IsPlainName(absl::string_view name) {
  return absl::EndsWith(name, ".safetensors") &&
         !absl::StrContains(name, '/') && !absl::StrContains(name, '\\') &&
         !absl::StrContains(name, '\0');
}

std::string IndexField(absl::string_view tensor) {
  return absl::StrCat(kIndexName, ": weight_map[", QuotedName(tensor), "]");
}

absl::Status CheckShard(absl::string_view folder, absl::string_view tensor,
                        const nlohmann::json& shard) {
  if (!shard.is_string() || !IsPlainName(shard.get_ref<const std::string&>())) {
    return InvalidField(
        {.field = IndexField(tensor),
         .problem = absl::StrCat(Shown(shard), " is not a shard's name"),
         .valid = "the plain name of a .safetensors file in the same folder"},
        absl::StatusCode::kDataLoss);
  }
  if (!HasFile(folder, shard.get_ref<const std::string&>())) {
    return InvalidField(
        {.field = IndexField(tensor),
         .problem = absl::StrCat(Shown(shard), " is not in ", folder)},
        absl::StatusCode::kNotFound);
  }
  return absl::OkStatus();
}

absl::StatusOr<WeightFiles> ReadIndex(absl::string_view folder) {
  ASSIGN_OR_RETURN(const nlohmann::json index,
                   ReadJsonObject(folder, kIndexName));
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object() ||
      weight_map->empty()) {
    return InvalidField(
        {.field = absl::StrCat(kIndexName, ": weight_map"),
         .problem =
             weight_map == index.end() ? "is missing" : Shown(*weight_map),
         .valid = "an object from tensor names to file names"},
        absl::StatusCode::kDataLoss);
  }
  WeightFiles files{.list_name = kIndexName};
  std::set<std::string> names;
  for (const auto& [tensor, shard] : weight_map->items()) {
    // A shard is looked for once, not for each of its tensors.
    if (!shard.is_string() || names.count(shard.get<std::string>()) == 0) {
      RETURN_IF_ERROR(CheckShard(folder, tensor, shard));
    }
    names.insert(shard.get<std::string>());
    files.file_of_tensor.emplace(tensor, shard.get<std::string>());
  }
  files.names.assign(names.begin(), names.end());
  return files;
}

}  // namespace

bool HasFile(absl::string_view folder, absl::string_view name) {
  std::error_code error;
  return fs::exists(PathIn(folder, name), error);
}

absl::Status CheckFolder(absl::string_view folder) {
  std::error_code error;
  const fs::file_status status =
      fs::status(fs::path(std::string(folder)), error);
  if (!fs::exists(status)) {
    return InvalidField(
        {.field = std::string(folder), .problem = "does not exist"},
        absl::StatusCode::kNotFound);
  }
  if (!fs::is_directory(status)) {
    return InvalidField({.field = std::string(folder),
                         .problem = "is not a folder",
                         .valid = "a folder with config.json, "
                                  "model.safetensors and tokenizer.json"});
  }
  if (HasFile(folder, kAdapterName)) {
    return InvalidField(
        {.field = kAdapterName,
         .problem = absl::StrCat(folder, " holds an adapter"),
         .valid = "a whole checkpoint, with the adapter merged into it"},
        absl::StatusCode::kFailedPrecondition);
  }
  if (!HasFile(folder, kConfigName)) {
    return MissingFile(folder, kConfigName,
                       "a checkpoint in Hugging Face's format");
  }
  return absl::OkStatus();
}

absl::StatusOr<WeightFiles> FindWeights(absl::string_view folder) {
  if (HasFile(folder, kSingleName)) {
    WeightFiles files{.list_name = kSingleName, .names = {kSingleName}};
    if (HasFile(folder, kIndexName)) {
      files.warnings.push_back(absl::StrCat(
          kIndexName, ": ignored, since there is a ", kSingleName));
    }
    return files;
  }
  if (HasFile(folder, kIndexName)) return ReadIndex(folder);
  return MissingFile(folder, kSingleName,
                     absl::StrCat(kSingleName, " or ", kIndexName));
}

}  // namespace phitap
