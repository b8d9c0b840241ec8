#include "server/rpc/prompt_encoder.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/rpc/token_texts.h"

namespace phitap {
namespace {

constexpr char kChatField[] = "chat.messages";

std::vector<ChatMessage> MessagesOf(const v1::Chat& chat) {
  std::vector<ChatMessage> messages;
  for (const v1::ChatMessage& sent : chat.messages()) {
    ChatMessage message = {.role = sent.role(), .content = sent.content()};
    if (!sent.tools().empty()) message.extra_fields["tools"] = sent.tools();
    messages.push_back(std::move(message));
  }
  return messages;
}

// On unless it was turned off.
GenerationPrompt GenerationPromptOf(const v1::Chat& chat) {
  const bool wanted =
      !chat.has_add_generation_prompt() || chat.add_generation_prompt();
  return wanted ? GenerationPrompt::kAppend : GenerationPrompt::kOmit;
}

absl::Status CheckChat(const v1::Chat& chat) {
  if (!chat.messages().empty()) return absl::OkStatus();
  return InvalidField({.field = kChatField,
                       .problem = "empty",
                       .valid = "at least one message"});
}

absl::StatusOr<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer,
                                                const v1::Chat& chat) {
  RETURN_IF_ERROR(CheckChat(chat));
  return tokenizer.EncodeChat(MessagesOf(chat), GenerationPromptOf(chat),
                              kChatField);
}

absl::StatusOr<const Tokenizer*> TokenizerOf(const ServedModel& model) {
  if (model.tokenizer != nullptr) return model.tokenizer.get();
  return InvalidField(
      {.field = "model",
       .problem = absl::StrCat("the checkpoint of \"", model.name,
                               "\" has no tokenizer.json"),
       .valid = "models with has_tokenizer"},
      absl::StatusCode::kFailedPrecondition);
}

absl::Status CheckIds(const v1::DetokenizeRequest& request,
                      const ServedModel& model) {
  const std::string valid = absl::StrCat("0 to ", model.spec.vocab_size - 1);
  if (request.ids().empty()) {
    return InvalidField(
        {.field = "ids", .problem = "empty", .valid = "at least one id"});
  }
  for (int i = 0; i < request.ids_size(); ++i) {
    if (request.ids(i) >= 0 && request.ids(i) < model.spec.vocab_size) continue;
    return InvalidField(
        {.field = absl::StrCat("ids[", i, "]"),
         .problem = absl::StrCat(request.ids(i), " is not in the vocabulary"),
         .valid = valid});
  }
  return absl::OkStatus();
}

}  // namespace

PromptEncoder EncoderOf(const ServedModel& model) {
  if (model.tokenizer == nullptr) return nullptr;
  return [tokenizer = model.tokenizer](const v1::Prompt& prompt) {
    if (prompt.has_chat()) return EncodeChat(*tokenizer, prompt.chat());
    return tokenizer->Encode(prompt.text(), "text");
  };
}

absl::StatusOr<v1::TokenizeResponse> Tokenize(
    const v1::TokenizeRequest& request, const ServedModel& model) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, TokenizerOf(model));
  std::string rendered;
  std::vector<int32_t> ids;
  if (request.has_chat()) {
    ASSIGN_OR_RETURN(ids, EncodeChat(*tokenizer, request.chat()));
    ASSIGN_OR_RETURN(
        rendered,
        tokenizer->RenderChat(MessagesOf(request.chat()),
                              GenerationPromptOf(request.chat()), kChatField));
  } else if (request.has_text()) {
    ASSIGN_OR_RETURN(ids, tokenizer->Encode(request.text(), "text"));
    rendered = request.text();
  } else {
    return InvalidField(
        {.field = "input", .problem = "not set", .valid = "text or chat"});
  }
  v1::TokenizeResponse response;
  response.mutable_ids()->Add(ids.begin(), ids.end());
  AddTexts(model, response);
  response.set_rendered(std::move(rendered));
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> Detokenize(
    const v1::DetokenizeRequest& request, const ServedModel& model) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, TokenizerOf(model));
  RETURN_IF_ERROR(CheckIds(request, model));
  ASSIGN_OR_RETURN(
      std::string text,
      tokenizer->Decode(
          absl::MakeConstSpan(request.ids().data(), request.ids_size()),
          request.skip_special_tokens() ? SpecialTokens::kSkip
                                        : SpecialTokens::kKeep,
          "ids"));
  v1::DetokenizeResponse response;
  response.set_text(std::move(text));
  for (int32_t id : request.ids()) response.add_texts(TextOf(*tokenizer, id));
  return response;
}

}  // namespace phitap
