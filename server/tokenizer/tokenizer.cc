#include "server/tokenizer/tokenizer.h"

#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/tokenizer/rust/phitap_tokenizer.h"
#include "server/tokenizer/utf8.h"

namespace phitap {
namespace {

// The largest tokenizer.json of the family has 16 MB.
constexpr uintmax_t kMaxFileBytes = uintmax_t{256} << 20;
constexpr size_t kMaxProblemBytes = 1000;

PhitapText Borrow(absl::string_view text) { return {text.data(), text.size()}; }

PhitapText BorrowFile(const std::optional<std::string>& contents) {
  return contents ? Borrow(*contents) : PhitapText{nullptr, 0};
}

std::string Take(PhitapOwnedText text) {
  std::string copy(text.bytes == nullptr ? "" : text.bytes, text.length);
  phitap_text_free(text);
  return copy;
}

// The library's words, among which may be a caller's, for a message: one line,
// of which no more is kept than is read.
std::string OneLine(std::string text) {
  for (char& letter : text) {
    if (absl::ascii_iscntrl(letter)) letter = ' ';
  }
  if (text.size() <= kMaxProblemBytes) return text;
  text.resize(kMaxProblemBytes);
  text.resize(FirstInvalidUtf8(text).value_or(text.size()));
  return text + "…";
}

absl::Status ToStatus(PhitapTokenizerStatus status, PhitapOwnedText error,
                      absl::string_view field) {
  if (status == PHITAP_TOKENIZER_OK) return absl::OkStatus();
  const std::string problem = OneLine(Take(error));
  switch (status) {
    case PHITAP_TOKENIZER_NO_TEMPLATE:
      return InvalidField({.field = std::string(field), .problem = problem},
                          absl::StatusCode::kFailedPrecondition);
    case PHITAP_TOKENIZER_PANIC:
      return absl::InternalError(absl::StrCat("tokenizer: ", problem));
    default:
      return InvalidField({.field = std::string(field), .problem = problem});
  }
}

// Nothing if the file is not there.
absl::StatusOr<std::optional<std::string>> ReadFile(
    const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return std::nullopt;
  const std::string name = path.filename().string();
  const uintmax_t size = std::filesystem::file_size(path, code);
  if (code) {
    return InvalidField({.field = name, .problem = code.message()});
  }
  if (size > kMaxFileBytes) {
    return InvalidField({.field = name,
                         .problem = absl::StrCat("has ", size, " bytes"),
                         .valid = absl::StrCat("up to ", kMaxFileBytes)});
  }
  std::string contents(size, '\0');
  std::ifstream stream(path, std::ios::binary);
  if (!stream.read(contents.data(), static_cast<std::streamsize>(size))) {
    return InvalidField({.field = name, .problem = "cannot be read"});
  }
  return contents;
}

absl::Status CheckText(absl::string_view text, absl::string_view field) {
  if (text.size() > kMaxTextBytes) {
    return InvalidField({.field = std::string(field),
                         .problem = absl::StrCat("has ", text.size(), " bytes"),
                         .valid = absl::StrCat("up to ", kMaxTextBytes)});
  }
  if (const std::optional<size_t> offset = FirstInvalidUtf8(text)) {
    return InvalidField({.field = std::string(field),
                         .problem = absl::StrCat("not UTF-8 at byte ", *offset),
                         .valid = "UTF-8 text"});
  }
  return absl::OkStatus();
}

absl::Status CheckMessage(const ChatMessage& message, absl::string_view field) {
  if (message.role.empty()) {
    return InvalidField({.field = absl::StrCat(field, ".role"),
                         .problem = "is empty",
                         .valid = "a role of the checkpoint's chat template"});
  }
  RETURN_IF_ERROR(CheckText(message.role, absl::StrCat(field, ".role")));
  RETURN_IF_ERROR(CheckText(message.content, absl::StrCat(field, ".content")));
  for (const auto& [name, value] : message.extra_fields) {
    if (name.empty() || name == "role" || name == "content" ||
        FirstInvalidUtf8(name).has_value()) {
      return InvalidField({.field = absl::StrCat(field, ".extra_fields"),
                           .problem = "has a field that cannot be named so",
                           .valid = "names other than role and content"});
    }
    RETURN_IF_ERROR(CheckText(value, absl::StrCat(field, ".", name)));
  }
  return absl::OkStatus();
}

std::vector<PhitapMessageField> FieldsOf(const ChatMessage& message) {
  std::vector<PhitapMessageField> fields = {
      {Borrow("role"), Borrow(message.role)},
      {Borrow("content"), Borrow(message.content)}};
  for (const auto& [name, value] : message.extra_fields) {
    fields.push_back(
        {Borrow(absl::string_view(name)), Borrow(absl::string_view(value))});
  }
  return fields;
}

}  // namespace

void Tokenizer::Release::operator()(PhitapTokenizer* tokenizer) const {
  phitap_tokenizer_free(tokenizer);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(
    const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(const std::optional<std::string> vocabulary,
                   ReadFile(folder / "tokenizer.json"));
  if (!vocabulary) {
    return InvalidField({.field = "tokenizer.json",
                         .problem = absl::StrCat("is not in ", folder.string()),
                         .valid = "a folder with it, or prompts of token ids"},
                        absl::StatusCode::kNotFound);
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> config,
                   ReadFile(folder / "tokenizer_config.json"));
  ASSIGN_OR_RETURN(const std::optional<std::string> special_tokens,
                   ReadFile(folder / "special_tokens_map.json"));
  ASSIGN_OR_RETURN(const std::optional<std::string> chat_template,
                   ReadFile(folder / "chat_template.jinja"));
  const PhitapTokenizerFiles files = {
      .tokenizer_json = BorrowFile(vocabulary),
      .tokenizer_config_json = BorrowFile(config),
      .special_tokens_map_json = BorrowFile(special_tokens),
      .chat_template_jinja = BorrowFile(chat_template)};
  PhitapTokenizer* tokenizer = nullptr;
  PhitapOwnedText error = {};
  const PhitapTokenizerStatus status =
      phitap_tokenizer_load(&files, &tokenizer, &error);
  if (status == PHITAP_TOKENIZER_PANIC) {
    // The library's way to refuse some files.
    return InvalidField(
        {.field = (folder / "tokenizer.json").string(),
         .problem = absl::StrCat("the tokenizer library gives up on it: ",
                                 Take(error))});
  }
  RETURN_IF_ERROR(ToStatus(status, error, folder.string()));
  return std::unique_ptr<Tokenizer>(new Tokenizer(Handle(tokenizer)));
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(
    absl::string_view text, absl::string_view field) const {
  return EncodeChecked(text, AddedTokens::kOfPostProcessor, field);
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeChecked(
    absl::string_view text, AddedTokens added, absl::string_view field) const {
  RETURN_IF_ERROR(CheckText(text, field));
  PhitapOwnedIds ids = {};
  PhitapOwnedText error = {};
  const PhitapTokenizerStatus status = phitap_tokenizer_encode(
      handle_.get(), Borrow(text), added == AddedTokens::kOfPostProcessor, &ids,
      &error);
  RETURN_IF_ERROR(ToStatus(status, error, field));
  std::vector<int32_t> result(ids.ids, ids.ids + ids.count);
  phitap_ids_free(ids);
  return result;
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const int32_t> ids,
                                              SpecialTokens special_tokens,
                                              absl::string_view field) const {
  std::vector<uint32_t> unsigned_ids;
  unsigned_ids.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0) {
      return InvalidField(
          {.field = absl::StrCat(field, "[", unsigned_ids.size(), "]"),
           .problem = absl::StrCat(id, " is negative"),
           .valid = "token ids from 0"});
    }
    unsigned_ids.push_back(static_cast<uint32_t>(id));
  }
  PhitapOwnedText text = {};
  PhitapOwnedText error = {};
  const PhitapTokenizerStatus status = phitap_tokenizer_decode(
      handle_.get(), unsigned_ids.data(), unsigned_ids.size(),
      special_tokens == SpecialTokens::kSkip, &text, &error);
  RETURN_IF_ERROR(ToStatus(status, error, field));
  return Take(text);
}

absl::StatusOr<std::string> Tokenizer::TokenText(int32_t id) const {
  if (id < 0) {
    return InvalidField({.field = "id",
                         .problem = absl::StrCat(id, " is negative"),
                         .valid = "token ids from 0"});
  }
  PhitapOwnedText text = {};
  PhitapOwnedText error = {};
  const PhitapTokenizerStatus status = phitap_tokenizer_token_text(
      handle_.get(), static_cast<uint32_t>(id), &text, &error);
  RETURN_IF_ERROR(ToStatus(status, error, "id"));
  return Take(text);
}

std::optional<int32_t> Tokenizer::TokenId(absl::string_view token) const {
  uint32_t id = 0;
  if (phitap_tokenizer_token_id(handle_.get(), Borrow(token), &id) == 0) {
    return std::nullopt;
  }
  return static_cast<int32_t>(id);
}

absl::Status Tokenizer::chat_status() const {
  PhitapOwnedText error = {};
  return ToStatus(phitap_tokenizer_chat_status(handle_.get(), &error), error,
                  "chat_template");
}

absl::StatusOr<std::string> Tokenizer::RenderChat(
    absl::Span<const ChatMessage> messages, GenerationPrompt prompt,
    absl::string_view field) const {
  if (messages.empty()) {
    return InvalidField({.field = std::string(field),
                         .problem = "is empty",
                         .valid = "at least one message"});
  }
  std::vector<std::vector<PhitapMessageField>> fields;
  for (const ChatMessage& message : messages) {
    RETURN_IF_ERROR(
        CheckMessage(message, absl::StrCat(field, "[", fields.size(), "]")));
    fields.push_back(FieldsOf(message));
  }
  std::vector<PhitapMessage> borrowed;
  for (const std::vector<PhitapMessageField>& message : fields) {
    borrowed.push_back({message.data(), message.size()});
  }
  PhitapOwnedText text = {};
  PhitapOwnedText error = {};
  const PhitapTokenizerStatus status = phitap_tokenizer_render_chat(
      handle_.get(), borrowed.data(), borrowed.size(),
      prompt == GenerationPrompt::kAppend, &text, &error);
  RETURN_IF_ERROR(ToStatus(status, error, field));
  std::string rendered = Take(text);
  RETURN_IF_ERROR(CheckText(rendered, field));
  return rendered;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeChat(
    absl::Span<const ChatMessage> messages, GenerationPrompt prompt,
    absl::string_view field) const {
  ASSIGN_OR_RETURN(const std::string text, RenderChat(messages, prompt, field));
  return EncodeChecked(text, AddedTokens::kNone, field);
}

}  // namespace phitap
