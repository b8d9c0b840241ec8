//! The C interface of phitap_tokenizer.h, and the only unsafe code.
// SPDX-License-Identifier: Apache-2.0

mod chat;
mod python;
mod settings;
mod vocabulary;

use std::os::raw::{c_char, c_int};
use std::panic::{catch_unwind, AssertUnwindSafe};

use chat::{ChatTemplate, Message};
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

#[repr(C)]
#[derive(PartialEq)]
pub enum Status {
    Ok = 0,
    Invalid = 1,
    NoTemplate = 2,
    Panic = 3,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    bytes: *const c_char,
    length: usize,
}

#[repr(C)]
pub struct OwnedText {
    bytes: *mut c_char,
    length: usize,
}

#[repr(C)]
pub struct OwnedIds {
    ids: *mut u32,
    count: usize,
}

#[repr(C)]
pub struct TokenizerFiles {
    tokenizer_json: Text,
    tokenizer_config_json: Text,
    special_tokens_map_json: Text,
    chat_template_jinja: Text,
}

#[repr(C)]
pub struct MessageField {
    name: Text,
    value: Text,
}

#[repr(C)]
pub struct ChatMessage {
    fields: *const MessageField,
    field_count: usize,
}

impl Text {
    /// # Safety
    /// `bytes` is NULL or points to `length` bytes that live as long as the result is used.
    unsafe fn bytes<'a>(self) -> Option<&'a [u8]> {
        (!self.bytes.is_null()).then(|| unsafe { std::slice::from_raw_parts(self.bytes.cast(), self.length) })
    }

    /// # Safety
    /// As for `bytes`.
    unsafe fn utf8<'a>(self) -> Result<&'a str, Failure> {
        let bytes = unsafe { self.bytes() }.unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|error| Failure(Status::Invalid, format!("not UTF-8: {error}")))
    }
}

/// # Safety
/// `items` points to `count` items, or `count` is 0.
unsafe fn slice<'a, T>(items: *const T, count: usize) -> &'a [T] {
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(items, count) } }
}

struct Failure(Status, String);

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Failure(Status::Invalid, problem)
    }
}

fn owned_text(text: String) -> OwnedText {
    let bytes: Box<[u8]> = text.into_bytes().into_boxed_slice();
    OwnedText { length: bytes.len(), bytes: Box::into_raw(bytes).cast() }
}

fn owned_ids(ids: Vec<u32>) -> OwnedIds {
    let ids: Box<[u32]> = ids.into_boxed_slice();
    OwnedIds { count: ids.len(), ids: Box::into_raw(ids).cast() }
}

/// Runs `call`; writes its value to `result`, or its problem to `error`. A panic ends here.
///
/// # Safety
/// `result` and `error` may be written.
unsafe fn guarded<T>(result: *mut T, error: *mut OwnedText, call: impl FnOnce() -> Result<T, Failure>) -> Status {
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Failure(Status::Panic, text.unwrap_or("unknown panic").to_string()))
    });
    match outcome {
        Ok(value) => {
            unsafe { result.write(value) };
            Status::Ok
        }
        Err(Failure(status, problem)) => {
            unsafe { error.write(owned_text(problem)) };
            status
        }
    }
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

/// # Safety
/// See phitap_tokenizer.h; so for every function below.
#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_load(
    files: &TokenizerFiles, tokenizer: *mut *mut PhitapTokenizer, error: *mut OwnedText,
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
    tokenizer: &PhitapTokenizer, text: Text, add_special_tokens: c_int, ids: *mut OwnedIds, error: *mut OwnedText,
) -> Status {
    let call = || Ok(owned_ids(tokenizer.vocabulary.encode(unsafe { text.utf8() }?, add_special_tokens != 0)?));
    unsafe { guarded(ids, error, call) }
}

#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_decode(
    tokenizer: &PhitapTokenizer, ids: *const u32, count: usize, skip_special_tokens: c_int, text: *mut OwnedText,
    error: *mut OwnedText,
) -> Status {
    let call = || Ok(owned_text(tokenizer.vocabulary.decode(unsafe { slice(ids, count) }, skip_special_tokens != 0)?));
    unsafe { guarded(text, error, call) }
}

#[no_mangle]
pub unsafe extern "C" fn phitap_tokenizer_token_text(
    tokenizer: &PhitapTokenizer, id: u32, text: *mut OwnedText, error: *mut OwnedText,
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
    tokenizer: &PhitapTokenizer, messages: *const ChatMessage, message_count: usize, add_generation_prompt: c_int,
    text: *mut OwnedText, error: *mut OwnedText,
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
