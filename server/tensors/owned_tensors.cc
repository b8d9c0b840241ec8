#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/json.h"
#include "server/base/status_macros.h"
#include "server/base/tensor_name.h"
#include "server/tensors/named_tensors.h"

namespace phitap {
namespace {

constexpr int kNamesToOffer = 5;
// Names that are compared with one that is not there: more take too long.
constexpr int kNamesToCompare = 1000;
// Of one owner, however small they are.
constexpr size_t kMaxTensors = 65536;

using TensorsByName = std::map<std::string, NamedTensor, std::less<>>;

int64_t BytesOf(const NamedTensor& tensor) {
  return static_cast<int64_t>(tensor.value.bytes.size());
}

// Names that may have been meant; by far not all where there are many.
std::vector<std::string> NamesNear(const TensorsByName& tensors,
                                   absl::string_view name) {
  auto near = tensors.lower_bound(name);
  for (int i = 0; i < kNamesToCompare / 2 && near != tensors.begin(); ++i) {
    --near;
  }
  std::vector<std::string> names;
  for (; near != tensors.end() && names.size() < kNamesToCompare; ++near) {
    names.push_back(near->first);
  }
  return names;
}

absl::Status NotFound(absl::string_view name,
                      const std::vector<std::string>& near,
                      absl::string_view field) {
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("no tensor ", QuotedName(name), " is kept"),
       .valid =
           near.empty()
               ? "none is: see PutTensor"
               : absl::StrJoin(NearestNames(name, near, kNamesToOffer), ", ")},
      absl::StatusCode::kNotFound);
}

absl::Status DoesNotFit(absl::string_view field, std::string problem,
                        std::string valid = "after others have been deleted") {
  return InvalidField({.field = std::string(field),
                       .problem = std::move(problem),
                       .valid = std::move(valid)},
                      absl::StatusCode::kResourceExhausted);
}

}  // namespace

absl::Status OwnedTensors::Put(absl::string_view name, HostTensor value,
                               absl::string_view field) const {
  RETURN_IF_ERROR(CheckTensorName(name, field));
  NamedTensor tensor = {.owner_name = owner_.name,
                        .name = std::string(name),
                        .value = std::move(value),
                        .create_time = store_->options_.clock->Now(),
                        .persistent = store_->folder_ != nullptr};
  const int64_t size_bytes = BytesOf(tensor);
  NamedTensor replaced;  // Freed after the lock.
  std::lock_guard lock(store_->mutex_);
  RETURN_IF_ERROR(CheckFits(name, size_bytes, field));
  NamedTensors::Shelf& shelf = store_->shelves_[owner_.name];
  replaced = std::exchange(shelf.tensors[tensor.name], std::move(tensor));
  shelf.used_bytes += size_bytes - BytesOf(replaced);
  store_->used_bytes_ += size_bytes - BytesOf(replaced);
  store_->WriteBehind({.owner_name = owner_.name, .name = std::string(name)});
  return absl::OkStatus();
}

absl::Status OwnedTensors::CheckPut(absl::string_view name, int64_t size_bytes,
                                    absl::string_view field) const {
  RETURN_IF_ERROR(CheckTensorName(name, field));
  std::lock_guard lock(store_->mutex_);
  return CheckFits(name, size_bytes, field);
}

absl::Status OwnedTensors::CheckFits(absl::string_view name, int64_t size_bytes,
                                     absl::string_view field) const {
  const NamedTensors::Shelf& shelf = store_->ShelfOf(owner_.name);
  const auto replaced = shelf.tensors.find(name);
  const bool is_new = replaced == shelf.tensors.end();
  if (is_new && shelf.tensors.size() >= kMaxTensors) {
    return DoesNotFit(
        field,
        absl::StrCat("as many tensors as can be are kept: ", kMaxTensors));
  }
  const int64_t used_bytes =
      shelf.used_bytes - (is_new ? 0 : BytesOf(replaced->second));
  const std::string needed = absl::StrCat(name, " needs ", size_bytes,
                                          " bytes beside your ", used_bytes);
  if (size_bytes > max_bytes()) {
    return DoesNotFit(
        field, absl::StrCat(needed, ", and at most ", max_bytes(), " are kept"),
        "a smaller tensor");
  }
  if (size_bytes > max_bytes() - used_bytes) {
    return DoesNotFit(field,
                      absl::StrCat(needed, ", and you may keep ", max_bytes()));
  }
  // How many bytes others have is not theirs to know.
  const int64_t others_bytes = store_->used_bytes_ - shelf.used_bytes;
  if (size_bytes > store_->max_bytes() - used_bytes - others_bytes) {
    return DoesNotFit(
        field, absl::StrCat(needed, ", which the server has no room for"));
  }
  return absl::OkStatus();
}

absl::StatusOr<HostTensor> OwnedTensors::Find(absl::string_view name,
                                              absl::string_view field) const {
  ASSIGN_OR_RETURN(NamedTensor tensor, Get(name, field));
  return std::move(tensor.value);
}

absl::StatusOr<NamedTensor> OwnedTensors::Get(absl::string_view name,
                                              absl::string_view field) const {
  std::unique_lock lock(store_->mutex_);
  const NamedTensors::Shelf& shelf = store_->ShelfOf(owner_.name);
  const auto tensor = shelf.tensors.find(name);
  if (tensor != shelf.tensors.end()) return tensor->second;
  const std::vector<std::string> near = NamesNear(shelf.tensors, name);
  lock.unlock();
  return NotFound(name, near, field);
}

absl::Status OwnedTensors::Delete(absl::string_view name,
                                  absl::string_view field) const {
  NamedTensor deleted;  // Freed after the lock.
  std::unique_lock lock(store_->mutex_);
  NamedTensors::Shelf& shelf = store_->shelves_[owner_.name];
  const auto tensor = shelf.tensors.find(name);
  if (tensor == shelf.tensors.end()) {
    const std::vector<std::string> near = NamesNear(shelf.tensors, name);
    lock.unlock();
    return NotFound(name, near, field);
  }
  deleted = std::move(tensor->second);
  shelf.used_bytes -= BytesOf(deleted);
  store_->used_bytes_ -= BytesOf(deleted);
  shelf.tensors.erase(tensor);
  store_->WriteBehind({.owner_name = owner_.name, .name = std::string(name)});
  return absl::OkStatus();
}

std::vector<NamedTensor> OwnedTensors::List(absl::string_view prefix) const {
  std::vector<NamedTensor> listed;
  std::lock_guard lock(store_->mutex_);
  const TensorsByName& tensors = store_->ShelfOf(owner_.name).tensors;
  for (auto tensor = tensors.lower_bound(prefix);
       tensor != tensors.end() && absl::StartsWith(tensor->first, prefix);
       ++tensor) {
    listed.push_back(tensor->second);
  }
  return listed;
}

int64_t OwnedTensors::used_bytes() const {
  std::lock_guard lock(store_->mutex_);
  return store_->ShelfOf(owner_.name).used_bytes;
}

int64_t OwnedTensors::max_bytes() const {
  return std::min(owner_.max_bytes, store_->max_bytes());
}

}  // namespace phitap
