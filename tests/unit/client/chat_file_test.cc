#include "client/cli/chat_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace phitap::cli {
namespace {

using testing::HasSubstr;

TEST(ParseChat, ReadsAListOfMessages) {
  const absl::StatusOr<v1::Chat> chat = ParseChat(
      R"([{"role": "system", "content": "Be brief.", "tools": [{"name": "f"}]},
          {"role": "user", "content": "Hello"}])",
      "--chat x");
  ASSERT_THAT(chat, IsOk());
  ASSERT_EQ(chat->messages_size(), 2);
  EXPECT_EQ(chat->messages(0).tools(), R"([{"name":"f"}])");
  EXPECT_EQ(chat->messages(1).role(), "user");
  EXPECT_EQ(chat->messages(1).content(), "Hello");
  EXPECT_FALSE(chat->has_add_generation_prompt());
}

TEST(ParseChat, ReadsAnObjectWithOptions) {
  const absl::StatusOr<v1::Chat> chat = ParseChat(
      R"({"messages": [{"role": "user"}], "add_generation_prompt": false})",
      "--chat x");
  ASSERT_THAT(chat, IsOk());
  EXPECT_TRUE(chat->has_add_generation_prompt());
  EXPECT_FALSE(chat->add_generation_prompt());
}

TEST(ParseChat, RefusesWhatIsNoConversation) {
  for (const char* text :
       {"", "{", "[]", "3", "[3]", R"([{"content": "no role"}])",
        R"([{"role": "user", "content": 3}])",
        R"([{"role": "user", "name": "x"}])",
        R"({"messages": [{"role": "user"}], "tools": []})"}) {
    EXPECT_THAT(
        ParseChat(text, "--chat x"),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--chat x")))
        << text;
  }
}

TEST(ReadChatFile, NamesAFileThatIsNotThere) {
  EXPECT_THAT(ReadChatFile("/no/such/file.json"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("--chat /no/such/file.json")));
}

}  // namespace
}  // namespace phitap::cli
