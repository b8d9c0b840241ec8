// The folder in which tensors outlive the server.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TENSORS_STATE_FOLDER_H_
#define PHITAP_SERVER_TENSORS_STATE_FOLDER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

// Locked for this process while it is open. A file there is complete or not
// there: it is written under a name of its own first. Tensors of an owner with
// a name are in `owners/NAME`, the others' in the folder itself; nobody but the
// server's user can read either. Thread-compatible.
class StateFolder {
 public:
  // Makes the folder where it is missing and removes what an interrupted write
  // left. FAILED_PRECONDITION if another process has it open, else what the
  // system says; both name the folder.
  static absl::StatusOr<std::unique_ptr<StateFolder>> Open(std::string path);
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  // Every tensor, by file name. An error names the file that is wrong.
  absl::StatusOr<std::vector<NamedTensor>> ReadAll() const;
  // Once it returns OK, the tensor is on the disk in place of the one before.
  absl::Status Write(const NamedTensor& tensor) const;
  // No error where there is no such file.
  absl::Status Remove(absl::string_view owner_name,
                      absl::string_view tensor_name) const;

 private:
  StateFolder(std::string path, int lock_file)
      : path_(std::move(path)), lock_file_(lock_file) {}
  std::string PathOf(absl::string_view file_name) const;
  // Never outside the folder: INVALID_ARGUMENT for what is no owner's name.
  absl::StatusOr<std::string> FolderOf(absl::string_view owner_name) const;
  // The names of the owners that have a folder, in order.
  absl::StatusOr<std::vector<std::string>> OwnerNames() const;

  const std::string path_;
  const int lock_file_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TENSORS_STATE_FOLDER_H_
