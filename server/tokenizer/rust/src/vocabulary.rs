//! Text to token ids and back, through Hugging Face's own crate.
// SPDX-License-Identifier: Apache-2.0

use std::collections::HashSet;

use tokenizers::{AddedToken, Tokenizer};

use crate::settings::Settings;

pub struct Vocabulary {
    tokenizer: Tokenizer,
    anchor: Option<Anchor>,
}

/// A token that decodes to the same text wherever it stands. Decoded after it, another token shows what it adds to a
/// text: alone, decoders of the SentencePiece kind would strip its leading space.
struct Anchor {
    id: u32,
    text: String,
}

impl Vocabulary {
    pub fn load(tokenizer_json: &[u8], settings: &Settings) -> Result<Self, String> {
        let refuse = |error: tokenizers::Error| format!("tokenizer.json: {error}");
        let mut tokenizer = Tokenizer::from_bytes(tokenizer_json).map_err(refuse)?;
        // A tokenizer call of transformers neither truncates nor pads unless asked to.
        tokenizer.with_truncation(None).map_err(refuse)?;
        tokenizer.with_padding(None);
        tokenizer.set_encode_special_tokens(settings.split_special_tokens);
        let missing = missing_tokens(&tokenizer, settings);
        if !missing.is_empty() {
            tokenizer.add_tokens(missing).map_err(refuse)?;
        }
        let anchor = find_anchor(&tokenizer);
        Ok(Self { tokenizer, anchor })
    }

    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, String> {
        if text.is_empty() && !add_special_tokens {
            return Ok(Vec::new());
        }
        let encoding = self.tokenizer.encode_fast(text, add_special_tokens).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, String> {
        self.tokenizer.decode(ids, skip_special_tokens).map_err(|error| error.to_string())
    }

    pub fn token_text(&self, id: u32) -> Result<String, String> {
        let spelling = || self.tokenizer.id_to_token(id).unwrap_or_default();
        let Some(anchor) = &self.anchor else { return Ok(spelling()) };
        let text = self.decode(&[anchor.id, id], false)?;
        Ok(text.strip_prefix(&anchor.text).map_or_else(spelling, str::to_string))
    }

    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }
}

/// The tokens that transformers adds to those of `tokenizer.json`: the config's own where their flags differ, then named
/// and extra ones that are not yet added tokens.
fn missing_tokens(tokenizer: &Tokenizer, settings: &Settings) -> Vec<AddedToken> {
    let present = tokenizer.get_added_tokens_decoder();
    let named: HashSet<&str> = settings.named_tokens.iter().map(|(_, text)| text.as_str()).collect();
    let mut missing: Vec<AddedToken> = Vec::new();
    for token in &settings.added_tokens {
        if !present.values().any(|known| known == token) {
            let special = token.special || named.contains(token.content.as_str());
            missing.push(token.clone().special(special));
        }
    }
    let texts = settings.named_tokens.iter().map(|(_, text)| text).chain(&settings.extra_special_tokens);
    for text in texts {
        let known = present.values().chain(&missing).any(|token| token.content == *text);
        if !known {
            missing.push(AddedToken::from(text.as_str(), true));
        }
    }
    missing
}

fn find_anchor(tokenizer: &Tokenizer) -> Option<Anchor> {
    const MAX_CANDIDATES: u32 = 1024;
    (0..MAX_CANDIDATES).find_map(|id| {
        let text = tokenizer.decode(&[id], false).ok()?;
        let stable = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_graphic())
            && tokenizer.decode(&[id, id], false).ok()? == text.repeat(2);
        stable.then_some(Anchor { id, text })
    })
}
