#include "server/rpc/generated_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace phitap {
namespace {

// Of a character that is not complete, and of bytes that are none.
constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";
// Ids of the prompt that the first tokens are decoded after.
constexpr size_t kContextIds = 16;
// Ids that wait to complete a character, at most: any character has done so by
// then.
constexpr size_t kMaxWaitingIds = 16;
// Ids that are decoded at once, at most about.
constexpr size_t kMaxIds = 64;

// What `text` has that `known` does not begin with, from a character's start.
std::string After(absl::string_view known, absl::string_view text) {
  const auto differ =
      std::mismatch(known.begin(), known.end(), text.begin(), text.end());
  auto begin = static_cast<size_t>(differ.second - text.begin());
  while (begin > 0 && begin < text.size() &&
         (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) {
    --begin;
  }
  return std::string(text.substr(begin));
}

}  // namespace

GeneratedText::GeneratedText(const Tokenizer& tokenizer,
                             absl::Span<const int32_t> prompt_ids)
    : tokenizer_(tokenizer) {
  absl::Span<const int32_t> context =
      prompt_ids.last(std::min(prompt_ids.size(), kContextIds));
  while (BeginsWithinCharacter(context)) context.remove_prefix(1);
  ids_.assign(context.begin(), context.end());
  told_count_ = ids_.size();
}

std::string GeneratedText::Next(int32_t id) {
  ids_.push_back(id);
  const std::string text = TextOf(ids_);
  const bool waiting = ids_.size() - told_count_ < kMaxWaitingIds;
  if (absl::EndsWith(text, kReplacement) && waiting) return "";
  return Rest();
}

std::string GeneratedText::Rest() {
  std::string known = TextOf(absl::MakeConstSpan(ids_).subspan(0, told_count_));
  // Characters that the prompt left incomplete.
  while (absl::EndsWith(known, kReplacement)) {
    known.resize(known.size() - kReplacement.size());
  }
  return Tell(After(known, TextOf(ids_)));
}

std::string GeneratedText::Tell(std::string piece) {
  // Ids without a text of their own may take that of the next with them.
  if (piece.empty() && ids_.size() < kMaxIds) return piece;
  const auto untold = absl::MakeConstSpan(ids_).subspan(told_count_);
  if (!BeginsWithinCharacter(untold) || ids_.size() > kMaxIds) {
    ids_.erase(ids_.begin(), ids_.begin() + static_cast<int64_t>(told_count_));
  }
  told_count_ = ids_.size();
  return piece;
}

// The bytes after the rest of a character would be taken for none, too.
bool GeneratedText::BeginsWithinCharacter(absl::Span<const int32_t> ids) const {
  return absl::StartsWith(TextOf(ids), kReplacement);
}

std::string GeneratedText::TextOf(absl::Span<const int32_t> ids) const {
  return tokenizer_.Decode(ids, SpecialTokens::kKeep).value_or("");
}

}  // namespace phitap
