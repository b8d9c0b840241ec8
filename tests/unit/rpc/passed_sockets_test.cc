#include "server/rpc/passed_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/listener.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

// A file, closed in the end.
class File {
 public:
  explicit File(int number) : number_(number) { EXPECT_GE(number, 0); }
  ~File() { close(number_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return number_; }
  // Another number of the same, as the process gets that systemd starts.
  int Passed() const { return dup(number_); }

 private:
  const int number_;
};

// Listens on a free port of the loopback interface.
int ListeningPort() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {.sin_family = AF_INET};
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(
      bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  EXPECT_EQ(listen(file, 8), 0);
  return file;
}

sockaddr_in AddressOf(int file) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

int ListeningPath(const std::string& path) {
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  std::copy(path.begin(), path.end(), address.sun_path);
  if (path[0] == '@') address.sun_path[0] = '\0';
  EXPECT_EQ(bind(file, reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                        path.size())),
            0);
  EXPECT_EQ(listen(file, 8), 0);
  return file;
}

// A client's end of a connection to it.
int Connected(int listening) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in to = AddressOf(listening);
  EXPECT_EQ(connect(file, reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
            0);
  return file;
}

// What systemd says in the environment, while it lives.
class Told {
 public:
  Told(const std::string& process, const std::string& count) {
    setenv("LISTEN_PID", process.c_str(), 1);
    setenv("LISTEN_FDS", count.c_str(), 1);
  }
  explicit Told(const std::string& count)
      : Told(std::to_string(getpid()), count) {}
  ~Told() {
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
  }
};

TEST(PassedSockets, AreTakenInTheirOrderWithWhereTheyListen) {
  // Beyond what else the process has open.
  constexpr int kFirst = 400;
  const std::string path = absl::StrCat(testing::TempDir(), "passed", getpid());
  const std::string name = absl::StrCat("@phitap/passed", getpid());
  const File port(ListeningPort()), at_path(ListeningPath(path)),
      without_path(ListeningPath(name));
  const File first(dup2(port.number(), kFirst)),
      second(dup2(at_path.number(), kFirst + 1)),
      third(dup2(without_path.number(), kFirst + 2));
  const Told told("3");
  const auto sockets = PassedSockets(kFirst);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  ASSERT_EQ(sockets->size(), 3u);
  EXPECT_EQ((*sockets)[0].file, kFirst);
  EXPECT_EQ((*sockets)[0].address,
            absl::StrCat("127.0.0.1:", ntohs(AddressOf(kFirst).sin_port)));
  EXPECT_EQ((*sockets)[1].address, absl::StrCat("unix:", path));
  EXPECT_EQ((*sockets)[2].file, kFirst + 2);
  EXPECT_EQ((*sockets)[2].address, absl::StrCat("unix:", name));
  unlink(path.c_str());
}

TEST(PassedSockets, AreNoneWhereSystemdSaysNothing) {
  EXPECT_TRUE(PassedSockets()->empty());
}

TEST(PassedSockets, AreNoneWhereTheyAreForAnotherProcess) {
  const File port(ListeningPort());
  const Told told(std::to_string(getppid()), "1");
  EXPECT_TRUE(PassedSockets(port.number())->empty());
}

TEST(PassedSockets, RefuseAConnectionThatIsPassedInTheirPlace) {
  const File port(ListeningPort());
  const File client(Connected(port.number()));
  const Told told("1");
  const absl::Status refused = PassedSockets(client.number()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("Accept=no"));
}

TEST(PassedSockets, RefuseACountThatIsNone) {
  for (const char* count : {"many", "-1", "65"}) {
    const Told told(count);
    EXPECT_THAT(std::string(PassedSockets().status().message()),
                HasSubstr(absl::StrCat("LISTEN_FDS: \"", count, "\"")));
  }
}

// Takes the sockets as a server does, one connection of them.
std::string FirstWords(const PassedSocket& socket) {
  std::mutex mutex;
  std::condition_variable taken;
  int file = -1;
  auto listener = *Listener::Adopt({socket});
  listener->Start([&](const AcceptedConnection& connection) {
    std::lock_guard lock(mutex);
    file = connection.file;
    taken.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    taken.wait(lock, [&] { return file >= 0; });
  }
  listener.reset();
  pollfd arrived = {.fd = file, .events = POLLIN};
  poll(&arrived, 1, -1);
  char words[16] = {};
  const ssize_t size = recv(file, words, sizeof(words), 0);
  close(file);
  return std::string(words, size < 0 ? 0 : static_cast<size_t>(size));
}

TEST(Listener, LeavesWhatConnectsToAPassedSocketToTheNextServer) {
  const File port(ListeningPort());
  const std::string address = "127.0.0.1:0";
  const File first(Connected(port.number()));
  ASSERT_EQ(send(first.number(), "first", 5, 0), 5);
  EXPECT_EQ(FirstWords({.file = port.Passed(), .address = address}), "first");
  // No server is there, and yet the connection is made and takes bytes.
  const File second(Connected(port.number()));
  ASSERT_EQ(send(second.number(), "second", 6, 0), 6);
  EXPECT_EQ(FirstWords({.file = port.Passed(), .address = address}), "second");
}

TEST(Listener, SaysWhereTheFirstOfItsPassedSocketsListens) {
  const File one(ListeningPort()), other(ListeningPort());
  const auto listener =
      *Listener::Adopt({{.file = one.Passed(), .address = "127.0.0.1:1"},
                        {.file = other.Passed(), .address = "127.0.0.1:2"}});
  EXPECT_EQ(listener->address(), "127.0.0.1:1");
}

}  // namespace
}  // namespace phitap
