#include "server/rpc/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/status_macros.h"
#include "server/observe/log.h"

namespace phitap {
namespace {

constexpr char kUnixPrefix[] = "unix:";
constexpr int kBacklog = 1024;
// Where the system cannot give what a connection takes.
constexpr int kRetryMs = 100;

absl::Status SystemError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

void SetOption(int file, int level, int option, int value) {
  setsockopt(file, level, option, &value, sizeof(value));
}

// A listening socket; −1 with errno set.
int Listen(const sockaddr* address, socklen_t length) {
  const int file =
      socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (file < 0) return -1;
  SetOption(file, SOL_SOCKET, SO_REUSEADDR, 1);
  // [::] takes IPv4 as well.
  if (address->sa_family == AF_INET6) {
    SetOption(file, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (bind(file, address, length) == 0 && listen(file, kBacklog) == 0) {
    return file;
  }
  const int error = errno;
  close(file);
  errno = error;
  return -1;
}

uint16_t PortOf(int file) {
  sockaddr_storage address;
  socklen_t length = sizeof(address);
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &length);
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port)
             : ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

void SetPort(sockaddr* address, uint16_t port) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  }
}

// Connections take files below this one.
int FirstKeptFile() {
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return kKeptFiles;
  const auto limit =
      static_cast<int>(std::min<rlim_t>(files.rlim_cur, rlim_t{1} << 30));
  return limit - std::min(kKeptFiles, limit / 4);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Make() {
  std::unique_ptr<Listener> listener(new Listener());
  listener->stop_file_ = eventfd(0, EFD_CLOEXEC);
  if (listener->stop_file_ < 0) return SystemError("eventfd");
  return listener;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Adopt(
    const std::vector<PassedSocket>& sockets) {
  ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, Make());
  for (const PassedSocket& socket : sockets) {
    // As those that are opened here.
    fcntl(socket.file, F_SETFD, FD_CLOEXEC);
    fcntl(socket.file, F_SETFL, fcntl(socket.file, F_GETFL) | O_NONBLOCK);
    listener->files_.push_back(socket.file);
  }
  listener->address_ = sockets.front().address;
  return listener;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(
    const std::string& listen) {
  ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, Make());
  if (absl::StartsWith(listen, kUnixPrefix)) {
    RETURN_IF_ERROR(listener->OpenPath(
        std::string(absl::StripPrefix(listen, kUnixPrefix))));
  } else {
    RETURN_IF_ERROR(listener->OpenPort(listen));
  }
  return listener;
}

absl::Status Listener::OpenPath(const std::string& path) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError("the path is too long for a socket");
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  // What a server that was killed has left.
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
    unlink(path.c_str());
  }
  const int file =
      Listen(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (file < 0) return SystemError("listen");
  files_.push_back(file);
  path_ = path;
  address_ = absl::StrCat(kUnixPrefix, path);
  return absl::OkStatus();
}

absl::Status Listener::OpenPort(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  std::string host = listen.substr(0, colon);
  const std::string written = host;
  if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
  const addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                          .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), listen.substr(colon + 1).c_str(),
                                &hints, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  const auto freeing = absl::MakeCleanup([found] { freeaddrinfo(found); });
  for (addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (!files_.empty()) SetPort(each->ai_addr, PortOf(files_.front()));
    const int file = Listen(each->ai_addr, each->ai_addrlen);
    if (file >= 0) files_.push_back(file);
  }
  if (files_.empty()) return SystemError("listen");
  address_ = absl::StrCat(written, ":", PortOf(files_.front()));
  return absl::OkStatus();
}

Listener::~Listener() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written =
        write(stop_file_, &one, sizeof(one));
    thread_.join();
  }
  for (const int file : files_) close(file);
  if (stop_file_ >= 0) close(stop_file_);
  if (!path_.empty()) unlink(path_.c_str());
}

void Listener::Start(std::function<void(const AcceptedConnection&)> take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { AcceptAll(); });
}

void Listener::AcceptAll() {
  std::vector<pollfd> watched = {{.fd = stop_file_, .events = POLLIN}};
  for (const int file : files_) {
    watched.push_back({.fd = file, .events = POLLIN});
  }
  for (;;) {
    if (poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched.front().revents != 0) return;
    for (size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents != 0) Accept(watched[i].fd);
    }
  }
}

void Listener::Accept(int listening_file) {
  const int file =
      accept4(listening_file, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (file < 0) {
    // The connection waits; asking at once would ask forever.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
        errno == ENOMEM) {
      pollfd stop = {.fd = stop_file_, .events = POLLIN};
      poll(&stop, 1, kRetryMs);
    }
    return;
  }
  // The system gives the smallest that is free.
  const bool turns_away = file >= FirstKeptFile();
  if (turns_away && !turns_away_) {
    Log(LogLevel::kWarning,
        "connections are turned away: as many are open as the limit of files "
        "allows",
        {{log_field::kAddress, address_}});
  }
  turns_away_ = turns_away;
  if (turns_away) {
    close(file);
    return;
  }
  // Of a port; a socket with a path refuses it.
  SetOption(file, IPPROTO_TCP, TCP_NODELAY, 1);
  take_({.listening_file = listening_file, .file = file});
}

}  // namespace phitap
