// A checkpoint's tokenizer and chat template: text or chat messages to token
// ids, and ids back to text.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TOKENIZER_TOKENIZER_H_
#define PHITAP_SERVER_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct PhitapTokenizer;  // The Rust crate's, see rust/phitap_tokenizer.h.

namespace phitap {

// Longest text that is encoded, and longest chat after rendering. The longest
// context of the family, 131072 tokens, holds about 600 kB of English; a text
// at the limit takes its thread about half a second.
inline constexpr size_t kMaxTextBytes = size_t{1} << 20;

enum class SpecialTokens { kKeep, kSkip };

// Whether a rendered chat ends with the header of the assistant's turn.
enum class GenerationPrompt { kOmit, kAppend };

struct ChatMessage {
  std::string role;
  std::string content;
  // Whatever else the template reads, e.g. Phi-4-mini's `tools` of a system
  // message. Neither `role` nor `content`.
  std::map<std::string, std::string> extra_fields;
};

// Gives the ids, texts and rendered chats that transformers 5.24 gives for the
// same folder. Thread-safe. `field` is where a text came from, for messages
// about it. Errors: INVALID_ARGUMENT for what the caller sent, INTERNAL for a
// defect of the tokenizer library; others are named.
class Tokenizer {
 public:
  // Reads `folder`/tokenizer.json, and tokenizer_config.json,
  // special_tokens_map.json and chat_template.jinja where they exist. NOT_FOUND
  // without tokenizer.json: such a checkpoint can still be given token ids.
  // INVALID_ARGUMENT, naming the file, for one that cannot be read. A chat
  // template that does not compile is no error here, see chat_status().
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const std::filesystem::path& folder);

  // Ids of `text`, with what the file's post-processor adds (in the Phi-3
  // family nothing: no tokenizer of it prepends a token). An empty text has no
  // ids of its own. Special tokens spelled in the text become their ids.
  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, absl::string_view field = "text") const;

  // The text of `ids`. As in transformers, an id that no token has (the unused
  // rows at the end of the embedding) adds nothing, and bytes that form no
  // character become U+FFFD. A negative id is refused.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids,
                                     SpecialTokens special_tokens,
                                     absl::string_view field = "ids") const;

  // What one token adds to a text, its leading space included: for tables that
  // show a prompt token by token. UTF-8; "" for an id that no token has.
  absl::StatusOr<std::string> TokenText(int32_t id) const;

  // The id of the token spelled `token` in the vocabulary, e.g. `<|end|>`.
  std::optional<int32_t> TokenId(absl::string_view token) const;

  // OK, or FAILED_PRECONDITION with the reason why this checkpoint takes no
  // chats: it has no template, or one that does not compile.
  absl::Status chat_status() const;

  // `messages` through the checkpoint's own template. INVALID_ARGUMENT if the
  // template refuses them (with the text of its raise_exception) or does not
  // end; FAILED_PRECONDITION as chat_status().
  absl::StatusOr<std::string> RenderChat(
      absl::Span<const ChatMessage> messages, GenerationPrompt prompt,
      absl::string_view field = "messages") const;

  // The ids of RenderChat's text, nothing added by the post-processor.
  absl::StatusOr<std::vector<int32_t>> EncodeChat(
      absl::Span<const ChatMessage> messages, GenerationPrompt prompt,
      absl::string_view field = "messages") const;

 private:
  struct Release {
    void operator()(PhitapTokenizer* tokenizer) const;
  };
  using Handle = std::unique_ptr<PhitapTokenizer, Release>;

  explicit Tokenizer(Handle handle) : handle_(std::move(handle)) {}

  enum class AddedTokens { kNone, kOfPostProcessor };
  absl::StatusOr<std::vector<int32_t>> EncodeChecked(
      absl::string_view text, AddedTokens added, absl::string_view field) const;

  Handle handle_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TOKENIZER_TOKENIZER_H_
