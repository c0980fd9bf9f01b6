//! Python's two ways to format: "%s" % value and "{}".format(value), with the numbers behind them.

use std::rc::Rc;

use super::value::Value;
use super::{is_space, methods, operators, text, Error};

type Outcome<T> = Result<T, Error>;

/// A width or precision beyond this is a mistake or an attack.
const WIDEST: usize = 1_000_000;

pub fn parse_int(text: &str, base: i128) -> Option<i128> {
    let text = text.trim_matches(is_space);
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (if text.starts_with('-') { -1 } else { 1 }, rest),
        None => (1, text),
    };
    let lower = digits.to_lowercase();
    let (prefix, radix) = match lower.get(..2) {
        Some("0x") if base == 16 || base == 0 => (2, 16),
        Some("0o") if base == 8 || base == 0 => (2, 8),
        Some("0b") if base == 2 || base == 0 => (2, 2),
        _ if base == 0 => (0, 10),
        _ => (0, u32::try_from(base).ok().filter(|b| (2..=36).contains(b))?),
    };
    let digits = &lower[prefix..];
    let bare = digits.replace('_', "");
    let tidy = !digits.ends_with('_') && !digits.contains("__") && (prefix > 0 || !digits.starts_with('_'));
    if bare.is_empty() || !tidy || bare.starts_with(['+', '-']) {
        return None;
    }
    // Digits of other scripts count for what they are.
    let ascii: Option<String> = bare.chars().map(|c| if c.is_ascii() { Some(c) } else { decimal_value(c) }).collect();
    i128::from_str_radix(&ascii?, radix).ok().map(|v| v * sign)
}

fn decimal_value(c: char) -> Option<char> {
    if !text::is_decimal(c) {
        return None;
    }
    // Decimal digits stand in runs of ten, each beginning at a multiple of 16 or 6 past it.
    let mut zero = c as u32;
    while c as u32 - zero < 9 && char::from_u32(zero - 1).is_some_and(text::is_decimal) {
        zero -= 1;
    }
    char::from_digit((c as u32 - zero) % 10, 10)
}

pub fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    let lower = text.to_lowercase();
    let unsigned = lower.strip_prefix(['-', '+']).unwrap_or(&lower);
    let named = matches!(unsigned, "inf" | "infinity" | "nan");
    let digits = unsigned.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'+' | b'-' | b'_'));
    if !named
        && (!digits || unsigned.starts_with(['+', '-', '_']) || unsigned.ends_with('_') || unsigned.contains("__"))
    {
        return None;
    }
    lower.replace('_', "").parse().ok()
}

/// Python's round() to a number of decimals: exact, halves to even.
pub fn round_float(value: f64, precision: i128) -> f64 {
    if !value.is_finite() || precision > 330 {
        return value;
    }
    if precision < -310 {
        return 0f64.copysign(value);
    }
    if precision >= 0 {
        return format!("{value:.*}", precision as usize).parse().unwrap_or(value);
    }
    let scale = 10f64.powi(-precision as i32);
    let scaled = value / scale;
    let mut whole = scaled.round();
    if (scaled - scaled.trunc()).abs() == 0.5 {
        whole = 2.0 * (scaled / 2.0).round();
    }
    whole * scale
}

pub fn round_int(value: i128, precision: i128) -> i128 {
    let Some(scale) = u32::try_from(-precision).ok().and_then(|p| 10i128.checked_pow(p)) else { return 0 };
    let (quotient, remainder) = (value.div_euclid(scale), value.rem_euclid(scale));
    let up = remainder * 2 > scale || (remainder * 2 == scale && quotient % 2 != 0);
    (quotient + i128::from(up)).saturating_mul(scale)
}

pub fn file_size(bytes: f64, binary: bool) -> String {
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    let units = if binary {
        ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]
    } else {
        ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]
    };
    if bytes == 1.0 {
        return "1 Byte".into();
    }
    if bytes < base {
        return format!("{} Bytes", bytes as i64);
    }
    for (i, unit) in units.iter().enumerate() {
        let next = base.powi(i as i32 + 2);
        if bytes < next || i + 1 == units.len() {
            return format!("{:.1} {unit}", base * bytes / next);
        }
    }
    String::new()
}

