#include "server/rpc/passed_sockets.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

constexpr char kProcessVariable[] = "LISTEN_PID";
constexpr char kCountVariable[] = "LISTEN_FDS";
// More is a mistake.
constexpr int kMaxSockets = 64;

struct SocketAddress {
  sockaddr_storage bytes = {};
  socklen_t size = sizeof(bytes);

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&bytes);
  }
};

int OptionOf(int file, int option) {
  int value = 0;
  socklen_t size = sizeof(value);
  return getsockopt(file, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

bool TakesConnections(int file) {
  return OptionOf(file, SO_TYPE) == SOCK_STREAM &&
         OptionOf(file, SO_ACCEPTCONN) == 1;
}

std::string PathText(const SocketAddress& address) {
  const auto* const path = reinterpret_cast<const sockaddr_un*>(&address.bytes);
  const size_t size = address.size - offsetof(sockaddr_un, sun_path);
  if (path->sun_path[0] != '\0') {
    return absl::StrCat(
        "unix:", std::string(path->sun_path, strnlen(path->sun_path, size)));
  }
  // Without a path: a zero byte and a name.
  return absl::StrCat("unix:@", std::string(path->sun_path + 1, size - 1));
}

// Empty for one of another family.
std::string PortText(const SocketAddress& address) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(address.get(), address.size, host, sizeof(host), port,
                  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  return address.bytes.ss_family == AF_INET6
             ? absl::StrCat("[", host, "]:", port)
             : absl::StrCat(host, ":", port);
}

absl::StatusOr<PassedSocket> Describe(int file) {
  SocketAddress address;
  std::string text;
  if (TakesConnections(file) &&
      getsockname(file, reinterpret_cast<sockaddr*>(&address.bytes),
                  &address.size) == 0) {
    text = address.bytes.ss_family == AF_UNIX ? PathText(address)
                                              : PortText(address);
  }
  if (!text.empty()) return PassedSocket{.file = file, .address = text};
  return InvalidField(
      {.field = kCountVariable,
       .problem = absl::StrCat("file ", file,
                               ", which systemd has passed, is no socket that "
                               "takes connections"),
       .valid = "ListenStream= of a port or path, and Accept=no"});
}

// Of the sockets that are meant for this process.
absl::StatusOr<int> PassedCount() {
  const char* const process = std::getenv(kProcessVariable);
  const char* const count = std::getenv(kCountVariable);
  if (process == nullptr || count == nullptr) return 0;
  int64_t process_id = 0;
  if (!absl::SimpleAtoi(process, &process_id) || process_id != getpid()) {
    return 0;
  }
  int sockets = 0;
  if (absl::SimpleAtoi(count, &sockets) && sockets >= 0 &&
      sockets <= kMaxSockets) {
    return sockets;
  }
  return InvalidField({.field = kCountVariable,
                       .problem = absl::StrCat("\"", count, "\""),
                       .valid = absl::StrCat("0 to ", kMaxSockets)});
}

}  // namespace

absl::StatusOr<std::vector<PassedSocket>> PassedSockets(int first_file) {
  ASSIGN_OR_RETURN(const int count, PassedCount());
  std::vector<PassedSocket> sockets;
  for (int file = first_file; file < first_file + count; ++file) {
    ASSIGN_OR_RETURN(PassedSocket socket, Describe(file));
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

}  // namespace phitap
