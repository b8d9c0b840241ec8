//! The types of phitap_tokenizer.h, and how values and problems cross it.
// SPDX-License-Identifier: Apache-2.0

use std::os::raw::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};

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
    pub bytes: *mut c_char,
    pub length: usize,
}

#[repr(C)]
pub struct OwnedIds {
    pub ids: *mut u32,
    pub count: usize,
}

#[repr(C)]
pub struct TokenizerFiles {
    pub tokenizer_json: Text,
    pub tokenizer_config_json: Text,
    pub special_tokens_map_json: Text,
    pub chat_template_jinja: Text,
}

#[repr(C)]
pub struct MessageField {
    pub name: Text,
    pub value: Text,
}

#[repr(C)]
pub struct ChatMessage {
    pub fields: *const MessageField,
    pub field_count: usize,
}

impl Text {
    /// # Safety
    /// `bytes` is NULL or points to `length` bytes that live as long as the result is used.
    pub unsafe fn bytes<'a>(self) -> Option<&'a [u8]> {
        (!self.bytes.is_null()).then(|| unsafe { std::slice::from_raw_parts(self.bytes.cast(), self.length) })
    }

    /// # Safety
    /// As for `bytes`.
    pub unsafe fn utf8<'a>(self) -> Result<&'a str, Failure> {
        let bytes = unsafe { self.bytes() }.unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|error| Failure(Status::Invalid, format!("not UTF-8: {error}")))
    }
}

/// # Safety
/// `items` points to `count` items, or `count` is 0.
pub unsafe fn slice<'a, T>(items: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        &[]
    } else {
        unsafe { std::slice::from_raw_parts(items, count) }
    }
}

/// What goes back instead of a result, and why.
pub struct Failure(pub Status, pub String);

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Failure(Status::Invalid, problem)
    }
}

pub fn owned_text(text: String) -> OwnedText {
    let bytes: Box<[u8]> = text.into_bytes().into_boxed_slice();
    OwnedText { length: bytes.len(), bytes: Box::into_raw(bytes).cast() }
}

pub fn owned_ids(ids: Vec<u32>) -> OwnedIds {
    let ids: Box<[u32]> = ids.into_boxed_slice();
    OwnedIds { count: ids.len(), ids: Box::into_raw(ids).cast() }
}

/// Runs `call`; writes its value to `result`, or its problem to `error`. A panic ends here.
///
/// # Safety
/// `result` and `error` may be written.
pub unsafe fn guarded<T>(result: *mut T, error: *mut OwnedText, call: impl FnOnce() -> Result<T, Failure>) -> Status {
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
