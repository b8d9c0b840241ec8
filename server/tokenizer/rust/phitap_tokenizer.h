/* C interface of the Rust crate phitap-tokenizer: one tokenizer and its chat
 * template. SPDX-License-Identifier: Apache-2.0
 *
 * Thread-safe: a tokenizer never changes after loading. Nothing unwinds out of
 * these functions. Every function that can fail returns a status and, unless it
 * is OK, writes one sentence to `error`, which the caller frees; other outputs
 * are then untouched. Texts are UTF-8, not zero-terminated, and may contain
 * zeros; the caller checks them before.
 */
#ifndef PHITAP_SERVER_TOKENIZER_RUST_PHITAP_TOKENIZER_H_
#define PHITAP_SERVER_TOKENIZER_RUST_PHITAP_TOKENIZER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PhitapTokenizer PhitapTokenizer;

typedef enum PhitapTokenizerStatus {
  PHITAP_TOKENIZER_OK = 0,
  /* The input is at fault: a file, a text, an id, the messages. */
  PHITAP_TOKENIZER_INVALID = 1,
  /* The checkpoint has no chat template, or none that compiles. */
  PHITAP_TOKENIZER_NO_TEMPLATE = 2,
  /* A panic was caught: a defect of the crate or its dependencies. */
  PHITAP_TOKENIZER_PANIC = 3,
} PhitapTokenizerStatus;

/* Borrowed for the call. `bytes` NULL means absent where a field allows it. */
typedef struct PhitapText {
  const char* bytes;
  size_t length;
} PhitapText;

/* Owned by the caller, released by phitap_text_free. */
typedef struct PhitapOwnedText {
  char* bytes;
  size_t length;
} PhitapOwnedText;

/* Owned by the caller, released by phitap_ids_free. */
typedef struct PhitapOwnedIds {
  uint32_t* ids;
  size_t count;
} PhitapOwnedIds;

/* Contents of a checkpoint folder's files; only tokenizer_json is required. */
typedef struct PhitapTokenizerFiles {
  PhitapText tokenizer_json;
  PhitapText tokenizer_config_json;
  PhitapText special_tokens_map_json;
  PhitapText chat_template_jinja;
} PhitapTokenizerFiles;

typedef struct PhitapMessageField {
  PhitapText name;
  PhitapText value;
} PhitapMessageField;

typedef struct PhitapMessage {
  const PhitapMessageField* fields;
  size_t field_count;
} PhitapMessage;

PhitapTokenizerStatus phitap_tokenizer_load(const PhitapTokenizerFiles* files,
                                            PhitapTokenizer** tokenizer,
                                            PhitapOwnedText* error);
void phitap_tokenizer_free(PhitapTokenizer* tokenizer);

/* `add_special_tokens`: 0 or 1, whether the file's post-processor adds its
 * tokens. */
PhitapTokenizerStatus phitap_tokenizer_encode(const PhitapTokenizer* tokenizer,
                                              PhitapText text,
                                              int add_special_tokens,
                                              PhitapOwnedIds* ids,
                                              PhitapOwnedText* error);

/* Ids that no token has are left out, as Hugging Face does.
 * `skip_special_tokens`: 0 or 1. */
PhitapTokenizerStatus phitap_tokenizer_decode(const PhitapTokenizer* tokenizer,
                                              const uint32_t* ids, size_t count,
                                              int skip_special_tokens,
                                              PhitapOwnedText* text,
                                              PhitapOwnedText* error);

/* What the token adds to a text, its leading space included; "" where no token
 * has the id. */
PhitapTokenizerStatus phitap_tokenizer_token_text(
    const PhitapTokenizer* tokenizer, uint32_t id, PhitapOwnedText* text,
    PhitapOwnedText* error);

/* Returns 1 and writes `id` where a token is spelled `token` in the vocabulary,
 * else 0. */
int phitap_tokenizer_token_id(const PhitapTokenizer* tokenizer,
                              PhitapText token, uint32_t* id);

/* OK where phitap_tokenizer_render_chat has a template to work with. */
PhitapTokenizerStatus phitap_tokenizer_chat_status(
    const PhitapTokenizer* tokenizer, PhitapOwnedText* error);

/* `add_generation_prompt`: 0 or 1. */
PhitapTokenizerStatus phitap_tokenizer_render_chat(
    const PhitapTokenizer* tokenizer, const PhitapMessage* messages,
    size_t message_count, int add_generation_prompt, PhitapOwnedText* text,
    PhitapOwnedText* error);

void phitap_text_free(PhitapOwnedText text);
void phitap_ids_free(PhitapOwnedIds ids);

#ifdef __cplusplus
}
#endif

#endif /* PHITAP_SERVER_TOKENIZER_RUST_PHITAP_TOKENIZER_H_ */
