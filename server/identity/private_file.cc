#include "server/identity/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "server/base/field_error.h"

namespace phitap {
namespace {

constexpr off_t kMaxBytes = 16 << 20;

absl::Status SystemError(const std::string& path) {
  const int error = errno;
  return InvalidField({.field = path, .problem = std::strerror(error)},
                      absl::ErrnoToStatusCode(error));
}

absl::Status CheckFile(const std::string& path, const struct stat& file) {
  if (!S_ISREG(file.st_mode) || file.st_size > kMaxBytes) {
    return InvalidField({.field = path,
                         .problem = "is no regular file, or too long",
                         .valid = "a file of at most 16 MiB"});
  }
  if ((file.st_mode & (S_IRWXO | S_IWGRP)) == 0) return absl::OkStatus();
  return InvalidField(
      {.field = path,
       .problem = absl::StrFormat("its mode %04o lets others read or change it",
                                  file.st_mode & 07777),
       .valid = "0600, or 0640 for a group that may read it"},
      absl::StatusCode::kFailedPrecondition);
}

}  // namespace

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path) {
  // O_NONBLOCK: a pipe without a writer must not stop the server.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return SystemError(path);
  const auto closer = absl::MakeCleanup([file] { close(file); });
  struct stat status = {};
  if (fstat(file, &status) != 0) return SystemError(path);
  const absl::Status checked = CheckFile(path, status);
  if (!checked.ok()) return checked;
  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t taken = 0;
  while (taken < text.size()) {
    const ssize_t count = read(file, &text[taken], text.size() - taken);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path);
    if (count == 0) break;
    taken += static_cast<size_t>(count);
  }
  text.resize(taken);
  return text;
}

}  // namespace phitap
