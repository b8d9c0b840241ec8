#include "server/rpc/listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

// What a listener has handed on. Thread-safe.
class Taken {
 public:
  ~Taken() { CloseAll(); }
  void Take(const AcceptedConnection& connection) {
    std::lock_guard lock(mutex_);
    files_.push_back(connection.file);
    changed_.notify_all();
  }
  // Blocks until there are so many.
  std::vector<int> Await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return files_.size() >= count; });
    return files_;
  }
  void CloseAll() {
    std::lock_guard lock(mutex_);
    for (const int file : files_) close(file);
    files_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> files_;
};

// A client's end.
class Connection {
 public:
  explicit Connection(const std::string& address) {
    if (absl::StartsWith(address, "unix:")) {
      sockaddr_un to = {.sun_family = AF_UNIX};
      const std::string path = address.substr(5);
      std::copy(path.begin(), path.end(), to.sun_path);
      Connect(to);
      return;
    }
    int port = 0;
    EXPECT_TRUE(
        absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    sockaddr_in to = {.sin_family = AF_INET,
                      .sin_port = htons(static_cast<uint16_t>(port))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    Connect(to);
  }
  ~Connection() { close(file_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Send(const std::string& bytes) {
    EXPECT_EQ(send(file_, bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  // Blocks until the other side closes; false where it sends.
  bool AwaitEnd() {
    char byte = 0;
    return recv(file_, &byte, 1, 0) <= 0;
  }

 private:
  template <typename Address>
  void Connect(const Address& to) {
    file_ = socket(FamilyOf(to), SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(
        connect(file_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  static int FamilyOf(const sockaddr_un&) { return AF_UNIX; }
  static int FamilyOf(const sockaddr_in&) { return AF_INET; }

  int file_ = -1;
};

std::unique_ptr<Listener> Listen(const std::string& listen, Taken& taken) {
  std::unique_ptr<Listener> listener = *Listener::Open(listen);
  listener->Start([&](const AcceptedConnection& c) { taken.Take(c); });
  return listener;
}

// While it lives, the process has room for `count` more files.
class FewFiles {
 public:
  explicit FewFiles(int count) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(0);
    close(next);
    limit = next + count;
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(limit);
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

  int limit = 0;

 private:
  rlimit before_;
};

TEST(Listener, SaysWhichPortItHasTaken) {
  Taken taken;
  const auto listener = Listen("127.0.0.1:0", taken);
  EXPECT_THAT(listener->address(), HasSubstr("127.0.0.1:"));
  EXPECT_FALSE(absl::EndsWith(listener->address(), ":0"));
}

TEST(Listener, HandsOnWhatConnects) {
  Taken taken;
  const auto listener = Listen("localhost:0", taken);
  Connection client(listener->address());
  client.Send("hello");
  char bytes[5] = {};
  const int file = taken.Await(1)[0];
  // It does not block: what was sent may still be on its way.
  while (recv(file, bytes, sizeof(bytes), MSG_WAITALL) < 0) {
  }
  EXPECT_EQ(std::string(bytes, sizeof(bytes)), "hello");
}

TEST(Listener, RefusesAPortThatIsTaken) {
  Taken taken;
  const auto listener = Listen("127.0.0.1:0", taken);
  const auto second = Listener::Open(listener->address());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST(Listener, TakesTheSocketOfAServerThatWasKilled) {
  std::string folder = "/tmp/phitap-listener-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = absl::StrCat(folder, "/socket");
  sockaddr_un address = {.sun_family = AF_UNIX};
  std::copy(path.begin(), path.end(), address.sun_path);
  const int left = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(left, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  close(left);
  Taken taken;
  auto listener = Listen(absl::StrCat("unix:", path), taken);
  Connection client(listener->address());
  taken.Await(1);
  listener.reset();
  struct stat status;
  EXPECT_NE(stat(path.c_str(), &status), 0);
  rmdir(folder.c_str());
}

TEST(Listener, TurnsAwayWhatWouldTakeTheLastFilesAndGoesOn) {
  Taken taken;
  const auto listener = Listen("127.0.0.1:0", taken);
  const FewFiles files(160);
  const int kept = std::min(kKeptFiles, files.limit / 4);
  // Each takes a file here, and one there as long as there are some.
  std::vector<std::unique_ptr<Connection>> clients;
  for (int i = 0; i < 75; ++i) {
    clients.push_back(std::make_unique<Connection>(listener->address()));
  }
  EXPECT_TRUE(clients.back()->AwaitEnd());
  for (const int file : taken.Await(20)) EXPECT_LT(file, files.limit - kept);
  clients.clear();
  taken.CloseAll();
  Connection next(listener->address());
  EXPECT_EQ(taken.Await(1).size(), 1u);
}

}  // namespace
}  // namespace phitap
