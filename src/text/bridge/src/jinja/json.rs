//! JSON in, as Python's json.loads reads it, and out, as json.dumps writes it.

use std::rc::Rc;

use super::value::{Dict, Value, LONGEST_TEXT};
use super::{text, Error};

const DEEPEST: usize = 150;

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

pub fn parse(text: &str) -> Result<Value, Error> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip_spaces();
    if reader.at != text.len() {
        return reader.fail("nothing more");
    }
    Ok(value)
}

impl Reader<'_> {
    fn fail<T>(&self, wanted: &str) -> Result<T, Error> {
        Err(Error::new(format!("the variables are not JSON: expected {wanted} at byte {}", self.at)))
    }

    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, Error> {
        if depth > DEEPEST {
            return self.fail(&format!("at most {DEEPEST} levels"));
        }
        self.skip_spaces();
        match self.peek() {
            b'"' => Ok(Value::from(self.string()?)),
            b'[' => {
                self.at += 1;
                let mut items = vec![];
                self.skip_spaces();
                if self.take("]") {
                    return Ok(Value::list(items));
                }
                loop {
                    items.push(self.value(depth + 1)?);
                    self.skip_spaces();
                    if self.take("]") {
                        return Ok(Value::list(items));
                    }
                    if !self.take(",") {
                        return self.fail("',' or ']'");
                    }
                }
            }
            b'{' => {
                self.at += 1;
                let mut dict = Dict::default();
                self.skip_spaces();
                if self.take("}") {
                    return Ok(Value::Dict(Rc::new(dict)));
                }
                loop {
                    self.skip_spaces();
                    if self.peek() != b'"' {
                        return self.fail("a key in quotes");
                    }
                    let key = self.string()?;
                    self.skip_spaces();
                    if !self.take(":") {
                        return self.fail("':'");
                    }
                    dict.insert(Value::from(key), self.value(depth + 1)?)?;
                    self.skip_spaces();
                    if self.take("}") {
                        return Ok(Value::Dict(Rc::new(dict)));
                    }
                    if !self.take(",") {
                        return self.fail("',' or '}'");
                    }
                }
            }
            _ if self.take("true") => Ok(Value::Bool(true)),
            _ if self.take("false") => Ok(Value::Bool(false)),
            _ if self.take("null") => Ok(Value::None),
            _ if self.take("NaN") => Ok(Value::Float(f64::NAN)),
            _ if self.take("Infinity") => Ok(Value::Float(f64::INFINITY)),
            _ if self.take("-Infinity") => Ok(Value::Float(f64::NEG_INFINITY)),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Result<Value, Error> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut end = start + usize::from(self.peek() == b'-');
        let digits = |from: usize| from + bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let whole = digits(end);
        if whole == end || (bytes[end] == b'0' && whole > end + 1) {
            return self.fail("a value");
        }
        end = whole;
        let mut float = false;
        if bytes.get(end) == Some(&b'.') && digits(end + 1) > end + 1 {
            end = digits(end + 1);
            float = true;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let from = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if from <= bytes.len() && digits(from) > from {
                end = digits(from);
                float = true;
            }
        }
        let number = &self.text[start..end];
        let value = if float { None } else { number.parse::<i128>().ok().map(Value::Int) };
        let Some(value) = value.or_else(|| number.parse::<f64>().ok().map(Value::Float)) else {
            return self.fail("a number");
        };
        self.at = end;
        Ok(value)
    }

    fn string(&mut self) -> Result<String, Error> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(stop) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') else {
                return self.fail("the end of a string");
            };
            out.push_str(&rest[..stop]);
            self.at += stop;
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => self.escape(&mut out)?,
                _ => return self.fail("no control character in a string"),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), Error> {
        self.at += 1;
        let kind = self.peek();
        self.at += 1;
        out.push(match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                let mut code = first;
                if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with("\\u") {
                    let before = self.at;
                    self.at += 2;
                    let second = self.hex()?;
                    if (0xDC00..0xE000).contains(&second) {
                        code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                    } else {
                        self.at = before;
                    }
                }
                // Half of a surrogate pair has no place in UTF-8.
                char::from_u32(code).unwrap_or('\u{FFFD}')
            }
            _ => {
                self.at -= 1;
                return self.fail("an escape");
            }
        });
        Ok(())
    }

    fn hex(&mut self) -> Result<u32, Error> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|d| u32::from_str_radix(d, 16).ok()) else {
            return self.fail("four hexadecimal digits");
        };
        self.at += 4;
        Ok(code)
    }
}

pub struct Style {
    pub ensure_ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

pub fn dump(value: &Value, style: &Style) -> Result<String, Error> {
    let mut out = String::new();
    write(value, style, 0, &mut out)?;
    Ok(out)
}

fn line(style: &Style, depth: usize, out: &mut String) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(indent));
    }
}

fn write(value: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    if out.len() > LONGEST_TEXT {
        return Err(Error::new("tojson: the text is too long"));
    }
    match value {
        Value::None => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(i) => out.push_str(&i.to_string()),
        Value::Float(f) => out.push_str(&float(*f)),
        Value::Str(s) | Value::Markup(s) => string(s, style.ensure_ascii, out),
        Value::List(items) | Value::Tuple(items) | Value::Group(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(&style.item_separator);
                }
                line(style, depth + 1, out);
                write(item, style, depth + 1, out)?;
            }
            if !items.is_empty() {
                line(style, depth, out);
            }
            out.push(']');
        }
        Value::Dict(dict) => {
            let mut entries: Vec<&(Value, Value)> = dict.entries().iter().collect();
            if style.sort_keys {
                super::sequences::sort_by(&mut entries, |a, b| super::operators::less(&a.0, &b.0))?;
            }
            out.push('{');
            for (i, (key, item)) in entries.iter().enumerate() {
                if i > 0 {
                    out.push_str(&style.item_separator);
                }
                line(style, depth + 1, out);
                let key = match key {
                    Value::Str(s) | Value::Markup(s) => s.to_string(),
                    Value::None => "null".into(),
                    Value::Bool(b) => b.to_string(),
                    Value::Int(i) => i.to_string(),
                    Value::Float(f) => float(*f),
                    other => {
                        let kind = other.type_name();
                        return Err(Error::new(format!("tojson: keys must be strings or numbers, not {kind}")));
                    }
                };
                string(&key, style.ensure_ascii, out);
                out.push_str(&style.key_separator);
                write(item, style, depth + 1, out)?;
            }
            if dict.len() > 0 {
                line(style, depth, out);
            }
            out.push('}');
        }
        other => return Err(Error::new(format!("tojson: an object of type {} has no JSON form", other.type_name()))),
    }
    Ok(())
}

fn float(value: f64) -> String {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 {
            "Infinity".into()
        } else {
            "-Infinity".into()
        }
    } else {
        text::float_repr(value)
    }
}

fn string(text: &str, ensure_ascii: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if ensure_ascii && (c > '~') => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
