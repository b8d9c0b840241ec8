#include "server/tensors/state_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/identity_name.h"
#include "server/base/status_macros.h"
#include "server/tensors/tensor_file.h"

namespace phitap {
namespace {

constexpr char kOwnersName[] = "owners";
// Both begin with a dot, as no tensor's file does.
constexpr char kLockName[] = ".lock";
constexpr char kUnfinishedName[] = ".unfinished";

absl::Status SystemError(const std::string& path, int error) {
  return InvalidField({.field = path, .problem = std::strerror(error)},
                      absl::ErrnoToStatusCode(error));
}

// A new one is its user's alone.
absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  const bool is_new = std::filesystem::create_directories(path, error);
  if (is_new && !error) {
    std::filesystem::permissions(path, std::filesystem::perms::owner_all,
                                 error);
  }
  return error ? SystemError(path, error.value()) : absl::OkStatus();
}

// The names in a folder, in order.
absl::StatusOr<std::vector<std::string>> EntriesOf(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator file(path, error), end;
       !error && file != end; file.increment(error)) {
    names.push_back(file->path().filename());
  }
  if (error) return SystemError(path, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

// Adds the tensors of one owner.
absl::Status ReadFolder(const std::string& folder,
                        const std::string& owner_name,
                        std::vector<NamedTensor>& tensors) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(folder));
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, kTensorFileSuffix)) continue;
    const std::string path = absl::StrCat(folder, "/", name);
    ASSIGN_OR_RETURN(NamedTensor tensor, ReadTensorFile(path));
    if (TensorFileName(tensor.name) != name) {
      return InvalidField(
          {.field = path,
           .problem = absl::StrCat("holds the tensor ", tensor.name),
           .valid = TensorFileName(tensor.name)},
          absl::StatusCode::kDataLoss);
    }
    tensor.owner_name = owner_name;
    tensors.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

// A rename or removal is on the disk once its folder is.
absl::Status Sync(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return SystemError(path, errno);
  const auto closer = absl::MakeCleanup([folder] { close(folder); });
  if (fsync(folder) != 0) return SystemError(path, errno);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateFolder>> StateFolder::Open(
    std::string path) {
  RETURN_IF_ERROR(MakeFolder(path));
  const std::string lock_path = absl::StrCat(path, "/", kLockName);
  const int lock_file =
      open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_file < 0) return SystemError(lock_path, errno);
  std::unique_ptr<StateFolder> folder(
      new StateFolder(std::move(path), lock_file));
  if (flock(lock_file, LOCK_EX | LOCK_NB) != 0) {
    return InvalidField({.field = folder->path_,
                         .problem = "is in use by another server",
                         .valid = "a folder for each"},
                        absl::StatusCode::kFailedPrecondition);
  }
  unlink(folder->PathOf(kUnfinishedName).c_str());
  return folder;
}

StateFolder::~StateFolder() { close(lock_file_); }

absl::StatusOr<std::vector<NamedTensor>> StateFolder::ReadAll() const {
  std::vector<NamedTensor> tensors;
  RETURN_IF_ERROR(ReadFolder(path_, "", tensors));
  ASSIGN_OR_RETURN(const std::vector<std::string> owners, OwnerNames());
  for (const std::string& owner : owners) {
    ASSIGN_OR_RETURN(const std::string folder, FolderOf(owner));
    RETURN_IF_ERROR(ReadFolder(folder, owner, tensors));
  }
  return tensors;
}

absl::StatusOr<std::vector<std::string>> StateFolder::OwnerNames() const {
  const std::string owners = PathOf(kOwnersName);
  if (!std::filesystem::exists(owners)) return std::vector<std::string>();
  return EntriesOf(owners);
}

absl::Status StateFolder::Write(const NamedTensor& tensor) const {
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(tensor.owner_name));
  RETURN_IF_ERROR(MakeFolder(folder));
  const std::string unfinished = PathOf(kUnfinishedName);
  absl::Cleanup remover = [&] { unlink(unfinished.c_str()); };
  RETURN_IF_ERROR(WriteTensorFile(unfinished, tensor));
  const std::string path =
      absl::StrCat(folder, "/", TensorFileName(tensor.name));
  // An error shows the folder alone: it goes into the log, a tensor's name not.
  if (rename(unfinished.c_str(), path.c_str()) != 0) {
    return SystemError(folder, errno);
  }
  std::move(remover).Cancel();
  // The entry of a new folder is on the disk once those above it are.
  for (std::string synced = folder; synced.size() > path_.size();
       synced.resize(synced.rfind('/'))) {
    RETURN_IF_ERROR(Sync(synced));
  }
  return Sync(path_);
}

absl::Status StateFolder::Remove(absl::string_view owner_name,
                                 absl::string_view tensor_name) const {
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(owner_name));
  const std::string path =
      absl::StrCat(folder, "/", TensorFileName(tensor_name));
  if (unlink(path.c_str()) == 0) return Sync(folder);
  return errno == ENOENT ? absl::OkStatus() : SystemError(folder, errno);
}

std::string StateFolder::PathOf(absl::string_view file_name) const {
  return absl::StrCat(path_, "/", file_name);
}

absl::StatusOr<std::string> StateFolder::FolderOf(
    absl::string_view owner_name) const {
  if (owner_name.empty()) return path_;
  RETURN_IF_ERROR(CheckIdentityName(owner_name, PathOf(kOwnersName)));
  return absl::StrCat(PathOf(kOwnersName), "/", owner_name);
}

}  // namespace phitap
