#include "server/systemd_notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace phitap {
namespace {

using ::testing::HasSubstr;

// A socket as systemd has one, named in the environment.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& address)
      : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = {}};
    std::copy(address.begin(), address.end(), at.sun_path);
    if (address[0] == '@') at.sun_path[0] = '\0';
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&at),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                          address.size())),
              0);
    setenv("NOTIFY_SOCKET", address.c_str(), 1);
  }
  ~NotifySocket() {
    unsetenv("NOTIFY_SOCKET");
    close(socket_);
  }

  // The next message that has come; "" if there is none.
  std::string Take() {
    char bytes[256];
    const ssize_t size = recv(socket_, bytes, sizeof(bytes), 0);
    return size < 0 ? "" : std::string(bytes, static_cast<size_t>(size));
  }

 private:
  const int socket_;
};

std::string Unique(const std::string& name) {
  return name + std::to_string(getpid());
}

TEST(SystemdNotice, ComesToASocketInAFolder) {
  const std::string path = testing::TempDir() + Unique("notify");
  NotifySocket socket(path);
  EXPECT_TRUE(TellSystemd(kSystemdReady).ok());
  EXPECT_EQ(socket.Take(), "READY=1");
  EXPECT_TRUE(TellSystemd(kSystemdStopping).ok());
  EXPECT_EQ(socket.Take(), "STOPPING=1");
  unlink(path.c_str());
}

TEST(SystemdNotice, ComesToAnAbstractSocket) {
  NotifySocket socket(Unique("@phitap/notify"));
  EXPECT_TRUE(TellSystemd(kSystemdReady).ok());
  EXPECT_EQ(socket.Take(), "READY=1");
}

TEST(SystemdNotice, IsNotSentWhereNobodyAsks) {
  unsetenv("NOTIFY_SOCKET");
  EXPECT_TRUE(TellSystemd(kSystemdReady).ok());
}

TEST(SystemdNotice, SaysWhyItDidNotArrive) {
  setenv("NOTIFY_SOCKET", "vsock:2:1", 1);
  EXPECT_THAT(std::string(TellSystemd(kSystemdReady).message()),
              HasSubstr("NOTIFY_SOCKET vsock:2:1: no address of a unix"));
  setenv("NOTIFY_SOCKET", "/no/such/socket", 1);
  const absl::Status lost = TellSystemd(kSystemdReady);
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("No such file"));
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace phitap
