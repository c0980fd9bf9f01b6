//! Source to tokens, with Jinja2's whitespace control as transformers sets it: trim_blocks and lstrip_blocks on,
//! keep_trailing_newline off.

use super::{is_space, Error};

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Data(String),
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name(String),
    Str(String),
    Int(i128),
    Float(f64),
    Op(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub struct Token {
    pub kind: Kind,
    pub line: usize,
}

const OPERATORS: [&str; 25] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".",
    ":", "|", ",",
];

/// Tokens in one tag: an expression's tree is no higher than that.
const LONGEST_TAG: usize = 10_000;

/// All newlines become "\n" and one at the very end goes, as Jinja2 does before anything else.
fn normalized(source: &str) -> String {
    let mut text = source.replace("\r\n", "\n").replace('\r', "\n");
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

struct Lexer<'s> {
    text: &'s str,
    at: usize,
    line: usize,
    /// Whether the text right before `at` ended in a newline, or nothing stands before it.
    line_starting: bool,
    tokens: Vec<Token>,
}

pub fn tokenize(source: &str) -> Result<Vec<Token>, Error> {
    let text = normalized(source);
    let mut lexer = Lexer { text: &text, at: 0, line: 1, line_starting: true, tokens: vec![] };
    lexer.run()?;
    let line = lexer.line;
    lexer.tokens.push(Token { kind: Kind::End, line });
    Ok(lexer.tokens)
}

