//! Python's spelling of strings and numbers, and its notions of letter case.

use std::sync::LazyLock;

use regex::Regex;

fn class(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"))
}

fn is(class: &Regex, c: char) -> bool {
    class.is_match(c.encode_utf8(&mut [0; 4]))
}

pub fn is_letter(c: char) -> bool {
    static LETTER: LazyLock<Regex> = LazyLock::new(|| class(r"^\p{L}$"));
    if c.is_ascii() {
        c.is_ascii_alphabetic()
    } else {
        is(&LETTER, c)
    }
}

pub fn is_decimal(c: char) -> bool {
    static DECIMAL: LazyLock<Regex> = LazyLock::new(|| class(r"^\p{Nd}$"));
    if c.is_ascii() {
        c.is_ascii_digit()
    } else {
        is(&DECIMAL, c)
    }
}

/// Decimal digits, and the superscript, circled and other digits that are not numbers of their own.
pub fn is_digit(c: char) -> bool {
    is_decimal(c)
        || matches!(c, '²' | '³' | '¹' | '⁰' | '⁴'..='⁹' | '₀'..='₉' | '①'..='⑨' | '⑴'..='⑼' | '⒈'..='⒐' | '⓪'
            | '⓵'..='⓽' | '⓿' | '❶'..='❾' | '➀'..='➈' | '➊'..='➒')
}

pub fn is_numeric(c: char) -> bool {
    c.is_numeric() || "一二三四五六七八九十百千万億兆零〇壹贰叁肆伍陆柒捌玖拾佰仟".contains(c)
}

pub fn is_printable(c: char) -> bool {
    static OTHER: LazyLock<Regex> = LazyLock::new(|| class(r"^[\p{C}\p{Z}]$"));
    if c.is_ascii() {
        (' '..='~').contains(&c)
    } else {
        !is(&OTHER, c)
    }
}

pub fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase() || title_case(c).is_some()
}

/// The letters whose title case is a letter of its own.
fn title_case(c: char) -> Option<char> {
    match c {
        'Ǆ'..='ǆ' => Some('ǅ'),
        'Ǉ'..='ǉ' => Some('ǈ'),
        'Ǌ'..='ǌ' => Some('ǋ'),
        'Ǳ'..='ǳ' => Some('ǲ'),
        _ => None,
    }
}

/// One character at the beginning of a word.
pub fn push_title(c: char, out: &mut String) {
    if let Some(title) = title_case(c) {
        out.push(title);
        return;
    }
    let mut upper = c.to_uppercase();
    out.extend(upper.next());
    upper.for_each(|c| out.extend(c.to_lowercase()));
}

pub fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            push_title(c, &mut out);
        }
        inside = is_cased(c);
    }
    out
}

pub fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let mut out = String::with_capacity(text.len());
    if let Some(first) = chars.next() {
        push_title(first, &mut out);
    }
    out.push_str(&chars.as_str().to_lowercase());
    out
}

pub fn swap_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_uppercase() {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
    }
    out
}

/// Where str.splitlines() cuts; `keep` leaves the ends on.
pub fn split_lines(text: &str, keep: bool) -> Vec<&str> {
    let ends = ['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}'];
    let mut lines = vec![];
    let mut rest = text;
    while let Some(at) = rest.find(ends) {
        let length = match rest[at..].chars().next() {
            Some('\r') if rest[at + 1..].starts_with('\n') => 2,
            Some(c) => c.len_utf8(),
            None => 0,
        };
        lines.push(&rest[..if keep { at + length } else { at }]);
        rest = &rest[at + length..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

pub fn repr(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let code = c as u32;
                out.push_str(&match code {
                    0..=0xFF => format!("\\x{code:02x}"),
                    0x100..=0xFFFF => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                });
            }
        }
    }
    out.push(quote);
}

/// The shortest digits that read back as the same number, the way repr() sets them.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Python's `&#39;` kind of escaping, as MarkupSafe does it.
pub fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}
