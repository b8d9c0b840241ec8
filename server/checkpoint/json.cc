#include "server/checkpoint/json.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/file_bytes.h"

namespace phitap {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = 64 << 20;

}  // namespace

absl::StatusOr<json> ReadJsonObject(absl::string_view folder,
                                    absl::string_view name) {
  ASSIGN_OR_RETURN(const auto file,
                   FileBytes::Open(PathIn(folder, name), WeightStorage::kMap));
  if (file->bytes().size() > kMaxFileBytes) {
    return InvalidField(
        {.field = std::string(name),
         .problem = absl::StrCat("has ", file->bytes().size(), " bytes"),
         .valid = absl::StrCat("at most ", kMaxFileBytes)},
        absl::StatusCode::kDataLoss);
  }
  ASSIGN_OR_RETURN(json value, ParseJson(file->text(), name));
  if (!value.is_object()) {
    return InvalidField(
        {.field = std::string(name),
         .problem = absl::StrCat(Shown(value), " is not an object")},
        absl::StatusCode::kDataLoss);
  }
  return value;
}

}  // namespace phitap
