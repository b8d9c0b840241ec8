#include "server/tensors/named_tensors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/base/tensor_name.h"
#include "server/tensors/state_folder.h"

namespace phitap {
namespace {

constexpr int kNamesToOffer = 5;
// Names that are compared with one that is not there: more take too long.
constexpr int kNamesToCompare = 1000;
// However small they are.
constexpr size_t kMaxTensors = 65536;

int64_t BytesOf(const NamedTensor& tensor) {
  return static_cast<int64_t>(tensor.value.bytes.size());
}

absl::Status NotFound(absl::string_view name,
                      const std::vector<std::string>& near,
                      absl::string_view field) {
  return InvalidField(
      {.field = std::string(field),
       .problem =
           absl::StrCat("no tensor \"", absl::CHexEscape(name), "\" is kept"),
       .valid =
           near.empty()
               ? "none is: see PutTensor"
               : absl::StrJoin(NearestNames(name, near, kNamesToOffer), ", ")},
      absl::StatusCode::kNotFound);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NamedTensors>> NamedTensors::Open(
    NamedTensorsOptions options) {
  std::unique_ptr<StateFolder> folder;
  std::vector<NamedTensor> stored;
  if (!options.state_dir.empty()) {
    ASSIGN_OR_RETURN(folder, StateFolder::Open(options.state_dir));
    ASSIGN_OR_RETURN(stored, folder->ReadAll());
  }
  std::unique_ptr<NamedTensors> tensors(
      new NamedTensors(std::move(options), std::move(folder)));
  for (NamedTensor& tensor : stored) {
    tensors->used_bytes_ += BytesOf(tensor);
    tensors->tensors_.emplace(tensor.name, std::move(tensor));
  }
  if (tensors->used_bytes_ > tensors->options_.max_bytes) {
    return InvalidField(
        {.field = tensors->options_.state_dir,
         .problem =
             absl::StrCat("holds tensors of ", tensors->used_bytes_, " bytes"),
         .valid = absl::StrCat("at most ", tensors->options_.max_bytes)},
        absl::StatusCode::kResourceExhausted);
  }
  return tensors;
}

NamedTensors::NamedTensors(NamedTensorsOptions options,
                           std::unique_ptr<StateFolder> folder)
    : options_(std::move(options)), folder_(std::move(folder)) {
  if (folder_ != nullptr) writer_ = std::thread([this] { WriteFiles(); });
}

NamedTensors::~NamedTensors() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (writer_.joinable()) writer_.join();
}

absl::Status NamedTensors::Put(absl::string_view name, HostTensor value,
                               absl::string_view field) {
  RETURN_IF_ERROR(CheckTensorName(name, field));
  NamedTensor tensor = {.name = std::string(name),
                        .value = std::move(value),
                        .create_time = options_.clock->Now(),
                        .persistent = folder_ != nullptr};
  const int64_t size_bytes = BytesOf(tensor);
  NamedTensor replaced;  // Freed after the lock.
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckFits(name, size_bytes, field));
  replaced = std::exchange(tensors_[tensor.name], std::move(tensor));
  used_bytes_ += size_bytes - BytesOf(replaced);
  WriteBehind(name);
  return absl::OkStatus();
}

absl::Status NamedTensors::CheckPut(absl::string_view name, int64_t size_bytes,
                                    absl::string_view field) const {
  RETURN_IF_ERROR(CheckTensorName(name, field));
  std::lock_guard lock(mutex_);
  return CheckFits(name, size_bytes, field);
}

absl::Status NamedTensors::CheckFits(absl::string_view name, int64_t size_bytes,
                                     absl::string_view field) const {
  const auto replaced = tensors_.find(name);
  if (replaced == tensors_.end() && tensors_.size() >= kMaxTensors) {
    return InvalidField(
        {.field = std::string(field),
         .problem =
             absl::StrCat("as many tensors as can be are kept: ", kMaxTensors),
         .valid = "after others have been deleted"},
        absl::StatusCode::kResourceExhausted);
  }
  const int64_t free_bytes =
      options_.max_bytes - used_bytes_ +
      (replaced == tensors_.end() ? 0 : BytesOf(replaced->second));
  if (size_bytes <= free_bytes) return absl::OkStatus();
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat(name, " needs ", size_bytes, " bytes, and ",
                               free_bytes, " of the ", options_.max_bytes,
                               " that the server keeps tensors in are free"),
       .valid = size_bytes > options_.max_bytes
                    ? "a smaller tensor"
                    : "after others have been deleted"},
      absl::StatusCode::kResourceExhausted);
}

