#include "server/tensors/named_tensors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/tensors/state_folder.h"

namespace phitap {
namespace {

// Where the disk is full, a large tensor is not written again and again for
// every small one that fits.
constexpr absl::Duration kRetryPeriod = absl::Seconds(10);

int64_t BytesOf(const NamedTensor& tensor) {
  return static_cast<int64_t>(tensor.value.bytes.size());
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
    Shelf& shelf = tensors->shelves_[tensor.owner_name];
    shelf.used_bytes += BytesOf(tensor);
    tensors->used_bytes_ += BytesOf(tensor);
    shelf.tensors.emplace(tensor.name, std::move(tensor));
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

int64_t NamedTensors::used_bytes() const {
  std::lock_guard lock(mutex_);
  return used_bytes_;
}

const NamedTensors::Shelf& NamedTensors::ShelfOf(
    const std::string& owner_name) const {
  static const Shelf kEmpty;
  const auto shelf = shelves_.find(owner_name);
  return shelf == shelves_.end() ? kEmpty : shelf->second;
}

void NamedTensors::WriteBehind(FileName file) {
  if (folder_ == nullptr) return;
  if (std::find(unwritten_.begin(), unwritten_.end(), file) ==
      unwritten_.end()) {
    unwritten_.push_back(std::move(file));
  }
  changed_.notify_one();
}

NamedTensor* NamedTensors::FindKept(const NamedTensor& tensor) {
  Shelf& shelf = shelves_[tensor.owner_name];
  const auto kept = shelf.tensors.find(tensor.name);
  const bool same = kept != shelf.tensors.end() &&
                    kept->second.value.owner == tensor.value.owner;
  return same ? &kept->second : nullptr;
}

void NamedTensors::WriteFiles() {
  while (const std::optional<FileName> file = NextFile()) WriteFile(*file);
}

std::optional<NamedTensors::FileName> NamedTensors::NextFile() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !unwritten_.empty(); });
  if (unwritten_.empty()) unwritten_ = std::exchange(given_up_, {});
  if (unwritten_.empty()) return std::nullopt;
  FileName file = std::move(unwritten_.front());
  unwritten_.pop_front();
  return file;
}

void NamedTensors::WriteFile(const FileName& file) {
  const absl::StatusOr<NamedTensor> tensor =
      Of({.name = file.owner_name}).Get(file.name, "");
  if (!tensor.ok()) return RemoveFile(file);
  const absl::Status written = folder_->Write(*tensor);
  written.ok() ? TakeWritten(*tensor) : GiveUpFile(*tensor, written);
}

void NamedTensors::TakeWritten(const NamedTensor& tensor) {
  std::lock_guard lock(mutex_);
  NamedTensor* kept = FindKept(tensor);
  if (kept != nullptr) kept->persistent = true;
  if (given_up_.empty() || options_.clock->Now() < retry_time_) return;
  for (FileName& file : std::exchange(given_up_, {})) {
    WriteBehind(std::move(file));
  }
}

void NamedTensors::GiveUpFile(const NamedTensor& tensor,
                              const absl::Status& error) {
  if (options_.on_file_error) options_.on_file_error(error);
  {
    std::lock_guard lock(mutex_);
    NamedTensor* kept = FindKept(tensor);
    if (kept == nullptr) return;  // The next one is written anyway.
    kept->persistent = false;
    // After its last try it is given up for good.
    if (!stopping_) {
      given_up_.push_back(
          {.owner_name = tensor.owner_name, .name = tensor.name});
      retry_time_ = options_.clock->Now() + kRetryPeriod;
    }
  }
  // What the file held before must not come back after a restart.
  RemoveFile({.owner_name = tensor.owner_name, .name = tensor.name});
}

void NamedTensors::RemoveFile(const FileName& file) {
  const absl::Status removed = folder_->Remove(file.owner_name, file.name);
  if (!removed.ok() && options_.on_file_error) options_.on_file_error(removed);
}

}  // namespace phitap
