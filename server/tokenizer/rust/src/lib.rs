//! The C interface of phitap_tokenizer.h, and with `interface` the only unsafe code.
// SPDX-License-Identifier: Apache-2.0

// What each function asks of its caller is said once, in phitap_tokenizer.h.
#![allow(clippy::missing_safety_doc)]

mod chat;
mod interface;
mod python;
mod settings;
mod vocabulary;

use std::os::raw::c_int;

use chat::{ChatTemplate, Message};
use interface::{
    guarded, owned_ids, owned_text, slice, ChatMessage, Failure, OwnedIds, OwnedText, Status, Text, TokenizerFiles,
};
use settings::Settings;
use vocabulary::Vocabulary;

/// A checkpoint folder's files, None where one is absent.
pub struct Files<'a> {
    pub tokenizer_json: &'a [u8],
    pub tokenizer_config_json: Option<&'a [u8]>,
    pub special_tokens_map_json: Option<&'a [u8]>,
    pub chat_template_jinja: Option<&'a [u8]>,
}

pub struct PhitapTokenizer {
    vocabulary: Vocabulary,
    /// Or why there is none: a checkpoint without a usable template still reads plain text.
    chat_template: Result<ChatTemplate, String>,
}

fn load(files: &Files) -> Result<PhitapTokenizer, Failure> {
    let settings = Settings::parse(files)?;
    let vocabulary = Vocabulary::load(files.tokenizer_json, &settings)?;
    let chat_template = match &settings.chat_template {
        None => Err("the checkpoint has no chat template".to_string()),
        Some(source) => ChatTemplate::compile(source, &settings.named_tokens),
    };
    Ok(PhitapTokenizer { vocabulary, chat_template })
}

#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_load(
    files: &TokenizerFiles,
    tokenizer: *mut *mut PhitapTokenizer,
    error: *mut OwnedText,
) -> Status {
    let call = || unsafe {
        let files = Files {
            tokenizer_json: files.tokenizer_json.bytes().unwrap_or_default(),
            tokenizer_config_json: files.tokenizer_config_json.bytes(),
            special_tokens_map_json: files.special_tokens_map_json.bytes(),
            chat_template_jinja: files.chat_template_jinja.bytes(),
        };
        Ok(Box::into_raw(Box::new(load(&files)?)))
    };
    unsafe { guarded(tokenizer, error, call) }
}

#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_free(tokenizer: *mut PhitapTokenizer) {
    if !tokenizer.is_null() {
        drop(unsafe { Box::from_raw(tokenizer) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_encode(
    tokenizer: &PhitapTokenizer,
    text: Text,
    add_special_tokens: c_int,
    ids: *mut OwnedIds,
    error: *mut OwnedText,
) -> Status {
    let call = || Ok(owned_ids(tokenizer.vocabulary.encode(unsafe { text.utf8() }?, add_special_tokens != 0)?));
    unsafe { guarded(ids, error, call) }
}

#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_decode(
    tokenizer: &PhitapTokenizer,
    ids: *const u32,
    count: usize,
    skip_special_tokens: c_int,
    text: *mut OwnedText,
    error: *mut OwnedText,
) -> Status {
    let call = || Ok(owned_text(tokenizer.vocabulary.decode(unsafe { slice(ids, count) }, skip_special_tokens != 0)?));
    unsafe { guarded(text, error, call) }
}

#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_token_text(
    tokenizer: &PhitapTokenizer,
    id: u32,
    text: *mut OwnedText,
    error: *mut OwnedText,
) -> Status {
    unsafe { guarded(text, error, || Ok(owned_text(tokenizer.vocabulary.token_text(id)?))) }
}

#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_token_id(tokenizer: &PhitapTokenizer, token: Text, id: *mut u32) -> c_int {
    let found = unsafe { token.utf8() }.ok().and_then(|token| tokenizer.vocabulary.token_id(token));
    if let Some(found) = found {
        unsafe { id.write(found) };
    }
    c_int::from(found.is_some())
}

#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_chat_status(tokenizer: &PhitapTokenizer, error: *mut OwnedText) -> Status {
    unsafe { guarded(&mut (), error, || template(tokenizer).map(|_| ())) }
}

#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_render_chat(
    tokenizer: &PhitapTokenizer,
    messages: *const ChatMessage,
    message_count: usize,
    add_generation_prompt: c_int,
    text: *mut OwnedText,
    error: *mut OwnedText,
) -> Status {
    let call = || {
        let as_message = |message: &ChatMessage| unsafe {
            let fields = slice(message.fields, message.field_count).iter();
            fields.map(|field| Ok((field.name.utf8()?, field.value.utf8()?))).collect()
        };
        let messages: Result<Vec<Message>, Failure> =
            unsafe { slice(messages, message_count) }.iter().map(as_message).collect();
        Ok(owned_text(template(tokenizer)?.render(&messages?, add_generation_prompt != 0)?))
    };
    unsafe { guarded(text, error, call) }
}

fn template(tokenizer: &PhitapTokenizer) -> Result<&ChatTemplate, Failure> {
    tokenizer.chat_template.as_ref().map_err(|problem| Failure(Status::NoTemplate, problem.clone()))
}

#[no_mangle]
pub unsafe extern "C" fn phitap_text_free(text: OwnedText) {
    if !text.bytes.is_null() {
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(text.bytes.cast::<u8>(), text.length)) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn phitap_ids_free(ids: OwnedIds) {
    if !ids.ids.is_null() {
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(ids.ids, ids.count)) });
    }
}
