// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/tokenizer/tokenizer.h"
#include "server/tokenizer/utf8.h"
#include "tests/unit/tokenizer/tokenizer_folder.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Tokenizer> WithTemplate(absl::string_view jinja) {
  TokenizerFolder folder;
  folder.Write("chat_template.jinja", jinja);
  folder.Write("tokenizer_config.json",
               R"({"eos_token": {"content": "<|end|>"}})");
  return folder.Load().value();
}

absl::StatusOr<std::string> Render(absl::string_view jinja,
                                   const std::vector<ChatMessage>& messages = {
                                       {.role = "user", .content = "hi"}}) {
  return WithTemplate(jinja)->RenderChat(messages, GenerationPrompt::kAppend);
}

constexpr char kTurns[] =
    "{% for message in messages %}"
    "{{ message['role'] + ':' + message['content'] + eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

TEST(ChatTemplate, RendersTheTurns) {
  const std::vector<ChatMessage> chat = {{.role = "user", .content = "hi"},
                                         {.role = "bot", .content = "ho"}};
  const std::unique_ptr<Tokenizer> tokenizer = WithTemplate(kTurns);
  EXPECT_TRUE(tokenizer->chat_status().ok());
  EXPECT_EQ(tokenizer->RenderChat(chat, GenerationPrompt::kOmit).value(),
            "user:hi<|end|>bot:ho<|end|>");
  EXPECT_EQ(tokenizer->RenderChat(chat, GenerationPrompt::kAppend).value(),
            "user:hi<|end|>bot:ho<|end|>assistant:");
}

TEST(ChatTemplate, IsEncodedWithoutTokensOfThePostProcessor) {
  const std::unique_ptr<Tokenizer> tokenizer =
      WithTemplate("{{ messages[0].content }}{{ eos_token }}\n");
  EXPECT_THAT(tokenizer->Encode("hi<|end|>").value(), ElementsAre(0, 6, 9));
  EXPECT_THAT(tokenizer
                  ->EncodeChat({{.role = "user", .content = "hi"}},
                               GenerationPrompt::kOmit)
                  .value(),
              ElementsAre(6, 9));
}

TEST(ChatTemplate, ReadsExtraFieldsOfAMessage) {
  constexpr char kTools[] =
      "{% for message in messages %}{% if 'tools' in message and "
      "message['tools'] is not none %}[{{ message.tools }}]{% endif %}"
      "{{ message.content }}{% endfor %}";
  EXPECT_EQ(Render(kTools, {{.role = "system",
                             .content = "s",
                             .extra_fields = {{"tools", "[{}]"}}},
                            {.role = "user", .content = "u"}})
                .value(),
            "[[{}]]su");
}

TEST(ChatTemplate, InAFileWinsOverTheConfig) {
  TokenizerFolder folder;
  folder.Write("tokenizer_config.json", R"({"chat_template": "config"})");
  const std::vector<ChatMessage> chat = {{.role = "user", .content = "hi"}};
  EXPECT_EQ(
      folder.Load().value()->RenderChat(chat, GenerationPrompt::kOmit).value(),
      "config");
  folder.Write("chat_template.jinja", "file");
  EXPECT_EQ(
      folder.Load().value()->RenderChat(chat, GenerationPrompt::kOmit).value(),
      "file");
}

TEST(ChatTemplate, IsTheDefaultOneOfAList) {
  TokenizerFolder folder;
  folder.Write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "tools"},
      {"name": "default", "template": "plain"}]})");
  EXPECT_EQ(folder.Load()
                .value()
                ->RenderChat({{.role = "user", .content = "hi"}},
                             GenerationPrompt::kOmit)
                .value(),
            "plain");
}

TEST(ChatTemplate, MissingLeavesTextButNoChats) {
  const std::unique_ptr<Tokenizer> tokenizer = TokenizerFolder().Load().value();
  EXPECT_TRUE(tokenizer->Encode("hi").ok());
  EXPECT_EQ(tokenizer->chat_status().code(),
            absl::StatusCode::kFailedPrecondition);
  const absl::Status status =
      tokenizer
          ->RenderChat({{.role = "user", .content = "hi"}},
                       GenerationPrompt::kOmit, "runs[0].prompt.chat")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FieldOf(status), "runs[0].prompt.chat");
  EXPECT_THAT(std::string(status.message()), HasSubstr("no chat template"));
}

