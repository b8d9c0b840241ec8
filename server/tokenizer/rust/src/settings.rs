//! What `tokenizer_config.json` and its neighbours say beyond `tokenizer.json`, read as transformers 5.24 reads it.
// SPDX-License-Identifier: Apache-2.0

use serde_json::{Map, Value};
use tokenizers::AddedToken;

use crate::Files;

/// The names that transformers itself knows, in the order in which it adds their tokens.
const NAMED_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

#[derive(Default)]
pub struct Settings {
    /// `bos_token` and the like with their texts: variables of the chat template.
    pub named_tokens: Vec<(String, String)>,
    /// Tokens with their own flags, by id.
    pub added_tokens: Vec<AddedToken>,
    /// Tokens that only have a text.
    pub extra_special_tokens: Vec<String>,
    /// Whether the texts of special tokens are encoded like any other text.
    pub split_special_tokens: bool,
    /// The Jinja source.
    pub chat_template: Option<String>,
}

impl Settings {
    pub fn parse(files: &Files) -> Result<Self, String> {
        let mut config = object("tokenizer_config.json", files.tokenizer_config_json)?;
        // transformers reads the older file only where the newer way of saying the same is absent.
        if !config.contains_key("added_tokens_decoder") {
            config.extend(object("special_tokens_map.json", files.special_tokens_map_json)?);
        }
        Ok(Self {
            named_tokens: named_tokens(&config),
            added_tokens: added_tokens(&config)?,
            extra_special_tokens: extra_special_tokens(&config),
            split_special_tokens: config.get("split_special_tokens") == Some(&Value::Bool(true)),
            chat_template: chat_template(&config, files.chat_template_jinja)?,
        })
    }
}

fn object(file: &str, bytes: Option<&[u8]>) -> Result<Map<String, Value>, String> {
    let Some(bytes) = bytes else { return Ok(Map::new()) };
    serde_json::from_slice(bytes).map_err(|error| format!("{file}: not a JSON object: {error}"))
}

/// A token is written as its text or as an object with its flags.
fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

fn named_tokens(config: &Map<String, Value>) -> Vec<(String, String)> {
    let own = config.keys().map(String::as_str).filter(|key| key.ends_with("_token") && !NAMED_TOKENS.contains(key));
    NAMED_TOKENS
        .into_iter()
        .chain(own)
        .filter_map(|name| Some((name.to_string(), token_text(config.get(name)?)?.to_string())))
        .collect()
}

fn added_tokens(config: &Map<String, Value>) -> Result<Vec<AddedToken>, String> {
    let Some(Value::Object(decoder)) = config.get("added_tokens_decoder") else { return Ok(Vec::new()) };
    let mut tokens = Vec::with_capacity(decoder.len());
    for (key, value) in decoder {
        let refuse = |problem: &str| format!("tokenizer_config.json: added_tokens_decoder[\"{key}\"]: {problem}");
        let id: u32 = key.parse().map_err(|_| refuse("not a token id"))?;
        let content = token_text(value).ok_or_else(|| refuse("has no `content`"))?;
        let flag = |name: &str| value.get(name).and_then(Value::as_bool);
        let special = flag("special").unwrap_or(false);
        let token = AddedToken::from(content, special)
            .single_word(flag("single_word").unwrap_or(false))
            .lstrip(flag("lstrip").unwrap_or(false))
            .rstrip(flag("rstrip").unwrap_or(false))
            .normalized(flag("normalized").unwrap_or(!special));
        tokens.push((id, token));
    }
    tokens.sort_by_key(|(id, _)| *id);
    Ok(tokens.into_iter().map(|(_, token)| token).collect())
}

fn extra_special_tokens(config: &Map<String, Value>) -> Vec<String> {
    ["extra_special_tokens", "additional_special_tokens"]
        .into_iter()
        .find_map(|key| config.get(key)?.as_array().filter(|tokens| !tokens.is_empty()))
        .map(|tokens| tokens.iter().filter_map(|token| token_text(token).map(str::to_string)).collect())
        .unwrap_or_default()
}

/// `chat_template.jinja` wins over the config's entry, which is a text or a list of named texts.
fn chat_template(config: &Map<String, Value>, file: Option<&[u8]>) -> Result<Option<String>, String> {
    if let Some(bytes) = file {
        let text = std::str::from_utf8(bytes).map_err(|error| format!("chat_template.jinja: not UTF-8: {error}"))?;
        return Ok(Some(text.to_string()));
    }
    let of_name = |list: &Vec<Value>| {
        let named = list.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))?;
        Some(named.get("template")?.as_str()?.to_string())
    };
    match config.get("chat_template") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(list)) => Ok(of_name(list)),
        Some(_) => Err("tokenizer_config.json: chat_template: neither a text nor a list of named texts".to_string()),
    }
}
