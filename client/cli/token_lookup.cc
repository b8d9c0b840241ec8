#include "client/cli/token_lookup.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/text_width.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

absl::StatusOr<v1::TokenizeResponse> Tokens(const client::Client& client,
                                            const client::CallOptions& options,
                                            const std::string& model,
                                            const std::string& text) {
  v1::TokenizeRequest request;
  request.set_model(model);
  request.set_text(text);
  return client.Tokenize(request, options);
}

}  // namespace

absl::StatusOr<int32_t> LookUpToken(const client::Client& client,
                                    const client::CallOptions& options,
                                    const std::string& model,
                                    const std::string& prompt,
                                    const std::string& text) {
  v1::TokenizeResponse before;
  if (!prompt.empty()) {
    ASSIGN_OR_RETURN(before, Tokens(client, options, model, prompt));
  }
  ASSIGN_OR_RETURN(const v1::TokenizeResponse both,
                   Tokens(client, options, model, prompt + text));
  const int known = before.ids_size();
  const bool goes_on =
      both.ids_size() > known &&
      std::equal(before.ids().begin(), before.ids().end(), both.ids().begin());
  if (goes_on && both.ids_size() == known + 1) return both.ids(known);
  std::string problem =
      absl::StrCat("`", text, "` joins the prompt's last token");
  if (goes_on) {
    problem = absl::StrCat(
        "`", text, "` is ", both.ids_size() - known, " tokens, ",
        absl::StrJoin(both.texts().begin() + known, both.texts().end(), "|",
                      [](std::string* out, const std::string& token) {
                        out->append(TokenText(token));
                      }));
  }
  return InvalidField(
      {.field = "--metric",
       .problem = problem,
       .valid = "a text that is one token there (mind the space before a "
                "word), or #ID: see `phitap tokenize`"});
}

}  // namespace phitap::cli