/// How a number or a string is to be set, in either notation.
#[derive(Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    zero: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: char,
}

impl Spec {
    fn pad(&self, sign: &str, body: String, align: char) -> Outcome<String> {
        let length = sign.chars().count() + body.chars().count();
        let missing = self.width.saturating_sub(length);
        let fill = self.fill.unwrap_or(' ');
        let run = |n: usize| std::iter::repeat_n(fill, n).collect::<String>();
        Ok(match self.align.unwrap_or(align) {
            '=' => format!("{sign}{}{body}", run(missing)),
            '<' => format!("{sign}{body}{}", run(missing)),
            '^' => format!("{}{sign}{body}{}", run(missing / 2), run(missing - missing / 2)),
            _ => format!("{}{sign}{body}", run(missing)),
        })
    }

    fn text(&self, text: &str) -> Outcome<String> {
        let cut: String = match self.precision {
            Some(p) => text.chars().take(p).collect(),
            None => text.to_string(),
        };
        self.pad("", cut, '<')
    }

    fn int(&self, value: i128) -> Outcome<String> {
        let magnitude = value.unsigned_abs();
        let (prefix, mut digits) = match self.kind {
            'x' => ("0x", format!("{magnitude:x}")),
            'X' => ("0X", format!("{magnitude:X}")),
            'o' => ("0o", format!("{magnitude:o}")),
            'b' => ("0b", format!("{magnitude:b}")),
            _ => ("", magnitude.to_string()),
        };
        if let Some(group) = self.grouping {
            digits = grouped(&digits, group, if prefix.is_empty() { 3 } else { 4 });
        }
        let prefix = if self.alternate { prefix } else { "" };
        self.pad(&format!("{}{prefix}", self.sign_of(value < 0)), digits, '>')
    }

    fn sign_of(&self, negative: bool) -> &'static str {
        match (negative, self.sign) {
            (true, _) => "-",
            (_, Some('+')) => "+",
            (_, Some(' ')) => " ",
            _ => "",
        }
    }

    fn float(&self, value: f64) -> Outcome<String> {
        let negative = value.is_sign_negative() && !value.is_nan();
        let magnitude = value.abs();
        let mut body = if magnitude.is_nan() {
            "nan".to_string()
        } else if magnitude.is_infinite() {
            "inf".to_string()
        } else {
            let precision = self.precision.unwrap_or(6);
            match self.kind {
                'f' | 'F' => format!("{magnitude:.precision$}"),
                '%' => format!("{:.precision$}", magnitude * 100.0),
                'e' | 'E' => exponential(magnitude, precision),
                'g' | 'G' => general(magnitude, precision, self.alternate),
                // No type: like repr, or with a precision like g that keeps a decimal.
                _ => match self.precision {
                    None => text::float_repr(magnitude),
                    Some(p) => {
                        let set = general(magnitude, p, false);
                        if set.contains(['.', 'e']) {
                            set
                        } else {
                            set + ".0"
                        }
                    }
                },
            }
        };
        if let Some(group) = self.grouping {
            let end = body.find(['.', 'e']).unwrap_or(body.len());
            body = grouped(&body[..end], group, 3) + &body[end..];
        }
        if self.kind == '%' {
            body.push('%');
        }
        if self.kind.is_ascii_uppercase() {
            body = body.to_uppercase();
        }
        self.pad(self.sign_of(negative), body, '>')
    }
}

fn grouped(digits: &str, separator: char, size: usize) -> String {
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % size == 0 {
            out.push(separator);
        }
        out.push(c);
    }
    out
}

