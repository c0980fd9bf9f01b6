//! Python's str methods that the library's `pycompat` has not, or has otherwise.

use minijinja::formatting::FormatStyle;
use minijinja::value::{Tuple, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::operators::{formatted, iterated, number, optional_integer, Number};
use super::print::fits;
use super::values::{bound, fail, is_space, items, pairs, short, type_name, LONGEST_LIST};

type Outcome = Result<Value, Error>;

pub fn wanted<'v>(value: &'v Option<Value>, what: &str) -> Result<&'v str, Error> {
    let value = value.as_ref().unwrap_or(&Value::UNDEFINED);
    match value.as_str() {
        Some(text) => Ok(text),
        None => Err(fail(format!("{what}: a string is needed, not {}", type_name(value)))),
    }
}

fn given(value: Option<Value>) -> Option<Value> {
    value.filter(|v| !v.is_none())
}

/// UnknownMethod where the library may go on.
pub fn method(s: &str, name: &str, args: &[Value]) -> Outcome {
    let text = |text: String| Ok(Value::from(text));
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let [set] = bound(name, args, ["chars"], 0)?;
            let set = given(set);
            let set: Option<Vec<char>> =
                set.as_ref().map(|_| wanted(&set, name).map(|s| s.chars().collect())).transpose()?;
            let goes = |c: char| set.as_ref().map_or_else(|| is_space(c), |set| set.contains(&c));
            let s = if name == "rstrip" { s } else { s.trim_start_matches(goes) };
            Ok(Value::from(if name == "lstrip" { s } else { s.trim_end_matches(goes) }))
        }
        "split" | "rsplit" => split(s, name, args),
        "splitlines" => {
            let [keep] = bound(name, args, ["keepends"], 0)?;
            let lines = lines(s, keep.is_some_and(|k| k.is_true()));
            short(lines.len())?;
            Ok(lines.into_iter().collect())
        }
        "startswith" | "endswith" | "find" | "rfind" | "index" | "rindex" | "count" => search(s, name, args),
        "replace" => {
            let [old, new, count] = bound(name, args, ["old", "new", "count"], 2)?;
            let count = optional_integer(count.as_ref(), "the count")?.unwrap_or(-1);
            text(replaced(s, wanted(&old, name)?, wanted(&new, name)?, count)?)
        }
        "join" => {
            let [all] = bound(name, args, ["iterable"], 1)?;
            let mut joined = String::new();
            for (i, item) in iterated(&all.unwrap_or_default())?.into_iter().enumerate() {
                joined.push_str(if i > 0 { s } else { "" });
                joined.push_str(wanted(&Some(item), "join")?);
                fits(joined.len())?;
            }
            text(joined)
        }
        "format" => text(formatted(FormatStyle::StrFormat, s, args)?),
        "partition" | "rpartition" => {
            let [separator] = bound(name, args, ["sep"], 1)?;
            let separator = wanted(&separator, name)?;
            let cut = match name {
                _ if separator.is_empty() => return Err(fail(format!("{name}: empty separator"))),
                "partition" => s.split_once(separator),
                _ => s.rsplit_once(separator),
            };
            let parts = match cut {
                Some((before, after)) => [before, separator, after],
                None if name == "partition" => [s, "", ""],
                None => ["", "", s],
            };
            Ok(Value::from(Tuple::from(parts.map(Value::from))))
        }
        "removeprefix" | "removesuffix" => {
            let [part] = bound(name, args, ["affix"], 1)?;
            let part = wanted(&part, name)?;
            let cut = if name == "removeprefix" { s.strip_prefix(part) } else { s.strip_suffix(part) };
            Ok(Value::from(cut.unwrap_or(s)))
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let [width, fill] = bound(name, args, ["width", "fillchar"], 1)?;
            let width = optional_integer(width.as_ref(), "the width")?.unwrap_or(0);
            let fill = fill.map_or(Ok(" ".into()), |f| wanted(&Some(f), name).map(str::to_string))?;
            text(padded(s, name, width, &fill)?)
        }
        "title" => text(title(s)),
        "istitle" => Ok(Value::from(title(s) == s && s.chars().any(char::is_uppercase))),
        "casefold" => text(s.to_lowercase().replace('ß', "ss").replace('ς', "σ")),
        "swapcase" => text(s.chars().map(|c| if c.is_uppercase() { lower(c) } else { upper(c) }).collect()),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn lower(c: char) -> String {
    c.to_lowercase().collect()
}

