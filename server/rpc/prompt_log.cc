#include "server/rpc/prompt_log.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "server/observe/log.h"

namespace phitap {
namespace {

std::string TextOf(const v1::Prompt& prompt) {
  switch (prompt.input_case()) {
    case v1::Prompt::kText:
      return prompt.text();
    case v1::Prompt::kTokens:
      return absl::StrCat("ids ", absl::StrJoin(prompt.tokens().ids(), " "));
    case v1::Prompt::kChat:
      return absl::StrJoin(prompt.chat().messages(), "\n",
                           [](std::string* text, const v1::ChatMessage& turn) {
                             absl::StrAppend(text, turn.role(), ": ",
                                             turn.content());
                           });
    case v1::Prompt::kSameAs:
      return absl::StrCat("the same as run ", prompt.same_as());
    case v1::Prompt::INPUT_NOT_SET:
      return "none";
  }
  return "none";
}

// At a character's beginning, so that what is left stays UTF-8.
std::string Cut(std::string text) {
  if (text.size() <= kMaxLoggedPromptBytes) return text;
  const size_t whole = text.size();
  size_t end = kMaxLoggedPromptBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return absl::StrCat(text, "… (", whole, " bytes)");
}

}  // namespace

void LogPrompts(const v1::TraceRequest& request, const CallTag& tag) {
  for (int i = 0; i < request.runs_size(); ++i) {
    const v1::Run& run = request.runs(i);
    Log(LogLevel::kInfo, "prompt",
        {{log_field::kRequest, tag.request_id},
         {log_field::kIdentity, tag.identity},
         {log_field::kModel, request.model()},
         {log_field::kRun, run.label().empty() ? absl::StrCat(i) : run.label()},
         {log_field::kPrompt, Cut(TextOf(run.prompt()))}});
  }
}

}  // namespace phitap
