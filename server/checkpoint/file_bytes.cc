#include "server/checkpoint/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

absl::Status SystemError(absl::string_view path, int error) {
  return InvalidField(
      {.field = std::string(path), .problem = std::strerror(error)},
      absl::ErrnoToStatusCode(error));
}

absl::StatusOr<size_t> RegularFileSize(absl::string_view path, int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return SystemError(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return InvalidField(
        {.field = std::string(path), .problem = "is not a regular file"});
  }
  return static_cast<size_t>(status.st_size);
}

absl::Status ReadInto(absl::string_view path, int descriptor,
                      absl::Span<std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    // The kernel reads at most 2 GiB a call.
    const ssize_t count =
        pread(descriptor, bytes.data() + done, bytes.size() - done, done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path, errno);
    if (count == 0) {
      return InvalidField(
          {.field = std::string(path), .problem = "shrank while it was read"},
          absl::StatusCode::kDataLoss);
    }
    done += count;
  }
  return absl::OkStatus();
}

uintptr_t PageBytes() {
  static const uintptr_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

void* MapFile(int descriptor, size_t size) {
  return mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
}

void* MapMemory(size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // Fewer TLB misses; a kernel without huge pages says no, and nothing is lost.
  if (memory != MAP_FAILED) madvise(memory, size, MADV_HUGEPAGE);
  return memory;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const FileBytes>> FileBytes::Open(
    absl::string_view path, WeightStorage storage) {
  // O_NONBLOCK: a named pipe must not stall the load.
  const int descriptor =
      open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return SystemError(path, errno);
  const auto closer = absl::MakeCleanup([descriptor] { close(descriptor); });
  ASSIGN_OR_RETURN(const size_t size, RegularFileSize(path, descriptor));
  if (size == 0) return std::shared_ptr<const FileBytes>(new FileBytes({}));

  void* memory = storage == WeightStorage::kMap ? MapFile(descriptor, size)
                                                : MapMemory(size);
  if (memory == MAP_FAILED) return SystemError(path, errno);
  const absl::Span<std::byte> bytes(static_cast<std::byte*>(memory), size);
  std::shared_ptr<const FileBytes> file(new FileBytes(bytes));
  if (storage == WeightStorage::kCopy) {
    RETURN_IF_ERROR(ReadInto(path, descriptor, bytes));
    mprotect(memory, size, PROT_READ);
  }
  return file;
}

FileBytes::~FileBytes() {
  if (bytes_.empty()) return;
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

absl::string_view FileBytes::text() const {
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

void Prefetch(absl::Span<const std::byte> bytes) {
  const uintptr_t page_bytes = PageBytes();
  const auto start = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t aligned = start / page_bytes * page_bytes;
  madvise(reinterpret_cast<void*>(aligned), start - aligned + bytes.size(),
          MADV_WILLNEED);
}

void GiveBackPages(absl::Span<const std::byte> bytes) {
  const uintptr_t page_bytes = PageBytes();
  const auto start = reinterpret_cast<uintptr_t>(bytes.data());
  // Pages that hold nothing else.
  const uintptr_t first = (start + page_bytes - 1) / page_bytes * page_bytes;
  const uintptr_t end = (start + bytes.size()) / page_bytes * page_bytes;
  if (first >= end) return;
  madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

std::string PathIn(absl::string_view folder, absl::string_view name) {
  return absl::StrCat(folder, "/", name);
}

}  // namespace phitap
