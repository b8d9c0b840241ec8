// The text of each token, for readers of a prompt's ids.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_TOKEN_TEXTS_H_
#define PHITAP_SERVER_RPC_TOKEN_TEXTS_H_

#include <cstdint>

#include "server/models/served_models.h"

namespace phitap {

// The text of one id, "" where the tokenizer has none for it.
inline std::string TextOf(const Tokenizer& tokenizer, int32_t id) {
  return tokenizer.TokenText(id).value_or("");
}

// Adds the text of each of `message`'s ids; none where the model has no
// tokenizer. For messages with `ids` and `texts`.
template <typename Message>
void AddTexts(const ServedModel& model, Message& message) {
  if (model.tokenizer == nullptr) return;
  for (int32_t id : message.ids()) {
    message.add_texts(TextOf(*model.tokenizer, id));
  }
}

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_TOKEN_TEXTS_H_
