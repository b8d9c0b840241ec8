//! Values written as Python writes them: `str()` for a template's output, `json.dumps()` for its `tojson`.
// SPDX-License-Identifier: Apache-2.0

use std::fmt::{self, Write};
use std::io;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde_json::ser::Formatter;
use serde_json::Serializer;

/// Lists within lists; deeper ones are refused, since writing them takes stack.
const MAX_DEPTH: usize = 64;

/// `str(value)`.
pub fn write_str<W: Write>(out: &mut W, value: &Value) -> fmt::Result {
    match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::String => out.write_str(value.as_str().unwrap_or_default()),
        _ => write_repr(out, value, MAX_DEPTH),
    }
}

/// `repr(value)`.
fn write_repr<W: Write>(out: &mut W, value: &Value, depth: usize) -> fmt::Result {
    let inner = depth.checked_sub(1).ok_or(fmt::Error)?;
    match value.kind() {
        ValueKind::None => out.write_str("None"),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if !value.is_integer() => {
            out.write_str(&float(f64::try_from(value.clone()).unwrap_or(f64::NAN)))
        }
        ValueKind::String => write_quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            out.write_char('[')?;
            for (index, item) in value.try_iter().map_err(|_| fmt::Error)?.enumerate() {
                out.write_str(if index == 0 { "" } else { ", " })?;
                write_repr(out, &item, inner)?;
            }
            out.write_char(']')
        }
        ValueKind::Map => {
            out.write_char('{')?;
            for (index, key) in value.try_iter().map_err(|_| fmt::Error)?.enumerate() {
                out.write_str(if index == 0 { "" } else { ", " })?;
                write_repr(out, &key, inner)?;
                out.write_str(": ")?;
                write_repr(out, &value.get_item(&key).unwrap_or_default(), inner)?;
            }
            out.write_char('}')
        }
        _ => write!(out, "{value}"),
    }
}

fn write_quoted<W: Write>(out: &mut W, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for character in text.chars() {
        match character {
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            c if c == quote => write!(out, "\\{c}")?,
            c if c.is_control() => write!(out, "\\x{:02x}", c as u32)?,
            c => out.write_char(c)?,
        }
    }
    out.write_char(quote)
}

/// `repr(float)`: the shortest digits that read back, positional from 1e-4 to below 1e16.
fn float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_string();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let positional = format!("{value}");
    if positional.contains('.') {
        positional
    } else {
        positional + ".0"
    }
}

/// The `tojson` of Hugging Face's templates: `json.dumps` with these four keywords, nothing HTML-escaped.
pub fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let ensure_ascii: Option<bool> = options.get("ensure_ascii")?;
    let indent: Option<Value> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "tojson: nothing to write"));
    }
    let indent = match indent.filter(|indent| !indent.is_none()) {
        None => None,
        Some(indent) => match indent.as_str() {
            Some(text) => Some(text.to_string()),
            None => {
                Some(" ".repeat(indent.as_usize().filter(|&width| width <= 64).ok_or_else(|| bad_indent(&indent))?))
            }
        },
    };
    let item_end = if indent.is_some() { "," } else { ", " };
    let separators = separators.unwrap_or_else(|| vec![item_end.to_string(), ": ".to_string()]);
    let [item_separator, key_separator]: [String; 2] = separators
        .try_into()
        .map_err(|_| Error::new(ErrorKind::InvalidOperation, "tojson: separators are not two texts"))?;
    let format = PythonJson {
        ensure_ascii: ensure_ascii.unwrap_or(false),
        indent,
        item_separator,
        key_separator,
        depth: 0,
        empty: false,
    };
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, format);
    let written = if sort_keys.unwrap_or(false) {
        // serde_json's own maps are sorted.
        serde_json::to_value(value).and_then(|sorted| serde::Serialize::serialize(&sorted, &mut serializer))
    } else {
        serde::Serialize::serialize(value, &mut serializer)
    };
    written.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(Value::from(String::from_utf8_lossy(&bytes).into_owned()))
}

fn bad_indent(indent: &Value) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("tojson: indent {indent} is neither a text nor 0 to 64"))
}

struct PythonJson {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    depth: usize,
    empty: bool,
}

impl PythonJson {
    fn open<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(io::Error::other("lists within lists too deep"));
        }
        self.empty = true;
        writer.write_all(bracket)
    }

    fn item<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.item_separator.as_bytes())?;
        }
        self.empty = false;
        self.new_line(writer)
    }

    fn close<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !self.empty {
            self.new_line(writer)?;
        }
        self.empty = false;
        writer.write_all(bracket)
    }

    fn new_line<W: ?Sized + io::Write>(&self, writer: &mut W) -> io::Result<()> {
        let Some(indent) = &self.indent else { return Ok(()) };
        writer.write_all(b"\n")?;
        writer.write_all(indent.repeat(self.depth).as_bytes())
    }
}

impl Formatter for PythonJson {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.item(writer, first)
    }
    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }
    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }
    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.item(writer, first)
    }
    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key_separator.as_bytes())
    }
    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !self.ensure_ascii {
            return writer.write_all(fragment.as_bytes());
        }
        for unit in fragment.encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii() => writer.write_all(&[byte])?,
                _ => write!(writer, "\\u{unit:04x}")?,
            }
        }
        Ok(())
    }
}