fn upper(c: char) -> String {
    c.to_uppercase().collect()
}

/// str.title(), where every run of letters is a word; the filter `title` has another idea of words.
fn title(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut inside = false;
    for c in s.chars() {
        out.push_str(&if inside { lower(c) } else { upper(c) });
        inside = c.is_lowercase() || c.is_uppercase();
    }
    out
}

/// Where str.splitlines() cuts; `keep` leaves the ends on.
pub fn lines(text: &str, keep: bool) -> Vec<&str> {
    let ends = ['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}'];
    let mut found = vec![];
    let mut rest = text;
    while let Some(at) = rest.find(ends) {
        let end = if rest[at..].starts_with("\r\n") { 2 } else { rest[at..].chars().next().map_or(0, char::len_utf8) };
        found.push(&rest[..if keep { at + end } else { at }]);
        rest = &rest[at + end..];
    }
    if !rest.is_empty() {
        found.push(rest);
    }
    found
}

pub fn replaced(s: &str, old: &str, new: &str, count: i128) -> Result<String, Error> {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let occurrences = if old.is_empty() { s.chars().count() + 1 } else { s.matches(old).count() }.min(most);
    fits(s.len().saturating_add(occurrences.saturating_mul(new.len())))?;
    Ok(s.replacen(old, new, occurrences))
}

pub fn padded(s: &str, name: &str, width: i128, fill: &str) -> Result<String, Error> {
    if fill.chars().count() != 1 {
        return Err(fail(format!("{name}: the fill must be one character")));
    }
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    let missing = width.saturating_sub(s.chars().count());
    fits(missing.saturating_mul(fill.len()))?;
    Ok(match name {
        "ljust" => s.to_string() + &fill.repeat(missing),
        "rjust" => fill.repeat(missing) + s,
        "zfill" => {
            let sign = usize::from(s.starts_with(['+', '-']));
            format!("{}{}{}", &s[..sign], "0".repeat(missing), &s[sign..])
        }
        _ => {
            // Python puts the odd one to the left of a text of odd width.
            let left = missing / 2 + (missing & width & 1);
            fill.repeat(left) + s + &fill.repeat(missing - left)
        }
    })
}

fn split(s: &str, name: &str, args: &[Value]) -> Outcome {
    let [separator, most] = bound(name, args, ["sep", "maxsplit"], 0)?;
    let most = optional_integer(most.as_ref(), "maxsplit")?;
    let limit = most.and_then(|m| usize::try_from(m).ok()).map_or(usize::MAX, |m| m.saturating_add(1));
    let separator = given(separator);
    let mut parts: Vec<&str> = vec![];
    if separator.is_some() {
        match wanted(&separator, name)? {
            "" => return Err(fail(format!("{name}: empty separator"))),
            separator if name == "split" => parts.extend(s.splitn(limit, separator).take(LONGEST_LIST + 1)),
            separator => parts.extend(s.rsplitn(limit, separator).take(LONGEST_LIST + 1)),
        }
    } else {
        // Runs of white space; what the limit leaves over keeps those inside it.
        let trimmed = |s: &'_ str| match name {
            "split" => s.len() - s.trim_start_matches(is_space).len(),
            _ => s.trim_end_matches(is_space).len(),
        };
        let mut rest = s;
        loop {
            short(parts.len())?;
            let at = trimmed(rest);
            rest = if name == "split" { &rest[at..] } else { &rest[..at] };
            let cut = if name == "split" { rest.split_once(is_space) } else { rest.rsplit_once(is_space) };
            match cut {
                _ if rest.is_empty() => break,
                Some((before, after)) if parts.len() + 1 < limit => {
                    let (part, more) = if name == "split" { (before, after) } else { (after, before) };
                    parts.push(part);
                    rest = more;
                }
                _ => {
                    parts.push(rest);
                    break;
                }
            }
        }
    }
    short(parts.len())?;
    if name == "rsplit" {
        parts.reverse();
    }
    Ok(parts.into_iter().collect())
}

