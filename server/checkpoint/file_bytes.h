// The bytes of one file of a checkpoint, mapped or read into memory.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_FILE_BYTES_H_
#define PHITAP_SERVER_CHECKPOINT_FILE_BYTES_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace phitap {

// Where the weights live while the model uses them.
enum class WeightStorage {
  // The mapped file: nothing is copied, and pages are shared by every process
  // that maps it. The file must not be truncated meanwhile.
  kMap,
  // Anonymous memory, read at load: the file may change or go afterwards.
  kCopy,
};

// Either way the first byte stands at a page boundary, so that a tensor's
// address and its offset in the file agree modulo 64: float32 results depend on
// it. Immutable, hence thread-safe.
class FileBytes {
 public:
  // NOT_FOUND, INVALID_ARGUMENT for what is no regular file,
  // RESOURCE_EXHAUSTED where memory does not suffice, else what the system
  // says.
  static absl::StatusOr<std::shared_ptr<const FileBytes>> Open(
      absl::string_view path, WeightStorage storage);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  absl::Span<const std::byte> bytes() const { return bytes_; }
  absl::string_view text() const;

 private:
  explicit FileBytes(absl::Span<const std::byte> bytes) : bytes_(bytes) {}
  absl::Span<const std::byte> bytes_;
};

// Asks the system to read the pages of mapped bytes, and no others, in the
// background. Touching them would read megabytes around each.
void Prefetch(absl::Span<const std::byte> bytes);

// Takes no memory for these mapped bytes until they are used again. Never of
// copied ones: they would be lost.
void GiveBackPages(absl::Span<const std::byte> bytes);

// `folder`/`name`.
std::string PathIn(absl::string_view folder, absl::string_view name);

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_FILE_BYTES_H_