#[derive(Clone, Copy, PartialEq)]
enum Tag {
    Raw,
    Block,
    Comment,
    Variable,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::new(message).at(self.line))
    }

    fn push(&mut self, kind: Kind) {
        self.tokens.push(Token { kind, line: self.line });
    }

    fn advance(&mut self, bytes: usize) {
        let passed = &self.text[self.at..self.at + bytes];
        self.line += passed.bytes().filter(|b| *b == b'\n').count();
        if !passed.is_empty() {
            self.line_starting = passed.ends_with('\n');
        }
        self.at += bytes;
    }

    fn skip_spaces(&mut self) {
        let spaces = self.rest().find(|c| !is_space(c)).unwrap_or(self.rest().len());
        self.advance(spaces);
    }

    /// `{%- raw -%}` and its like at `text`: the length it takes.
    fn raw_tag(text: &str, name: &str) -> Option<usize> {
        let inner = text.strip_prefix("{%")?;
        let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
        let inner = inner.trim_start_matches(is_space).strip_prefix(name)?.trim_start_matches(is_space);
        let (after, sign) = match inner.as_bytes().first() {
            Some(b'-') => (inner[1..].strip_prefix("%}")?.trim_start_matches(is_space), '-'),
            Some(b'+') if name == "endraw" => (inner[1..].strip_prefix("%}")?, '+'),
            _ => (inner.strip_prefix("%}")?, ' '),
        };
        let after = if name == "endraw" && sign == ' ' { after.strip_prefix('\n').unwrap_or(after) } else { after };
        Some(text.len() - after.len())
    }

    fn next_tag(&self) -> Option<(usize, Tag)> {
        let bytes = self.text.as_bytes();
        let mut i = self.at;
        while i + 1 < bytes.len() {
            if bytes[i] == b'{' {
                match bytes[i + 1] {
                    b'%' if Self::raw_tag(&self.text[i..], "raw").is_some() => return Some((i, Tag::Raw)),
                    b'%' => return Some((i, Tag::Block)),
                    b'#' => return Some((i, Tag::Comment)),
                    b'{' => return Some((i, Tag::Variable)),
                    _ => {}
                }
            }
            i += 1;
        }
        None
    }

    /// The text before a tag, less what the tag's sign and lstrip_blocks take from its end.
    fn before<'t>(&self, text: &'t str, sign: Option<u8>, tag: Tag) -> &'t str {
        match sign {
            Some(b'-') => text.trim_end_matches(is_space),
            Some(b'+') => text,
            _ if tag != Tag::Variable => {
                let start = text.rfind('\n').map_or(0, |p| p + 1);
                if (start > 0 || self.line_starting) && text[start..].chars().all(is_space) {
                    &text[..start]
                } else {
                    text
                }
            }
            _ => text,
        }
    }

    fn data(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(Kind::Data(text.to_string()));
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        loop {
            let Some((start, tag)) = self.next_tag() else {
                let rest = self.rest();
                self.data(rest);
                self.advance(rest.len());
                return Ok(());
            };
            let text = &self.text[self.at..start];
            let sign = self.text.as_bytes().get(start + 2).copied().filter(|b| *b == b'-' || *b == b'+');
            let kept = self.before(text, sign, tag);
            self.data(kept);
            self.advance(text.len());
            let opening = 2 + usize::from(sign.is_some());
            match tag {
                Tag::Raw => self.raw()?,
                Tag::Comment => {
                    let Some(close) = self.rest()[opening..].find("#}") else {
                        return self.fail("a comment {# is not closed");
                    };
                    let inner = &self.rest()[opening..opening + close];
                    let sign = inner.as_bytes().last().copied();
                    self.advance(opening + close + 2);
                    self.after_block(sign);
                }
                Tag::Block => {
                    self.push(Kind::BlockBegin);
                    self.advance(opening);
                    self.inside("%}")?;
                }
                Tag::Variable => {
                    self.push(Kind::VariableBegin);
                    self.advance(opening);
                    self.inside("}}")?;
                }
            }
        }
    }

    /// What the end of a block or comment takes from the text after it.
    fn after_block(&mut self, sign: Option<u8>) {
        match sign {
            Some(b'-') => self.skip_spaces(),
            Some(b'+') => {}
            _ => {
                if self.rest().starts_with('\n') {
                    self.advance(1);
                }
            }
        }
    }

    fn raw(&mut self) -> Result<(), Error> {
        let opening = Self::raw_tag(self.rest(), "raw").unwrap_or(0);
        self.advance(opening);
        let start = self.at;
        let mut from = start;
        while let Some(found) = self.text[from..].find("{%") {
            let at = from + found;
            if let Some(length) = Self::raw_tag(&self.text[at..], "endraw") {
                let sign = self.text.as_bytes().get(at + 2).copied().filter(|b| *b == b'-' || *b == b'+');
                let kept = self.before(&self.text[start..at], sign, Tag::Raw);
                self.data(kept);
                self.advance(at - start + length);
                return Ok(());
            }
            from = at + 2;
        }
        self.fail("a raw block is not closed by endraw")
    }

    /// Tokens up to the closing delimiter.
    fn inside(&mut self, close: &str) -> Result<(), Error> {
        let mut open: Vec<char> = vec![];
        let before = self.tokens.len();
        loop {
            if self.tokens.len() - before > LONGEST_TAG {
                return self.fail(format!("a tag of more than {LONGEST_TAG} tokens"));
            }
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                return self.fail(format!("unexpected end of template, expected '{close}'"));
            };
            if open.is_empty() {
                let signed =
                    rest.len() > 1 && (first == '-' || (first == '+' && close == "%}")) && rest[1..].starts_with(close);
                if signed || rest.starts_with(close) {
                    self.push(if close == "%}" { Kind::BlockEnd } else { Kind::VariableEnd });
                    self.advance(2 + usize::from(signed));
                    match (signed, first) {
                        (true, '-') => self.skip_spaces(),
                        (false, _) if close == "%}" => self.after_block(None),
                        _ => {}
                    }
                    return Ok(());
                }
            }
            if is_space(first) {
                self.skip_spaces();
            } else if first.is_ascii_digit() {
                self.number()?;
            } else if first == '_' || first.is_alphanumeric() {
                let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                if first.is_numeric() {
                    return self.fail(format!("invalid character in identifier '{}'", &rest[..end]));
                }
                self.push(Kind::Name(rest[..end].to_string()));
                self.advance(end);
            } else if first == '\'' || first == '"' {
                self.string(first)?;
            } else {
                let Some(operator) = OPERATORS.iter().find(|o| rest.starts_with(**o)) else {
                    return self.fail(format!("unexpected character {first:?}"));
                };
                match first {
                    '(' | '[' | '{' => open.push(first),
                    ')' | ']' | '}' => {
                        let wanted = match first {
                            ')' => '(',
                            ']' => '[',
                            _ => '{',
                        };
                        if open.pop() != Some(wanted) {
                            return self.fail(format!("unexpected '{first}'"));
                        }
                    }
                    _ => {}
                }
                self.push(Kind::Op(operator));
                self.advance(operator.len());
            }
        }
    }

    fn number(&mut self) -> Result<(), Error> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let after_dot = self.at > 0 && self.text.as_bytes()[self.at - 1] == b'.';
        // Digits with single underscores between; the length they take.
        let run = |from: usize, digit: fn(&u8) -> bool| {
            let mut end = from;
            while end < bytes.len()
                && (digit(&bytes[end]) || (bytes[end] == b'_' && end > from && bytes.get(end + 1).is_some_and(digit)))
            {
                end += 1;
            }
            end
        };
        let decimal = |b: &u8| b.is_ascii_digit();
        if bytes[0] == b'0' && bytes.len() > 2 {
            let (base, digit): (u32, fn(&u8) -> bool) = match bytes[1] {
                b'x' | b'X' => (16, |b| b.is_ascii_hexdigit()),
                b'o' | b'O' => (8, |b| (b'0'..=b'7').contains(b)),
                b'b' | b'B' => (2, |b| (b'0'..=b'1').contains(b)),
                _ => (10, |b| b.is_ascii_digit()),
            };
            let from = 2 + usize::from(bytes[2] == b'_');
            let end = run(from, digit);
            if base != 10 && end > from {
                let digits = rest[2..end].replace('_', "");
                let Ok(value) = i128::from_str_radix(&digits, base) else {
                    return self.fail("integer is too large");
                };
                self.push(Kind::Int(value));
                self.advance(end);
                return Ok(());
            }
        }
        let whole = run(0, decimal);
        let mut end = whole;
        let mut float = false;
        if !after_dot {
            if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(decimal) {
                end = run(end + 1, decimal);
                float = true;
            }
            if matches!(bytes.get(end), Some(b'e' | b'E')) {
                let digits = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
                if bytes.get(digits).is_some_and(decimal) {
                    end = run(digits, decimal);
                    float = true;
                }
            }
        }
        if float {
            let value =
                rest[..end].replace('_', "").parse::<f64>().map_err(|e| Error::new(e.to_string()).at(self.line))?;
            self.push(Kind::Float(value));
        } else {
            // "0123" is 0 and then 123, which no grammar rule accepts: the parser says so.
            end = if bytes[0] == b'0' { run(0, |b| *b == b'0') } else { whole };
            let Ok(value) = rest[..end].replace('_', "").parse::<i128>() else {
                return self.fail("integer is too large");
            };
            self.push(Kind::Int(value));
        }
        self.advance(end);
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<(), Error> {
        let rest = self.rest();
        let mut escaped = false;
        let mut end = None;
        for (i, c) in rest.char_indices().skip(1) {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == quote {
                end = Some(i);
                break;
            }
        }
        let Some(end) = end else {
            return self.fail(format!("a string is not closed: {quote} expected"));
        };
        let value = unescape(&rest[1..end]).map_err(|e| e.at(self.line))?;
        self.push(Kind::Str(value));
        self.advance(end + 1);
        Ok(())
    }
}