absl::StatusOr<HostTensor> NamedTensors::Find(absl::string_view name,
                                              absl::string_view field) const {
  ASSIGN_OR_RETURN(NamedTensor tensor, Get(name, field));
  return std::move(tensor.value);
}

absl::StatusOr<NamedTensor> NamedTensors::Get(absl::string_view name,
                                              absl::string_view field) const {
  std::unique_lock lock(mutex_);
  const auto tensor = tensors_.find(name);
  if (tensor != tensors_.end()) return tensor->second;
  const std::vector<std::string> near = NamesNear(name);
  lock.unlock();
  return NotFound(name, near, field);
}

std::vector<std::string> NamedTensors::NamesNear(absl::string_view name) const {
  auto near = tensors_.lower_bound(name);
  for (int i = 0; i < kNamesToCompare / 2 && near != tensors_.begin(); ++i) {
    --near;
  }
  std::vector<std::string> names;
  for (; near != tensors_.end() && names.size() < kNamesToCompare; ++near) {
    names.push_back(near->first);
  }
  return names;
}

absl::Status NamedTensors::Delete(absl::string_view name,
                                  absl::string_view field) {
  NamedTensor deleted;  // Freed after the lock.
  std::unique_lock lock(mutex_);
  const auto tensor = tensors_.find(name);
  if (tensor == tensors_.end()) {
    const std::vector<std::string> near = NamesNear(name);
    lock.unlock();
    return NotFound(name, near, field);
  }
  deleted = std::move(tensor->second);
  used_bytes_ -= BytesOf(deleted);
  tensors_.erase(tensor);
  WriteBehind(name);
  return absl::OkStatus();
}

std::vector<NamedTensor> NamedTensors::List(absl::string_view prefix) const {
  std::vector<NamedTensor> listed;
  std::lock_guard lock(mutex_);
  for (auto tensor = tensors_.lower_bound(prefix);
       tensor != tensors_.end() && absl::StartsWith(tensor->first, prefix);
       ++tensor) {
    listed.push_back(tensor->second);
  }
  return listed;
}

int64_t NamedTensors::used_bytes() const {
  std::lock_guard lock(mutex_);
  return used_bytes_;
}

int64_t NamedTensors::max_bytes() const { return options_.max_bytes; }

void NamedTensors::WriteBehind(absl::string_view name) {
  if (folder_ == nullptr) return;
  if (std::find(unwritten_.begin(), unwritten_.end(), name) ==
      unwritten_.end()) {
    unwritten_.emplace_back(name);
  }
  changed_.notify_one();
}

void NamedTensors::WriteFiles() {
  for (;;) {
    std::string name;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !unwritten_.empty(); });
      if (unwritten_.empty()) return;
      name = std::move(unwritten_.front());
      unwritten_.pop_front();
    }
    WriteFile(name);
  }
}

void NamedTensors::WriteFile(const std::string& name) {
  const absl::StatusOr<NamedTensor> tensor = Get(name, "");
  if (tensor.ok()) {
    const absl::Status written = folder_->Write(*tensor);
    if (!written.ok()) GiveUpFile(name, *tensor, written);
    return;
  }
  const absl::Status removed = folder_->Remove(name);
  if (!removed.ok() && options_.on_file_error) options_.on_file_error(removed);
}

void NamedTensors::GiveUpFile(const std::string& name,
                              const NamedTensor& tensor,
                              const absl::Status& error) {
  if (options_.on_file_error) options_.on_file_error(error);
  {
    std::lock_guard lock(mutex_);
    const auto kept = tensors_.find(name);
    if (kept == tensors_.end() ||
        kept->second.value.owner != tensor.value.owner) {
      return;  // The next one is written anyway.
    }
    kept->second.persistent = false;
  }
  // What the file held before must not come back after a restart.
  const absl::Status removed = folder_->Remove(name);
  if (!removed.ok() && options_.on_file_error) options_.on_file_error(removed);
}

}  // namespace phitap
