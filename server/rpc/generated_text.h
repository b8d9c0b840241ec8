// The text of a run's generated tokens, piece by piece as they come.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_GENERATED_TEXT_H_
#define PHITAP_SERVER_RPC_GENERATED_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/tokenizer/tokenizer.h"

namespace phitap {

// A piece is whole UTF-8 characters: a token that ends within one adds nothing
// until the character is complete (or will never be: then U+FFFD, as in
// Decode). After the text of the prompt's ids, the pieces are what all ids
// together decode to, special tokens included. Thread-compatible.
class GeneratedText {
 public:
  // `tokenizer` outlives it.
  GeneratedText(const Tokenizer& tokenizer,
                absl::Span<const int32_t> prompt_ids);

  // What the next token completes.
  std::string Next(int32_t id);
  // What the tokens so far leave incomplete: after the last one.
  std::string Rest();

 private:
  std::string TextOf(absl::Span<const int32_t> ids) const;
  bool BeginsWithinCharacter(absl::Span<const int32_t> ids) const;
  // Counts the ids as told.
  std::string Tell(std::string piece);

  const Tokenizer& tokenizer_;
  // The last ids that were told, for what decoding depends on the ids before
  // (a first word's space), then those that were not.
  std::vector<int32_t> ids_;
  size_t told_count_ = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_GENERATED_TEXT_H_
