//! A checkpoint's chat template in the environment that Hugging Face gives it.
// SPDX-License-Identifier: Apache-2.0

use std::fmt::Write;

use chrono::Local;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};

use crate::python;

const NAME: &str = "chat template";

/// Steps of one rendering: an instruction is one, and so are 64 bytes of text made. A real template needs a few dozen and a
/// few a message, and touches each byte a few times; one that loops, doubles its text or nests values without end stops
/// before it takes noticeable time, memory or stack.
const BASE_FUEL: u64 = 50_000;
const FUEL_OF_A_MESSAGE: u64 = 500;
const BYTES_OF_A_FUEL: u64 = 4;

/// Macros inside macros; those of real templates nest below ten deep.
const MAX_RECURSION: usize = 64;

/// Role, content and whatever else a message carries, in the caller's order.
pub type Message<'a> = Vec<(&'a str, &'a str)>;

pub struct ChatTemplate {
    environment: Environment<'static>,
    named_tokens: Vec<(String, String)>,
}

impl ChatTemplate {
    pub fn compile(source: &str, named_tokens: &[(String, String)]) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(describe)?;
        environment.set_syntax(syntax);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_recursion_limit(MAX_RECURSION);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(|out, _, value| {
            python::write_str(out, value).map_err(|_| Error::new(ErrorKind::WriteFailure, "a value cannot be written"))
        });
        // Their work is not counted, and no chat template needs them.
        environment.remove_filter("pprint");
        environment.remove_global("debug");
        environment.add_filter("tojson", python::to_json);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_template_owned(NAME, without_generation_tags(&unix_lines(source))).map_err(describe)?;
        Ok(Self { environment, named_tokens: named_tokens.to_vec() })
    }

    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String, String> {
        let mut variables: Vec<(&str, Value)> =
            self.named_tokens.iter().map(|(name, text)| (name.as_str(), Value::from(text.as_str()))).collect();
        let as_map = |message: &Message| Value::from_pairs(message.iter().copied());
        variables.push(("messages", messages.iter().map(as_map).collect::<Vec<_>>().into()));
        variables.push(("add_generation_prompt", add_generation_prompt.into()));
        // Defined though empty: that is what a template sees in transformers when none are given.
        variables.push(("tools", ().into()));
        variables.push(("documents", ().into()));
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel_of(messages)));
        let template = environment.get_template(NAME).map_err(describe)?;
        template.render(Value::from_pairs(variables)).map_err(describe)
    }
}

fn fuel_of(messages: &[Message]) -> u64 {
    let bytes: usize = messages.iter().flatten().map(|(name, text)| name.len() + text.len()).sum();
    BASE_FUEL + FUEL_OF_A_MESSAGE * messages.len() as u64 + bytes as u64 / BYTES_OF_A_FUEL
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn strftime_now(format: &str) -> Result<String, Error> {
    let mut text = String::new();
    write!(text, "{}", Local::now().naive_local().format(format)).map_err(|_| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now: `{format}` is not a date format"))
    })?;
    Ok(text)
}

/// Jinja knows one kind of line end.
fn unix_lines(source: &str) -> String {
    source.replace("\r\n", "\n").replace('\r', "\n")
}

/// `{% generation %}` marks what the assistant said, for training. It prints its body, in a scope of its own, as `with` does.
fn without_generation_tags(source: &str) -> String {
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        result.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let inner = &tag[..end];
        let word = inner.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        if word == "generation" || word == "endgeneration" {
            let plain = if word == "generation" { "with" } else { "endwith" };
            result.push_str(&inner.replace(word, plain));
            rest = &tag[end..];
        }
    }
    result.push_str(rest);
    result
}

fn describe(error: Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        return "the chat template did not end within the steps that a chat of this length may take".to_string();
    }
    error.to_string()
}
