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
#include "server/base/status_macros.h"
#include "server/tensors/tensor_file.h"

namespace phitap {
namespace {

// Both begin with a dot, as no tensor's file does.
constexpr char kLockName[] = ".lock";
constexpr char kUnfinishedName[] = ".unfinished";

absl::Status SystemError(const std::string& path, int error) {
  return InvalidField({.field = path, .problem = std::strerror(error)},
                      absl::ErrnoToStatusCode(error));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateFolder>> StateFolder::Open(
    std::string path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return SystemError(path, error.value());
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
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator file(path_, error), end;
       !error && file != end; file.increment(error)) {
    const std::string name = file->path().filename();
    if (absl::EndsWith(name, kTensorFileSuffix)) names.push_back(name);
  }
  if (error) return SystemError(path_, error.value());
  std::sort(names.begin(), names.end());
  std::vector<NamedTensor> tensors;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(NamedTensor tensor, ReadTensorFile(PathOf(name)));
    if (TensorFileName(tensor.name) != name) {
      return InvalidField(
          {.field = PathOf(name),
           .problem = absl::StrCat("holds the tensor ", tensor.name),
           .valid = TensorFileName(tensor.name)},
          absl::StatusCode::kDataLoss);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::Status StateFolder::Write(const NamedTensor& tensor) const {
  const std::string unfinished = PathOf(kUnfinishedName);
  absl::Cleanup remover = [&] { unlink(unfinished.c_str()); };
  RETURN_IF_ERROR(WriteTensorFile(unfinished, tensor));
  const std::string path = PathOf(TensorFileName(tensor.name));
  if (rename(unfinished.c_str(), path.c_str()) != 0) {
    return SystemError(path, errno);
  }
  std::move(remover).Cancel();
  return Sync();
}

absl::Status StateFolder::Remove(absl::string_view tensor_name) const {
  const std::string path = PathOf(TensorFileName(tensor_name));
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return SystemError(path, errno);
  }
  return Sync();
}

std::string StateFolder::PathOf(absl::string_view file_name) const {
  return absl::StrCat(path_, "/", file_name);
}

// A rename or removal is on the disk once its folder is.
absl::Status StateFolder::Sync() const {
  const int folder = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return SystemError(path_, errno);
  const auto closer = absl::MakeCleanup([folder] { close(folder); });
  if (fsync(folder) != 0) return SystemError(path_, errno);
  return absl::OkStatus();
}

}  // namespace phitap
