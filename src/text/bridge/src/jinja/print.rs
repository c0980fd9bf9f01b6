//! Values as text: Python's str(), repr() and json.dumps(). What does not fit in memory or nests too deeply is an error.

use std::borrow::Cow;
use std::sync::LazyLock;

use minijinja::value::{Value, ValueKind};
use minijinja::Error;
use regex::Regex;

use super::objects::{Lazy, Namespace};
use super::values::{fail, is_dict, is_tuple, items, pairs, type_name};

/// Bytes of one text, the whole output among them.
pub const LONGEST_TEXT: usize = 64 << 20;
const DEEPEST: usize = 200;

pub fn fits(bytes: usize) -> Result<(), Error> {
    if bytes > LONGEST_TEXT {
        return Err(fail(format!("a text of more than {} MiB", LONGEST_TEXT >> 20)));
    }
    Ok(())
}

/// str(value)
pub fn text(value: &Value) -> Result<Cow<'_, str>, Error> {
    match value.kind() {
        ValueKind::String => Ok(Cow::Borrowed(value.as_str().unwrap_or_default())),
        ValueKind::Undefined => Ok(Cow::Borrowed("")),
        _ => {
            let mut out = String::new();
            repr(value, &mut out, 0)?;
            Ok(Cow::Owned(out))
        }
    }
}

fn room(out: &str, depth: usize) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(fail(format!("lists and dicts nest deeper than {DEEPEST} levels")));
    }
    fits(out.len())
}

pub fn repr(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    room(out, depth)?;
    let dict = |entries: Vec<(Value, Value)>, out: &mut String| {
        out.push('{');
        for (i, (key, item)) in entries.iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            repr(key, out, depth + 1)?;
            out.push_str(": ");
            repr(item, out, depth + 1)?;
        }
        out.push('}');
        Ok::<(), Error>(())
    };
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Number if !value.is_integer() => out.push_str(&float(value)),
        ValueKind::String if value.is_safe() => {
            out.push_str("Markup(");
            quote(value.as_str().unwrap_or_default(), out);
            out.push(')');
        }
        ValueKind::String => quote(value.as_str().unwrap_or_default(), out),
        ValueKind::Iterable if Lazy::is_generator(value) => out.push_str("<generator object>"),
        ValueKind::Seq | ValueKind::Iterable => {
            let view = value.downcast_object_ref::<Lazy>();
            let (open, close) = match view {
                Some(view) => (format!("{}([", view.name), "])"),
                None if is_tuple(value) => ("(".into(), ")"),
                None => ("[".into(), "]"),
            };
            out.push_str(&open);
            let mut count = 0;
            for item in value.try_iter()? {
                out.push_str(if count > 0 { ", " } else { "" });
                repr(&item, out, depth + 1)?;
                count += 1;
            }
            out.push_str(if is_tuple(value) && count == 1 { ",)" } else { close });
        }
        ValueKind::Map if is_dict(value) => dict(pairs(value), out)?,
        ValueKind::Map => {
            // The library's own objects: a macro, or the variable `loop`.
            let part = |name: &str| value.get_attr(name);
            match part("name")?.as_str() {
                Some(name) => out.push_str(&format!("<Macro '{name}'>")),
                None => out.push_str(&format!("<LoopContext {}/{}>", part("index")?, part("length")?)),
            }
        }
        ValueKind::Plain => match value.downcast_object_ref::<Namespace>() {
            Some(namespace) => {
                out.push_str("<Namespace ");
                dict(namespace.entries(), out)?;
                out.push('>');
            }
            None => out.push_str("<function>"),
        },
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// The shortest digits that read back as the same number, the way repr() sets them.
fn float(value: &Value) -> String {
    let number = f64::try_from(value.clone()).unwrap_or(f64::NAN);
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    // Rust turns to exponents at the same magnitudes.
    let digits = format!("{number:?}");
    match digits.split_once('e') {
        Some((mantissa, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            format!("{mantissa}e{exponent:+03}")
        }
        None => digits,
    }
}

fn is_printable(c: char) -> bool {
    static OTHER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^[\p{C}\p{Z}]$").unwrap_or_else(|e| panic!("{e}")));
    if c.is_ascii() {
        (' '..='~').contains(&c)
    } else {
        !OTHER.is_match(c.encode_utf8(&mut [0; 4]))
    }
}

fn quote(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        let code = c as u32;
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            _ if code <= 0xFF => out.push_str(&format!("\\x{code:02x}")),
            _ if code <= 0xFFFF => out.push_str(&format!("\\u{code:04x}")),
            _ => out.push_str(&format!("\\U{code:08x}")),
        }
    }
    out.push(quote);
}

/// How json.dumps() is asked to write.
pub struct Style {
    pub ensure_ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

impl Style {
    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        let quoted = serde_json::Value::from(text).to_string();
        for c in quoted.chars() {
            if self.ensure_ascii && c > '~' {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            } else {
                out.push(c);
            }
        }
    }

    fn number(value: &Value) -> String {
        if value.is_integer() {
            return value.to_string();
        }
        match float(value).as_str() {
            "nan" => "NaN".into(),
            "inf" => "Infinity".into(),
            "-inf" => "-Infinity".into(),
            digits => digits.into(),
        }
    }

    fn scalar(value: &Value) -> Option<String> {
        match value.kind() {
            ValueKind::None => Some("null".into()),
            ValueKind::Bool => Some(if value.is_true() { "true" } else { "false" }.into()),
            ValueKind::Number => Some(Self::number(value)),
            _ => None,
        }
    }

    pub fn dump(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        room(out, depth)?;
        if let Some(text) = Self::scalar(value) {
            out.push_str(&text);
        } else if value.kind() == ValueKind::String {
            self.string(value.as_str().unwrap_or_default(), out);
        } else if value.kind() == ValueKind::Seq {
            let all = items(value)?;
            out.push('[');
            for (i, item) in all.iter().enumerate() {
                out.push_str(if i > 0 { &self.item_separator } else { "" });
                self.line(depth + 1, out);
                self.dump(item, depth + 1, out)?;
            }
            if !all.is_empty() {
                self.line(depth, out);
            }
            out.push(']');
        } else if is_dict(value) {
            let mut entries = pairs(value);
            if self.sort_keys {
                entries.sort_by(|a, b| a.0.cmp(&b.0));
            }
            out.push('{');
            for (i, (key, item)) in entries.iter().enumerate() {
                out.push_str(if i > 0 { &self.item_separator } else { "" });
                self.line(depth + 1, out);
                match (key.as_str(), Self::scalar(key)) {
                    (Some(text), _) => self.string(text, out),
                    (_, Some(text)) => self.string(&text, out),
                    _ => return Err(fail(format!("tojson: keys must be strings, not {}", type_name(key)))),
                }
                out.push_str(&self.key_separator);
                self.dump(item, depth + 1, out)?;
            }
            if !entries.is_empty() {
                self.line(depth, out);
            }
            out.push('}');
        } else {
            return Err(fail(format!("tojson: an object of type {} has no JSON form", type_name(value))));
        }
        Ok(())
    }
}