/// Python's string escapes; an unknown one stays as it is.
fn unescape(text: &str) -> Result<String, Error> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some(kind) = chars.next() else { break };
        let hex = |count: usize, chars: &mut std::iter::Peekable<std::str::Chars>| {
            let mut value = 0;
            for _ in 0..count {
                let digit = chars.next().and_then(|d| d.to_digit(16));
                value =
                    value * 16 + digit.ok_or_else(|| Error::new(format!("truncated \\{kind} escape in a string")))?;
            }
            Ok::<u32, Error>(value)
        };
        match kind {
            '\n' => {}
            '\\' | '\'' | '"' => out.push(kind),
            'a' => out.push('\x07'),
            'b' => out.push('\x08'),
            'f' => out.push('\x0c'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'v' => out.push('\x0b'),
            '0'..='7' => {
                let mut value = kind.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    match chars.peek().and_then(|d| d.to_digit(8)) {
                        Some(digit) => value = value * 8 + digit,
                        None => break,
                    }
                    chars.next();
                }
                out.push(char::from_u32(value).unwrap_or('\u{FFFD}'));
            }
            'x' => out.push(char::from_u32(hex(2, &mut chars)?).unwrap_or('\u{FFFD}')),
            'u' | 'U' => {
                let value = hex(if kind == 'u' { 4 } else { 8 }, &mut chars)?;
                if value > 0x10FFFF {
                    return Err(Error::new("illegal Unicode character in a string"));
                }
                // Half of a surrogate pair has no place in UTF-8.
                out.push(char::from_u32(value).unwrap_or('\u{FFFD}'));
            }
            'N' => return Err(Error::new("\\N{...} in a string is not supported; write the character itself")),
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    Ok(out)
}
