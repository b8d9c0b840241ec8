#include "server/checkpoint/stored_weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/json.h"

namespace phitap {

absl::StatusOr<StoredWeights> StoredWeights::Open(absl::string_view folder,
                                                  const WeightFiles& files,
                                                  WeightStorage storage) {
  StoredWeights weights;
  weights.list_name_ = files.list_name;
  for (const std::string& name : files.names) {
    ASSIGN_OR_RETURN(SafetensorsFile file,
                     SafetensorsFile::Open(PathIn(folder, name), storage));
    weights.files_.push_back(
        std::make_unique<const SafetensorsFile>(std::move(file)));
    RETURN_IF_ERROR(weights.Merge(*weights.files_.back()));
  }
  RETURN_IF_ERROR(weights.CheckIndex(files));
  return weights;
}

absl::Status StoredWeights::Merge(const SafetensorsFile& file) {
  for (const StoredTensor& tensor : file.tensors()) {
    const auto [place, inserted] =
        places_.emplace(tensor.name, Place{.file = &file, .tensor = &tensor});
    if (inserted) continue;
    return InvalidField(
        {.field = absl::StrCat(file.name(), ": ", QuotedName(tensor.name)),
         .problem = absl::StrCat("is also in ",
                                 QuotedName(place->second.file->name()))},
        absl::StatusCode::kDataLoss);
  }
  return absl::OkStatus();
}

absl::Status StoredWeights::CheckIndex(const WeightFiles& files) const {
  for (const auto& [tensor, file] : files.file_of_tensor) {
    const auto place = places_.find(tensor);
    if (place != places_.end() && place->second.file->name() == file) continue;
    return InvalidField(
        {.field = absl::StrCat(files.list_name, ": weight_map[",
                               QuotedName(tensor), "]"),
         .problem = absl::StrCat(
             QuotedName(file), " has no such tensor",
             place == places_.end()
                 ? ""
                 : absl::StrCat("; it is in ",
                                QuotedName(place->second.file->name())))},
        absl::StatusCode::kDataLoss);
  }
  return absl::OkStatus();
}

std::vector<std::string> StoredWeights::Names() const {
  std::vector<std::string> names;
  names.reserve(places_.size());
  for (const auto& place : places_) names.push_back(place.first);
  return names;
}

const StoredTensor* StoredWeights::Find(absl::string_view name) const {
  const auto place = places_.find(std::string(name));
  return place == places_.end() ? nullptr : place->second.tensor;
}

HostTensor StoredWeights::Tensor(absl::string_view name) const {
  const Place& place = places_.at(std::string(name));
  return place.file->Tensor(*place.tensor);
}

std::string StoredWeights::Field(absl::string_view name) const {
  const auto place = places_.find(std::string(name));
  return absl::StrCat(
      place == places_.end() ? list_name_ : place->second.file->name(), ": ",
      QuotedName(name));
}

}  // namespace phitap
