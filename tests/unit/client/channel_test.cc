#include "client/cpp/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/base/field_error.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

TEST(OpenChannel, SendsATokenToAnotherMachineEncryptedAlone) {
  for (const char* address : {"gpu.lab:7777", "10.0.0.1:1", "[::2]:1", "127x:1",
                              "0.0.0.0:1", "localhost.lab:1"}) {
    const absl::Status status =
        OpenChannel({.address = address, .token = "phitap_secret"}).status();
    EXPECT_THAT(status, StatusIs(Code::kInvalidArgument,
                                 AllOf(HasSubstr(address), HasSubstr("TLS"),
                                       Not(HasSubstr("phitap_secret")))))
        << address;
    EXPECT_EQ(FieldOf(status), "token");
    EXPECT_THAT(OpenChannel({.address = address}), IsOk());
    EXPECT_THAT(
        OpenChannel(
            {.address = address, .tls = Tls{}, .token = "phitap_secret"}),
        IsOk());
  }
}

TEST(OpenChannel, SendsATokenWithinThisMachine) {
  for (const char* address : {"127.0.0.1:1", "localhost:1", "[::1]:1",
                              "unix:/run/phitap.sock", "127.9.9.9:1"}) {
    EXPECT_THAT(OpenChannel({.address = address, .token = "phitap_secret"}),
                IsOk())
        << address;
  }
}

TEST(OpenChannel, RefusesWhatCannotBeAHeaderWithoutShowingIt) {
  for (const char* token : {"two words", "line\nbreak", "m\xC3\xA4h"}) {
    const absl::Status status =
        OpenChannel({.address = "127.0.0.1:1", .token = token}).status();
    EXPECT_THAT(status,
                StatusIs(Code::kInvalidArgument, Not(HasSubstr(token))));
  }
}

TEST(OpenChannel, NamesTheFileThatItCannotUse) {
  TempFolder folder;
  folder.Write("text", "no PEM");
  const std::string text = folder.File("text");
  EXPECT_THAT(OpenChannel({.tls = Tls{.authority_path = text}}),
              StatusIs(Code::kInvalidArgument,
                       AllOf(HasSubstr("ca: "), HasSubstr(text))));
  EXPECT_THAT(OpenChannel({.tls = Tls{.authority_path = "/none"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("/none")));
  EXPECT_THAT(OpenChannel({.tls = Tls{.certificate_path = text}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("key: none given")));
  EXPECT_THAT(OpenChannel({.tls = Tls{.key_path = text}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("cert: none given")));
}

}  // namespace
}  // namespace phitap::client
