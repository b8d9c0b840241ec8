#include "server/plan/runs/prompt_tokens.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

// Index of the first id that the model has no embedding for; −1 without one.
int FirstOutside(absl::Span<const int32_t> ids, const ModelSpec& spec) {
  const auto outside = std::find_if(ids.begin(), ids.end(), [&](int32_t id) {
    return id < 0 || id >= spec.vocab_size;
  });
  return outside == ids.end() ? -1 : static_cast<int>(outside - ids.begin());
}

std::string Vocabulary(const ModelSpec& spec) {
  return absl::StrCat("0 to ", spec.vocab_size - 1);
}

absl::Status CheckTokenCount(size_t count, const PlanContext& context,
                             absl::string_view field) {
  if (count == 0) {
    return InvalidField({.field = std::string(field),
                         .problem = "the prompt is empty",
                         .valid = "at least one token"});
  }
  const int64_t allowed =
      std::min(context.spec.max_positions, context.limits.max_run_tokens);
  if (static_cast<int64_t>(count) <= allowed) return absl::OkStatus();
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("the prompt has ", count, " tokens"),
       .valid = absl::StrCat("at most ", allowed,
                             allowed == context.spec.max_positions
                                 ? ", the model's max_position_embeddings"
                                 : ", this server's limit for a run")});
}

absl::Status CheckChat(const v1::Chat& chat, absl::string_view field) {
  if (chat.messages().empty()) {
    return InvalidField({.field = absl::StrCat(field, ".messages"),
                         .problem = "the conversation is empty",
                         .valid = "at least one message"});
  }
  for (int i = 0; i < chat.messages_size(); ++i) {
    if (!chat.messages(i).role().empty()) continue;
    return InvalidField(
        {.field = absl::StrCat(field, ".messages[", i, "].role"),
         .problem = "is empty",
         .valid = "system, user, assistant or another role of the checkpoint's "
                  "template"});
  }
  return absl::OkStatus();
}

int64_t TextBytes(const v1::Prompt& prompt) {
  if (prompt.has_text()) return static_cast<int64_t>(prompt.text().size());
  int64_t size_bytes = 0;
  for (const v1::ChatMessage& message : prompt.chat().messages()) {
    size_bytes +=
        static_cast<int64_t>(message.role().size() + message.content().size() +
                             message.tools().size());
  }
  return size_bytes;
}

absl::Status CheckText(const v1::Prompt& prompt, const PlanContext& context,
                       absl::string_view field) {
  if (prompt.has_chat()) RETURN_IF_ERROR(CheckChat(prompt.chat(), field));
  if (prompt.has_text() && prompt.text().empty()) {
    return InvalidField({.field = std::string(field),
                         .problem = "the prompt is empty",
                         .valid = "at least one character"});
  }
  const int64_t allowed = context.limits.max_text_bytes;
  if (TextBytes(prompt) > allowed) {
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat("has ", TextBytes(prompt), " bytes of text"),
         .valid = absl::StrCat("at most ", allowed)});
  }
  if (context.encode) return absl::OkStatus();
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("model ", context.model, " has no tokenizer"),
       .valid = "token ids"},
      absl::StatusCode::kFailedPrecondition);
}

// The encoder's error, seen from the request: its field, if any, is under the
// prompt's; without one the input as a whole is to blame.
absl::Status EncodingError(const absl::Status& status,
                           absl::string_view prompt_field,
                           absl::string_view input_field) {
  const std::string field = FieldOf(status);
  absl::string_view problem = status.message();
  if (field.empty()) {
    return InvalidField(
        {.field = std::string(input_field), .problem = std::string(problem)},
        status.code());
  }
  absl::ConsumePrefix(&problem, absl::StrCat(field, ": "));
  return InvalidField({.field = absl::StrCat(prompt_field, ".", field),
                       .problem = std::string(problem)},
                      status.code());
}

absl::StatusOr<std::vector<int32_t>> EncodedText(const v1::Prompt& prompt,
                                                 const PlanContext& context,
                                                 absl::string_view field) {
  const std::string input =
      absl::StrCat(field, prompt.has_text() ? ".text" : ".chat");
  RETURN_IF_ERROR(CheckText(prompt, context, input));
  auto ids = context.encode(prompt);
  if (!ids.ok()) return EncodingError(ids.status(), field, input);
  RETURN_IF_ERROR(CheckTokenCount(ids->size(), context, input));
  const int outside = FirstOutside(*ids, context.spec);
  if (outside < 0) return ids;
  return InvalidField({.field = input,
                       .problem = absl::StrCat(
                           "its token ", outside, " has id ", (*ids)[outside],
                           ", which the model has no embedding for"),
                       .valid = Vocabulary(context.spec)});
}

absl::StatusOr<std::vector<int32_t>> GivenTokens(const v1::TokenIds& tokens,
                                                 const PlanContext& context,
                                                 const std::string& field) {
  const auto& ids = tokens.ids();
  RETURN_IF_ERROR(CheckTokenCount(ids.size(), context, field));
  const int outside = FirstOutside(ids, context.spec);
  if (outside < 0) return std::vector<int32_t>(ids.begin(), ids.end());
  return InvalidField({.field = absl::StrCat(field, "[", outside, "]"),
                       .problem = absl::StrCat("token id ", ids[outside],
                                               " is not in the vocabulary"),
                       .valid = Vocabulary(context.spec)});
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> PromptTokens(const v1::Prompt& prompt,
                                                  const PlanContext& context,
                                                  absl::string_view field) {
  switch (prompt.input_case()) {
    case v1::Prompt::kText:
    case v1::Prompt::kChat:
      return EncodedText(prompt, context, field);
    case v1::Prompt::kTokens:
      return GivenTokens(prompt.tokens(), context,
                         absl::StrCat(field, ".tokens.ids"));
    default:
      return InvalidField({.field = std::string(field),
                           .problem = "has nothing to read",
                           .valid = "one of text, tokens, chat, same_as"});
  }
}

}  // namespace phitap
