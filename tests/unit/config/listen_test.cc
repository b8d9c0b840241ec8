// Where the server listens: on sockets of systemd's, and on nothing that
// others reach unless it is told to.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/config.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

ConfigOutcome Read(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"phitapd", "--model=a=/x"});
  return ReadServerConfig(static_cast<int>(arguments.size()), arguments.data());
}

// Has the process a listening socket from systemd, while it lives.
class SocketOfSystemd {
 public:
  explicit SocketOfSystemd(const char* host)
      : before_(fcntl(kFirstPassedFile, F_DUPFD_CLOEXEC, 100)) {
    const int file = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at = {.sin_family = AF_INET};
    inet_pton(AF_INET, host, &at.sin_addr);
    EXPECT_EQ(bind(file, reinterpret_cast<const sockaddr*>(&at), sizeof(at)),
              0);
    EXPECT_EQ(listen(file, 1), 0);
    socklen_t size = sizeof(at);
    getsockname(file, reinterpret_cast<sockaddr*>(&at), &size);
    address = absl::StrCat(host, ":", ntohs(at.sin_port));
    if (file != kFirstPassedFile) {
      dup2(file, kFirstPassedFile);
      close(file);
    }
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    setenv("LISTEN_FDS", "1", 1);
  }
  ~SocketOfSystemd() {
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    close(kFirstPassedFile);
    if (before_ < 0) return;
    dup2(before_, kFirstPassedFile);
    close(before_);
  }

  std::string address;

 private:
  const int before_;
};

TEST(Listen, TakesASocketOfSystemds) {
  const SocketOfSystemd socket("127.0.0.1");
  const ConfigOutcome outcome = Read({"--listen", "systemd"});
  ASSERT_TRUE(outcome.config.has_value()) << outcome.text;
  ASSERT_EQ(outcome.config->rpc.sockets.size(), 1u);
  EXPECT_EQ(outcome.config->rpc.sockets[0].file, kFirstPassedFile);
  EXPECT_EQ(outcome.config->rpc.addresses(),
            std::vector<std::string>{socket.address});
}

TEST(Listen, RefusesToWaitForASocketThatSystemdHasNotPassed) {
  const ConfigOutcome outcome = Read({"--listen", "systemd"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.text, HasSubstr("--listen: systemd has passed no socket; "
                                      "valid: a start by systemd"));
}

TEST(Listen, RefusesToLeaveASocketOfSystemdsUntaken) {
  const SocketOfSystemd socket("127.0.0.1");
  const ConfigOutcome outcome = Read({"--listen", "127.0.0.1:0"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.text,
              HasSubstr(absl::StrCat(
                  "--listen: systemd has passed a socket, ", socket.address,
                  ", which 127.0.0.1:0 does not take; valid: systemd")));
}

TEST(Listen, TakesASocketOfSystemdsThatOthersReachWithTlsOrWhenToldTo) {
  const SocketOfSystemd socket("0.0.0.0");
  const ConfigOutcome refused = Read({"--listen", "systemd"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.text,
              HasSubstr(absl::StrCat("--listen: ", socket.address,
                                     " can be reached from other machines")));
  EXPECT_TRUE(Read({"--listen", "systemd", "--insecure-listen", "on"})
                  .config.has_value());
  EXPECT_TRUE(Read({"--listen", "systemd", "--tls-cert", "c", "--tls-key", "k"})
                  .config.has_value());
}

}  // namespace
}  // namespace phitap