/// Those methods that look for a part between two indices.
fn search(s: &str, name: &str, args: &[Value]) -> Outcome {
    let [part, start, stop] = bound(name, args, ["sub", "start", "end"], 1)?;
    let (mut first, mut last) = (0, s.len());
    let mut beyond = false;
    if start.is_some() || stop.is_some() {
        let length = s.chars().count() as i128;
        let place = |value: &Option<Value>, absent: i128| {
            let index = optional_integer(value.as_ref(), "the index")?.unwrap_or(absent);
            Ok::<i128, Error>(if index < 0 { (index + length).max(0) } else { index })
        };
        let (from, to) = (place(&start, 0)?, place(&stop, length)?.min(length));
        let at = |i: i128| s.char_indices().nth(i as usize).map_or(s.len(), |(at, _)| at);
        beyond = from > length || from > to;
        (first, last) = (at(from), at(to));
    }
    let within = if beyond { None } else { Some(&s[first..last]) };
    if name.ends_with("with") {
        let hit = |part: &str| {
            within.is_some_and(|w| if name == "endswith" { w.ends_with(part) } else { w.starts_with(part) })
        };
        return match &part {
            Some(any) if any.is_tuple() => {
                let mut found = false;
                for one in items(any)? {
                    found |= hit(wanted(&Some(one), name)?);
                }
                Ok(Value::from(found))
            }
            _ => Ok(Value::from(hit(wanted(&part, name)?))),
        };
    }
    let part = wanted(&part, name)?;
    if name == "count" {
        let count = |w: &str| if part.is_empty() { w.chars().count() + 1 } else { w.matches(part).count() };
        return Ok(Value::from(within.map_or(0, count)));
    }
    match within.and_then(|w| if name.starts_with('r') { w.rfind(part) } else { w.find(part) }) {
        Some(at) => Ok(Value::from(s[..first + at].chars().count())),
        None if name.ends_with("find") => Ok(Value::from(-1)),
        None => Err(fail(format!("{name}: substring not found"))),
    }
}

pub fn of_number(value: &Value, name: &str, args: &[Value]) -> Outcome {
    bound::<0>(name, args, [], 0)?;
    match (number(value), name) {
        (Some(Number::Int(i)), "bit_length") => Ok(Value::from(128 - i.unsigned_abs().leading_zeros())),
        (Some(Number::Float(f)), "is_integer") => Ok(Value::from(f.fract() == 0.0)),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// Methods of lists, tuples and dicts; the sandbox forbids those that change them.
pub fn of_container(value: &Value, name: &str, args: &[Value]) -> Outcome {
    if value.kind() == ValueKind::Map {
        let view = |name, items| {
            bound::<0>(name, args, [], 0)?;
            Ok(super::objects::Lazy::view(name, items))
        };
        return match name {
            "keys" => view("dict_keys", pairs(value).into_iter().map(|p| p.0).collect()),
            "values" => view("dict_values", pairs(value).into_iter().map(|p| p.1).collect()),
            "items" => view("dict_items", pairs(value).into_iter().map(|(k, v)| Tuple::from([k, v]).into()).collect()),
            "get" => {
                let [key, default] = bound(name, args, ["key", "default"], 1)?;
                let found = super::operators::item(value, super::values::hashable(&key.unwrap_or_default())?)?;
                Ok(if found.is_undefined() { default.unwrap_or_else(|| Value::from(())) } else { found })
            }
            "copy" => bound::<0>(name, args, [], 0).map(|_| value.clone()),
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        };
    }
    match name {
        "copy" => bound::<0>(name, args, [], 0).map(|_| value.clone()),
        "index" | "count" => {
            let [wanted] = bound(name, args, ["value"], 1)?;
            let (wanted, all) = (wanted.unwrap_or_default(), items(value)?);
            match all.iter().position(|item| *item == wanted) {
                _ if name == "count" => Ok(Value::from(all.iter().filter(|item| **item == wanted).count())),
                Some(at) => Ok(Value::from(at)),
                None => Err(fail("index: the value is not in the list")),
            }
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}
