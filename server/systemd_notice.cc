#include "server/systemd_notice.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"

namespace phitap {
namespace {

absl::Status CheckAddress(const std::string& address) {
  const bool known = address[0] == '/' || address[0] == '@';
  if (known && address.size() < sizeof(sockaddr_un::sun_path)) {
    return absl::OkStatus();
  }
  return InvalidField(
      {.field = absl::StrCat("NOTIFY_SOCKET ", address),
       .problem = "no address of a unix socket",
       .valid = absl::StrCat("a path, or @ and a name, of less than ",
                             sizeof(sockaddr_un::sun_path), " bytes")});
}

}  // namespace

absl::Status TellSystemd(absl::string_view state) {
  const char* const variable = std::getenv("NOTIFY_SOCKET");
  if (variable == nullptr || *variable == '\0') return absl::OkStatus();
  const std::string address = variable;
  if (absl::Status known = CheckAddress(address); !known.ok()) return known;
  sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(to.sun_path, address.data(), address.size());
  // An abstract name begins with a zero byte.
  if (address[0] == '@') to.sun_path[0] = '\0';
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  const int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool sent =
      sender >= 0 && sendto(sender, state.data(), state.size(), MSG_NOSIGNAL,
                            reinterpret_cast<const sockaddr*>(&to), size) >= 0;
  const int error = errno;
  if (sender >= 0) close(sender);
  if (sent) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("NOTIFY_SOCKET ", address, ": ", std::strerror(error)));
}

}  // namespace phitap