fn exponential(value: f64, precision: usize) -> String {
    let set = format!("{value:.precision$e}");
    let (digits, exponent) = set.split_once('e').unwrap_or((&set, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn general(value: f64, precision: usize, alternate: bool) -> String {
    let precision = precision.max(1);
    let set = format!("{value:.*e}", precision - 1);
    let exponent: i32 = set.split_once('e').and_then(|p| p.1.parse().ok()).unwrap_or(0);
    let trimmed = |text: &str| {
        if alternate || !text.contains('.') {
            return text.to_string();
        }
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    };
    if exponent < -4 || exponent >= precision as i32 {
        let set = exponential(value, precision - 1);
        let (digits, rest) = set.split_once('e').unwrap_or((&set, "+00"));
        return format!("{}e{rest}", trimmed(digits));
    }
    trimmed(&format!("{value:.*}", (precision as i32 - 1 - exponent).max(0) as usize))
}

fn repr(value: &Value) -> String {
    let mut out = String::new();
    value.repr(&mut out);
    out
}

/// text % arguments
pub fn percent(text: &Value, arguments: &Value) -> Outcome<Value> {
    let source: Vec<char> = text.as_str().unwrap_or_default().chars().collect();
    let tuple: Option<&[Value]> = match arguments {
        Value::Tuple(items) | Value::Group(items) => Some(items),
        _ => None,
    };
    let single = [arguments.clone()];
    let given: &[Value] = tuple.unwrap_or(&single);
    let mut used = 0;
    let mut by_name = false;
    let mut out = String::new();
    let mut at = 0;
    while at < source.len() {
        let c = source[at];
        at += 1;
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = Spec::default();
        let mut named = None;
        if source.get(at) == Some(&'(') {
            let start = at + 1;
            let mut open = 1;
            at = start;
            while at < source.len() && open > 0 {
                open += match source[at] {
                    '(' => 1,
                    ')' => -1,
                    _ => 0,
                };
                at += 1;
            }
            if open > 0 {
                return Err(Error::new("incomplete format key"));
            }
            let key: String = source[start..at - 1].iter().collect();
            let Value::Dict(dict) = arguments else { return Err(Error::new("format requires a mapping")) };
            let Some(value) = dict.get_str(&key) else { return Err(Error::new(format!("format: no key '{key}'"))) };
            named = Some(value.clone());
            by_name = true;
        }
        while let Some(flag) = source.get(at).filter(|c| "-+ #0".contains(**c)) {
            match flag {
                '-' => spec.align = Some('<'),
                '+' => spec.sign = Some('+'),
                ' ' => spec.sign = spec.sign.or(Some(' ')),
                '#' => spec.alternate = true,
                _ => spec.zero = true,
            }
            at += 1;
        }
        let mut next = || {
            let value = given.get(used).cloned();
            used += 1;
            value.ok_or_else(|| Error::new("not enough arguments for format string"))
        };
        let mut size = |at: &mut usize| -> Outcome<Option<i128>> {
            if source.get(*at) == Some(&'*') {
                *at += 1;
                let width = next()?.as_int().ok_or_else(|| Error::new("* wants an integer"))?;
                return Ok(Some(width.clamp(-(WIDEST as i128), WIDEST as i128)));
            }
            let digits: String = source[*at..].iter().take_while(|c| c.is_ascii_digit()).collect();
            *at += digits.len();
            if digits.is_empty() {
                return Ok(None);
            }
            digits
                .parse()
                .ok()
                .filter(|w| *w <= WIDEST as i128)
                .map(Some)
                .ok_or_else(|| Error::new("the width is too large"))
        };
        if let Some(width) = size(&mut at)? {
            spec.width = width.unsigned_abs() as usize;
            if width < 0 {
                spec.align = Some('<');
            }
        }
        if source.get(at) == Some(&'.') {
            at += 1;
            spec.precision = Some(size(&mut at)?.unwrap_or(0).max(0) as usize);
        }
        while source.get(at).is_some_and(|c| "hlL".contains(*c)) {
            at += 1;
        }
        let Some(kind) = source.get(at).copied() else { return Err(Error::new("incomplete format")) };
        at += 1;
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = match named {
            Some(value) => value,
            None => next()?,
        };
        if spec.zero && spec.align.is_none() && !"srac".contains(kind) {
            spec.fill = Some('0');
            spec.align = Some('=');
        }
        out.push_str(&percent_one(&value, spec, kind)?);
        operators::text_fits(out.len())?;
    }
    let unused = match arguments {
        Value::Tuple(_) | Value::Group(_) => used < given.len(),
        // Python takes whatever has items for a mapping.
        Value::Dict(_) | Value::List(_) | Value::Range(..) | Value::Undefined(_) => false,
        _ => used == 0 && !by_name,
    };
    if unused {
        return Err(Error::new("not all arguments converted during string formatting"));
    }
    Ok(if matches!(text, Value::Markup(_)) { Value::Markup(out.into()) } else { Value::from(out) })
}

fn percent_one(value: &Value, mut spec: Spec, kind: char) -> Outcome<String> {
    let wrong = |wanted: &str| Error::new(format!("%{kind} format: {wanted} is required, not {}", value.type_name()));
    spec.kind = kind;
    match kind {
        's' | 'r' | 'a' => {
            let text = if kind == 's' { value.to_text() } else { repr(value) };
            let right = spec.align.is_none();
            if right {
                spec.align = Some('>');
            }
            spec.text(&text)
        }
        'c' => match (value.as_str(), value.as_int()) {
            (Some(s), _) if s.chars().count() == 1 => spec.pad("", s.to_string(), '>'),
            (_, Some(code)) => match u32::try_from(code).ok().and_then(char::from_u32) {
                Some(c) => spec.pad("", c.to_string(), '>'),
                None => Err(Error::new("%c: no such character")),
            },
            _ => Err(wrong("a character")),
        },
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
            let int = match value {
                Value::Float(f) if "diu".contains(kind) && f.is_finite() && f.abs() < 1e38 => f.trunc() as i128,
                other => other.as_int().ok_or_else(|| wrong("a number"))?,
            };
            spec.int(int)
        }
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => spec.float(value.as_number().ok_or_else(|| wrong("a number"))?),
        other => Err(Error::new(format!("unsupported format character '{other}'"))),
    }
}

/// text.format(...)
pub fn braces(text: &str, positional: &[Value], named: &[(Rc<str>, Value)]) -> Outcome<String> {
    let mut automatic = 0;
    braces_at(text, positional, named, &mut automatic, 0)
}

fn braces_at(
    text: &str,
    positional: &[Value],
    named: &[(Rc<str>, Value)],
    automatic: &mut usize,
    depth: usize,
) -> Outcome<String> {
    if depth > 2 {
        return Err(Error::new("format: nested too deeply"));
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if rest.starts_with(brace) {
            out.push_str(brace);
            rest = &rest[1..];
            continue;
        }
        if brace == "}" {
            return Err(Error::new("single '}' encountered in format string"));
        }
        let mut open = 1;
        let end = rest.char_indices().find(|(_, c)| {
            open += match c {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            open == 0
        });
        let Some((end, _)) = end else { return Err(Error::new("expected '}' before end of string")) };
        let field = &rest[..end];
        rest = &rest[end + 1..];
        let name_end = field.find(['!', ':']).unwrap_or(field.len());
        let value = field_value(&field[..name_end], positional, named, automatic)?;
        let mut after = &field[name_end..];
        let mut converted = None;
        if let Some(conversion) = after.strip_prefix('!') {
            let kind = conversion.chars().next().unwrap_or(' ');
            converted = Some(match kind {
                's' => value.to_text(),
                'r' | 'a' => repr(&value),
                _ => return Err(Error::new("format: unknown conversion")),
            });
            after = &conversion[kind.len_utf8()..];
        }
        let layout = braces_at(after.strip_prefix(':').unwrap_or(after), positional, named, automatic, depth + 1)?;
        out.push_str(&match converted {
            Some(text) => formatted(&Value::from(text), &layout)?,
            None => formatted(&value, &layout)?,
        });
        operators::text_fits(out.len())?;
    }
    out.push_str(rest);
    Ok(out)
}

/// "0", "name", "0.attribute", "name[key]"
fn field_value(path: &str, positional: &[Value], named: &[(Rc<str>, Value)], automatic: &mut usize) -> Outcome<Value> {
    let first_end = path.find(['.', '[']).unwrap_or(path.len());
    let first = &path[..first_end];
    let by_index = |i: usize| {
        positional.get(i).cloned().ok_or_else(|| Error::new(format!("format: there is no positional argument {i}")))
    };
    let mut value = if first.is_empty() {
        *automatic += 1;
        by_index(*automatic - 1)?
    } else if let Ok(i) = first.parse::<usize>() {
        by_index(i)?
    } else {
        let found = named.iter().find(|n| &*n.0 == first);
        found.map(|n| n.1.clone()).ok_or_else(|| Error::new(format!("format: there is no argument '{first}'")))?
    };
    let mut rest = &path[first_end..];
    while !rest.is_empty() {
        if let Some(attribute) = rest.strip_prefix('.') {
            let end = attribute.find(['.', '[']).unwrap_or(attribute.len());
            value = methods::attribute(&value, &attribute[..end])?;
            rest = &attribute[end..];
        } else {
            let inner = &rest[1..];
            let Some(end) = inner.find(']') else { return Err(Error::new("format: ']' is missing")) };
            let key = inner[..end].parse::<i128>().map_or_else(|_| Value::from(&inner[..end]), Value::Int);
            value = methods::item(&value, &key)?;
            rest = &inner[end + 1..];
        }
    }
    Ok(value)
}

fn formatted(value: &Value, layout: &str) -> Outcome<String> {
    if layout.is_empty() {
        return Ok(value.to_text());
    }
    let chars: Vec<char> = layout.chars().collect();
    let mut spec = Spec::default();
    let mut at = 0;
    let aligns = |c: Option<&char>| c.is_some_and(|c| "<>=^".contains(*c));
    if aligns(chars.get(1)) {
        (spec.fill, spec.align) = (Some(chars[0]), Some(chars[1]));
        at = 2;
    } else if aligns(chars.first()) {
        spec.align = Some(chars[0]);
        at = 1;
    }
    if let Some(sign) = chars.get(at).filter(|c| "+- ".contains(**c)) {
        spec.sign = Some(*sign);
        at += 1;
    }
    if chars.get(at) == Some(&'#') {
        spec.alternate = true;
        at += 1;
    }
    if chars.get(at) == Some(&'0') {
        at += 1;
        spec.fill = spec.fill.or(Some('0'));
        spec.align = spec.align.or(if value.as_str().is_some() { Some('<') } else { Some('=') });
    }
    let number = |at: &mut usize| -> Outcome<Option<usize>> {
        let digits: String = chars[*at..].iter().take_while(|c| c.is_ascii_digit()).collect();
        *at += digits.len();
        if digits.is_empty() {
            return Ok(None);
        }
        digits.parse().ok().filter(|w| *w <= WIDEST).map(Some).ok_or_else(|| Error::new("the width is too large"))
    };
    spec.width = number(&mut at)?.unwrap_or(0);
    if let Some(group) = chars.get(at).filter(|c| ",_".contains(**c)) {
        spec.grouping = Some(*group);
        at += 1;
    }
    if chars.get(at) == Some(&'.') {
        at += 1;
        spec.precision = number(&mut at)?;
    }
    spec.kind = chars.get(at).copied().unwrap_or(' ');
    let unknown =
        || Error::new(format!("unknown format code '{layout}' for an object of type '{}'", value.type_name()));
    if at + 1 < chars.len() {
        return Err(unknown());
    }
    if let Some(text) = value.as_str() {
        return if " s".contains(spec.kind) { spec.text(text) } else { Err(unknown()) };
    }
    if let Value::Bool(_) = value {
        if spec.kind == ' ' {
            return spec.text(&value.to_text());
        }
    }
    match (value.as_int(), value.as_number()) {
        (Some(int), _) if " dxXob".contains(spec.kind) => spec.int(int),
        (Some(int), _) if spec.kind == 'n' => spec.int(int),
        (_, Some(float)) if " eEfFgGn%".contains(spec.kind) => spec.float(float),
        _ => Err(unknown()),
    }
}
