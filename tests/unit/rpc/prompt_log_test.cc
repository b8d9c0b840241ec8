#include "server/rpc/prompt_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "server/observe/log.h"

namespace phitap {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::vector<std::string> Logged(const v1::TraceRequest& request) {
  ::testing::internal::CaptureStderr();
  SetUpLog({.level = LogLevel::kInfo, .format = LogFormat::kText});
  LogPrompts(request, {.request_id = "0a1b", .identity = "alice"});
  return absl::StrSplit(::testing::internal::GetCapturedStderr(), '\n',
                        absl::SkipEmpty());
}

TEST(LogPrompts, WritesALineForEachRun) {
  v1::TraceRequest request;
  request.set_model("phi");
  request.add_runs()->mutable_prompt()->set_text("When Mary");
  v1::Run& chat = *request.add_runs();
  chat.set_label("asked");
  v1::ChatMessage& turn =
      *chat.mutable_prompt()->mutable_chat()->add_messages();
  turn.set_role("user");
  turn.set_content("Who?");
  v1::Run& ids = *request.add_runs();
  ids.mutable_prompt()->mutable_tokens()->add_ids(5);
  ids.mutable_prompt()->mutable_tokens()->add_ids(7);
  request.add_runs()->mutable_prompt()->set_same_as("asked");
  const std::vector<std::string> lines = Logged(request);
  ASSERT_EQ(lines.size(), 4);
  EXPECT_THAT(lines[0], EndsWith("prompt request=0a1b identity=alice model=phi "
                                 "run=0 prompt=\"When Mary\""));
  EXPECT_THAT(lines[1], EndsWith("run=asked prompt=\"user: Who?\""));
  EXPECT_THAT(lines[2], EndsWith("run=2 prompt=\"ids 5 7\""));
  EXPECT_THAT(lines[3], EndsWith("prompt=\"the same as run asked\""));
}

TEST(LogPrompts, CutsALongOneBetweenTwoCharacters) {
  v1::TraceRequest request;
  std::string text = "x";
  while (text.size() < 2 * kMaxLoggedPromptBytes) text += "\u00e9";
  request.add_runs()->mutable_prompt()->set_text(text);
  const std::vector<std::string> lines = Logged(request);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_THAT(lines[0], HasSubstr("\u00e9… (8193 bytes)\""));
  EXPECT_LT(lines[0].size(), kMaxLoggedPromptBytes + 200);
}

TEST(LogPrompts, KeepsALineOneLineWhateverIsSent) {
  v1::TraceRequest request;
  request.add_runs()->mutable_prompt()->set_text("a\ninfo trace ended");
  EXPECT_EQ(Logged(request).size(), 1);
}

}  // namespace
}  // namespace phitap