TEST(ChatTemplate, ThatDoesNotCompileLeavesTextButNoChats) {
  const std::unique_ptr<Tokenizer> tokenizer =
      WithTemplate("{% for message in messages %}");
  EXPECT_TRUE(tokenizer->Encode("hi").ok());
  const absl::Status status = tokenizer->chat_status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("syntax error"));
  EXPECT_EQ(tokenizer
                ->RenderChat({{.role = "user", .content = "hi"}},
                             GenerationPrompt::kOmit)
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ChatTemplate, RefusesInItsOwnWords) {
  const absl::Status status =
      Render("{{ raise_exception('Roles must alternate!') }}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "messages");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("Roles must alternate!"));
}

TEST(ChatTemplate, RefusesOnOneLineOfNoGreatLength) {
  const absl::Status status =
      Render("{{ raise_exception('no\\nrole \\t' + 'ä' * 5000) }}").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("no role  ää"));
  EXPECT_LT(status.message().size(), 1100u);
  EXPECT_FALSE(FirstInvalidUtf8(status.message()).has_value());
}

class EndlessTemplate : public ::testing::TestWithParam<const char*> {};

TEST_P(EndlessTemplate, IsStopped) {
  const absl::Status status = Render(GetParam()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(FieldOf(status), "messages");
}

INSTANTIATE_TEST_SUITE_P(
    ChatTemplate, EndlessTemplate,
    ::testing::Values(
        "{% for a in range(9999) %}{% for b in range(9999) %}"
        "{% set c = a * b %}{% endfor %}{% endfor %}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{% set ns = namespace(s='0123456789') %}{% for i in range(99) %}"
        "{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for i in range(99999) %}"
        "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=1) %}{% for i in range(999) %}"
        "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=1) %}{% for i in range(999) %}"
        "{% set ns.x = {'k': ns.x} %}{% endfor %}{{ ns.x | tojson }}",
        "{{ 'x' * 999999999999 }}", "{{ 'x' * 5000000 }}",
        "{% for a in range(99999) %}{{ messages[0].content.ljust(9999) }}"
        "{% endfor %}",
        "{{ range(99999)|join(',' * 9999) }}"));

TEST(ChatTemplate, RendersALongChat) {
  const std::vector<ChatMessage> chat(20000, {.role = "user", .content = "hi"});
  EXPECT_EQ(Render(kTurns, chat).value().size(),
            20000 * std::string("user:hi<|end|>").size() +
                std::string("assistant:").size());
}

TEST(ChatTemplate, RefusesToAddWhatIsNotThere) {
  const absl::Status status =
      Render("{{ '<' + messages[0]['name'] }}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("undefined"));
}

TEST(ChatTemplate, WritesValuesAsPythonDoes) {
  EXPECT_EQ(
      Render("{{ [true, none, 1, 2.0, 1e16, 'it\\'s', {'a': 'b'}] }}").value(),
      "[True, None, 1, 2.0, 1e+16, \"it's\", {'a': 'b'}]");
  EXPECT_EQ(Render("{{ {'b': [1, 2.5], 'a': '<é>'} | tojson }}").value(),
            R"({"b": [1, 2.5], "a": "<é>"})");
}

TEST(ChatTemplate, NeedsAMessage) {
  const absl::Status status = Render(kTurns, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is empty"));
}

TEST(ChatTemplate, RefusesBadMessagesByName) {
  const ChatMessage good = {.role = "user", .content = "hi"};
  EXPECT_EQ(FieldOf(Render(kTurns, {good, {.content = "hi"}}).status()),
            "messages[1].role");
  EXPECT_EQ(
      FieldOf(Render(kTurns, {{.role = "user", .content = "\xC0"}}).status()),
      "messages[0].content");
  EXPECT_EQ(FieldOf(Render(kTurns, {{.role = "user",
                                     .content = "hi",
                                     .extra_fields = {{"tools", "\xC0"}}}})
                        .status()),
            "messages[0].tools");
  EXPECT_EQ(FieldOf(Render(kTurns, {{.role = "user",
                                     .content = "hi",
                                     .extra_fields = {{"role", "x"}}}})
                        .status()),
            "messages[0].extra_fields");
}

TEST(ChatTemplate, RefusesAChatThatRendersPastTheLimit) {
  const std::string half(kMaxTextBytes / 2, 'x');
  const absl::Status status = Render(kTurns, {{.role = "a", .content = half},
                                              {.role = "b", .content = half}})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes"));
}

}  // namespace
}  // namespace phitap
