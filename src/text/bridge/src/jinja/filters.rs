//! The filters that Jinja2 brings, and transformers' tojson.

use std::rc::Rc;

use super::eval::{iterated, Given, Machine};
use super::methods::{self, padded, replaced};
use super::sequences::{caseless, sort_by, Path};
use super::value::{Dict, Seq, Stream, Value};
use super::{format, is_space, json, operators, predicates, text, Error};

type Outcome = Result<Value, Error>;

const NAMES: [&str; 54] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "random",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

pub fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

fn int(value: Option<Value>, what: &str, absent: i128) -> Result<i128, Error> {
    match value {
        None => Ok(absent),
        Some(value) => value.as_int().ok_or_else(|| Error::new(format!("{what} must be an integer"))),
    }
}

fn flag(value: Option<Value>) -> bool {
    value.is_some_and(|v| v.truth())
}

fn text_of(value: Option<Value>, absent: &str) -> String {
    value.map_or_else(|| absent.to_string(), |v| v.to_text())
}

/// A filter that makes a string keeps the mark of a marked one.
fn marked(original: &Value, text: String) -> Value {
    if matches!(original, Value::Markup(_)) {
        Value::Markup(text.into())
    } else {
        Value::from(text)
    }
}

pub fn apply(machine: &mut Machine, name: &str, value: Value, given: Given) -> Outcome {
    machine.spend(1 + value.as_items().map_or(0, |i| i.len()) + value.as_str().map_or(0, |s| s.len() / 32))?;
    match name {
        "map" | "select" | "reject" | "selectattr" | "rejectattr" => Ok(lazily(chosen(machine, name, value, given))),
        "default" | "d" => {
            let [default, boolean] = given.bind(name, ["default_value", "boolean"], 0)?;
            let absent = value.is_undefined() || (flag(boolean) && !value.truth());
            Ok(if absent { default.unwrap_or_else(|| Value::from("")) } else { value })
        }
        "tojson" => tojson(&value, given),
        "format" => {
            if !given.positional.is_empty() && !given.keyword.is_empty() {
                return Err(Error::new("format: positional and keyword arguments cannot be mixed"));
            }
            let arguments = if given.keyword.is_empty() {
                Value::tuple(given.positional)
            } else {
                let mut dict = Dict::default();
                for (key, value) in given.keyword {
                    dict.insert(Value::Str(key), value)?;
                }
                Value::Dict(Rc::new(dict))
            };
            format::percent(&Value::from(value.to_text()), &arguments)
        }
        "upper" | "lower" | "title" | "capitalize" | "string" | "safe" | "escape" | "e" | "forceescape"
        | "wordcount" | "striptags" | "urlencode" => {
            given.bind::<0>(name, [], 0)?;
            if name == "urlencode" { urlencoded(&value) } else { Ok(of_text(name, value)) }
        }
        "trim" => {
            let [set] = given.bind(name, ["chars"], 0)?;
            let trimmed = value.to_text();
            let set: Option<Vec<char>> =
                set.filter(|s| !matches!(s, Value::None)).map(|s| s.to_text().chars().collect());
            let goes = |c: char| set.as_ref().map_or_else(|| is_space(c), |set| set.contains(&c));
            Ok(marked(&value, trimmed.trim_matches(goes).to_string()))
        }
        "replace" => {
            let [old, new, count] = given.bind(name, ["old", "new", "count"], 2)?;
            let count = match count {
                None | Some(Value::None) => -1,
                given => int(given, "replace: count", -1)?,
            };
            replaced(&value.to_text(), &text_of(old, ""), &text_of(new, ""), count).map(Value::from)
        }
        "indent" => indent(&value, given),
        "center" => {
            let [width] = given.bind(name, ["width"], 0)?;
            padded(&value.to_text(), "center", int(width, "center: width", 80)?, ' ').map(Value::from)
        }
        "truncate" => truncate(&value, given),
        "int" | "float" | "abs" | "round" | "filesizeformat" | "attr" if value.is_undefined() => {
            Err(Error::new(format!("{name}: the value is undefined")))
        }
        "int" | "float" | "abs" | "round" | "filesizeformat" => number(name, &value, given),
        "attr" => {
            let [attribute] = given.bind(name, ["name"], 1)?;
            Ok(methods::attribute_only(&value, &text_of(attribute, "")))
        }
        _ if exists(name) => of_items(name, value, given),
        _ => Err(Error::new(format!("no filter named '{name}'"))),
    }
}

fn of_text(name: &str, value: Value) -> Value {
    let plain = value.to_text();
    match name {
        "upper" => marked(&value, plain.to_uppercase()),
        "lower" => marked(&value, plain.to_lowercase()),
        "capitalize" => marked(&value, text::capitalize(&plain)),
        "title" => {
            // A word begins after these; apostrophes do not begin one, unlike in str.title().
            let begins = |c: char| is_space(c) || "-({[<".contains(c);
            let mut out = String::new();
            let mut inside = false;
            for c in plain.chars() {
                if begins(c) {
                    out.extend(c.to_lowercase());
                    inside = false;
                } else if inside {
                    out.extend(c.to_lowercase());
                } else {
                    out.extend(c.to_uppercase());
                    inside = true;
                }
            }
            Value::from(out)
        }
        "safe" => Value::Markup(plain.into()),
        "escape" | "e" if matches!(value, Value::Markup(_)) => value,
        "escape" | "e" | "forceescape" => Value::Markup(text::escape_html(&plain).into()),
        "wordcount" => {
            let mut words = 0;
            let mut inside = false;
            for c in plain.chars() {
                let word = predicates::is_word(c);
                words += i128::from(word && !inside);
                inside = word;
            }
            Value::Int(words)
        }
        "striptags" => {
            let mut out = String::new();
            let mut rest = plain.as_str();
            while let Some(start) = rest.find('<') {
                out.push_str(&rest[..start]);
                match rest[start..].find('>') {
                    Some(end) => rest = &rest[start + end + 1..],
                    None => {
                        out.push_str(&rest[start..]);
                        rest = "";
                    }
                }
            }
            out.push_str(rest);
            let words: Vec<&str> = out.split(is_space).filter(|w| !w.is_empty()).collect();
            let joined = words.join(" ");
            let unescaped =
                [("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&#34;", "\""), ("&quot;", "\""), ("&amp;", "&")];
            Value::from(unescaped.iter().fold(joined, |t, (from, to)| t.replace(from, to)))
        }
        _ => match value {
            Value::Str(_) | Value::Markup(_) => value,
            _ => Value::from(plain),
        },
    }
}

fn urlencoded(value: &Value) -> Outcome {
    let quote = |text: &str, query: bool| {
        let mut out = String::new();
        for byte in text.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(byte as char),
                b'/' if !query => out.push('/'),
                b' ' if query => out.push('+'),
                other => out.push_str(&format!("%{other:02X}")),
            }
        }
        out
    };
    let pairs: Vec<(Value, Value)> = match value {
        Value::Dict(dict) => dict.entries().to_vec(),
        _ if value.as_str().is_some() => return Ok(Value::from(quote(&value.to_text(), false))),
        other => match other.iterate()? {
            Some(items) => items
                .iter()
                .map(|pair| match &iterated(pair)?[..] {
                    [key, value] => Ok((key.clone(), value.clone())),
                    _ => Err(Error::new("urlencode: pairs are needed")),
                })
                .collect::<Result<_, Error>>()?,
            None => return Ok(Value::from(quote(&value.to_text(), false))),
        },
    };
    let pairs: Vec<String> =
        pairs.iter().map(|(k, v)| format!("{}={}", quote(&k.to_text(), true), quote(&v.to_text(), true))).collect();
    Ok(Value::from(pairs.join("&")))
}

fn tojson(value: &Value, given: Given) -> Outcome {
    let [ensure_ascii, indent, separators, sort_keys] =
        given.bind("tojson", ["ensure_ascii", "indent", "separators", "sort_keys"], 0)?;
    let indent = match indent {
        None | Some(Value::None) => None,
        Some(indent) => Some(match (indent.as_int(), indent.as_str()) {
            (Some(width), _) => " ".repeat(width.clamp(0, 1000) as usize),
            (_, Some(text)) => text.to_string(),
            _ => return Err(Error::new("tojson: indent must be a number or a string")),
        }),
    };
    let (item_separator, key_separator) = match separators {
        None | Some(Value::None) => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
        Some(pair) => {
            let parts = iterated(&pair)?;
            match &parts[..] {
                [item, key] if item.as_str().is_some() && key.as_str().is_some() => (item.to_text(), key.to_text()),
                _ => return Err(Error::new("tojson: separators must be two strings")),
            }
        }
    };
    let style = json::Style {
        ensure_ascii: flag(ensure_ascii),
        indent,
        item_separator,
        key_separator,
        sort_keys: flag(sort_keys),
    };
    json::dump(value, &style).map(Value::from)
}

fn indent(value: &Value, given: Given) -> Outcome {
    if value.as_str().is_none() {
        return Err(Error::new(format!("indent: a string is needed, not {}", value.type_name())));
    }
    let [width, first, blank] = given.bind("indent", ["width", "first", "blank"], 0)?;
    let by = match width.as_ref().and_then(Value::as_str) {
        Some(text) => text.to_string(),
        None => " ".repeat(int(width, "indent: width", 4)?.clamp(0, 10_000) as usize),
    };
    let source = value.to_text() + "\n";
    let lines = text::split_lines(&source, false);
    operators::text_fits(source.len().saturating_add(lines.len().saturating_mul(by.len())))?;
    let blank = flag(blank);
    let mut out = if flag(first) { by.clone() } else { String::new() };
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push('\n');
            if blank || !line.is_empty() {
                out.push_str(&by);
            }
        }
        out.push_str(line);
    }
    Ok(marked(value, out))
}

fn truncate(value: &Value, given: Given) -> Outcome {
    let [length, whole, end, leeway] = given.bind("truncate", ["length", "killwords", "end", "leeway"], 0)?;
    let length = int(length, "truncate: length", 255)?;
    let end = text_of(end, "...");
    let leeway = match leeway {
        None | Some(Value::None) => 5,
        given => int(given, "truncate: leeway", 5)?,
    };
    let room = length - end.chars().count() as i128;
    if room < 0 || leeway < 0 {
        return Err(Error::new("truncate: the length is less than that of the end"));
    }
    if value.length().is_some_and(|n| n as i128 <= length.saturating_add(leeway)) {
        return Ok(value.clone());
    }
    let Some(source) = value.as_str().map(|s| s.chars().collect::<Vec<char>>()) else {
        return Err(Error::new(format!("truncate: a string is needed, not {}", value.type_name())));
    };
    let mut kept: String = source[..(room as usize).min(source.len())].iter().collect();
    if !flag(whole) {
        if let Some(space) = kept.rfind(' ') {
            kept.truncate(space);
        }
    }
    Ok(Value::from(kept + &end))
}

fn number(name: &str, value: &Value, given: Given) -> Outcome {
    match name {
        "int" => {
            let [default, base] = given.bind(name, ["default", "base"], 0)?;
            let default = default.unwrap_or(Value::Int(0));
            let whole =
                |f: f64| if f.is_finite() && f.abs() < 1e38 { Some(Value::Int(f.trunc() as i128)) } else { None };
            Ok(match value {
                Value::Float(f) => whole(*f).unwrap_or(default),
                _ if value.as_int().is_some() => Value::Int(value.as_int().unwrap_or(0)),
                _ => match value.as_str() {
                    Some(s) => match format::parse_int(s, int(base, "int: base", 10)?) {
                        Some(i) => Value::Int(i),
                        None => format::parse_float(s).and_then(whole).unwrap_or(default),
                    },
                    None => default,
                },
            })
        }
        "float" => {
            let [default] = given.bind(name, ["default"], 0)?;
            let parsed = value.as_number().or_else(|| value.as_str().and_then(format::parse_float));
            Ok(parsed.map_or_else(|| default.unwrap_or(Value::Float(0.0)), Value::Float))
        }
        "abs" => {
            given.bind::<0>(name, [], 0)?;
            match value {
                Value::Float(f) => Ok(Value::Float(f.abs())),
                other => match other.as_int() {
                    Some(i) => Ok(Value::Int(i.saturating_abs())),
                    None => Err(Error::new(format!("abs: '{}' is no number", other.type_name()))),
                },
            }
        }
        "round" => {
            let [precision, method] = given.bind(name, ["precision", "method"], 0)?;
            let precision = int(precision, "round: precision", 0)?;
            let method = text_of(method, "common");
            let Some(f) = value.as_number() else {
                return Err(Error::new(format!("round: '{}' is no number", value.type_name())));
            };
            match method.as_str() {
                "common" => Ok(match value.as_int() {
                    Some(i) if precision >= 0 => Value::Int(i),
                    Some(i) => Value::Int(format::round_int(i, precision)),
                    None => Value::Float(format::round_float(f, precision)),
                }),
                "ceil" | "floor" => {
                    let scale = 10f64.powi(precision.clamp(-400, 400) as i32);
                    let scaled = f * scale;
                    let whole = if method == "ceil" { scaled.ceil() } else { scaled.floor() };
                    Ok(Value::Float(whole / scale))
                }
                _ => Err(Error::new("round: the method must be common, ceil or floor")),
            }
        }
        _ => {
            let [binary] = given.bind(name, ["binary"], 0)?;
            let binary = flag(binary);
            let bytes = value.as_number().or_else(|| value.as_str().and_then(format::parse_float));
            let Some(bytes) = bytes else { return Err(Error::new("filesizeformat: a number is needed")) };
            Ok(Value::from(format::file_size(bytes, binary)))
        }
    }
}

/// Python's generators: what goes wrong in them shows when they are read.
fn lazily(items: Result<Vec<Value>, Error>) -> Value {
    let stream = match items {
        Ok(items) => Stream { items: items.into(), error: None },
        Err(error) => Stream { items: Default::default(), error: Some(error) },
    };
    Value::Iterator(Rc::new(stream.into()))
}

/// map, select, reject, selectattr, rejectattr
fn chosen(machine: &mut Machine, name: &str, value: Value, given: Given) -> Result<Vec<Value>, Error> {
    let Given { mut positional, mut keyword } = given;
    if !value.truth() {
        return Ok(vec![]); // whatever it is
    }
    if name == "map" {
        if positional.is_empty() {
            let [attribute, default] = Given { positional, keyword }.bind(name, ["attribute", "default"], 1)?;
            let path = Path::new(&attribute.unwrap_or(Value::None));
            return iterated(&value)?.iter().map(|item| path.of(item, default.as_ref())).collect();
        }
        let filter = positional.remove(0).to_text();
        let items = iterated(&value)?;
        return items
            .into_iter()
            .map(|item| {
                apply(machine, &filter, item, Given { positional: positional.clone(), keyword: keyword.clone() })
            })
            .collect();
    }
    let path = if name.ends_with("attr") {
        if positional.is_empty() {
            return Err(Error::new(format!("{name}: the attribute is missing")));
        }
        Some(Path::new(&positional.remove(0)))
    } else {
        None
    };
    let test = if positional.is_empty() { None } else { Some(positional.remove(0).to_text()) };
    if test.is_none() {
        keyword.clear();
    }
    let wanted = name.starts_with("select");
    let mut kept = vec![];
    for item in iterated(&value)? {
        machine.spend(1)?;
        let tested = path.as_ref().map_or_else(|| Ok(item.clone()), |p| p.of(&item, None))?;
        let holds = match &test {
            None => tested.truth(),
            Some(test) => {
                let given = Given { positional: positional.clone(), keyword: keyword.clone() };
                predicates::test(test, &tested, given)?
            }
        };
        if holds == wanted {
            kept.push(item);
        }
    }
    Ok(kept)
}

fn of_items(name: &str, value: Value, given: Given) -> Outcome {
    match name {
        "length" | "count" => {
            given.bind::<0>(name, [], 0)?;
            match value.length() {
                Some(n) => Ok(Value::Int(n as i128)),
                None => Err(Error::new(format!("object of type '{}' has no len()", value.type_name()))),
            }
        }
        "list" => {
            given.bind::<0>(name, [], 0)?;
            Ok(Value::list(iterated(&value)?))
        }
        "items" => {
            given.bind::<0>(name, [], 0)?;
            match &value {
                Value::Undefined(_) => Ok(Value::iterator([])),
                Value::Dict(d) => {
                    let pairs: Vec<Value> =
                        d.entries().iter().map(|(k, v)| Value::tuple(vec![k.clone(), v.clone()])).collect();
                    Ok(Value::iterator(pairs))
                }
                _ => Ok(lazily(Err(Error::new("items: a mapping is needed")))),
            }
        }
        "first" | "last" | "random" => {
            given.bind::<0>(name, [], 0)?;
            if name == "last" && matches!(value, Value::Iterator(_)) {
                return Err(Error::new("last: a generator cannot be read backwards; use | list first"));
            }
            if let (Value::Iterator(stream), "first") = (&value, name) {
                let mut stream = stream.borrow_mut();
                if let Some(error) = stream.error.take() {
                    return Err(error);
                }
                return Ok(stream.items.pop_front().unwrap_or_else(|| Value::undefined("the first item of nothing")));
            }
            let mut items = iterated(&value)?;
            let picked = if name == "last" { items.pop() } else { items.into_iter().next() };
            Ok(picked.unwrap_or_else(|| Value::undefined(format!("the {name} item of nothing"))))
        }
        "reverse" => {
            given.bind::<0>(name, [], 0)?;
            if let Some(s) = value.as_str() {
                return Ok(marked(&value, s.chars().rev().collect()));
            }
            let mut items = iterated(&value)?;
            items.reverse();
            Ok(if matches!(value, Value::Iterator(_)) { Value::list(items) } else { Value::iterator(items) })
        }
        "join" => {
            let [separator, attribute] = given.bind(name, ["d", "attribute"], 0)?;
            let separator = text_of(separator, "");
            let path = attribute.filter(|a| !matches!(a, Value::None)).map(|a| Path::new(&a));
            let mut out = String::new();
            for (i, item) in iterated(&value)?.iter().enumerate() {
                if i > 0 {
                    out.push_str(&separator);
                }
                path.as_ref().map_or_else(|| Ok(item.clone()), |p| p.of(item, None))?.print(&mut out);
                operators::text_fits(out.len())?;
            }
            Ok(Value::from(out))
        }
        "sum" => {
            let [attribute, start] = given.bind(name, ["attribute", "start"], 0)?;
            let path = attribute.filter(|a| !matches!(a, Value::None)).map(|a| Path::new(&a));
            let mut total = start.unwrap_or(Value::Int(0));
            for item in iterated(&value)? {
                let item = path.as_ref().map_or_else(|| Ok(item.clone()), |p| p.of(&item, None))?;
                total = operators::binary(super::ast::Operator::Add, &total, &item)?;
            }
            Ok(total)
        }
        "sort" => {
            let [reverse, case_sensitive, attribute] =
                given.bind(name, ["reverse", "case_sensitive", "attribute"], 0)?;
            let paths: Vec<Path> = match &attribute {
                Some(Value::None) | None => vec![],
                Some(a) => match a.as_str() {
                    Some(list) => list.split(',').map(|p| Path::new(&Value::from(p))).collect(),
                    None => vec![Path::new(a)],
                },
            };
            let fold = !flag(case_sensitive);
            let key = |item: &Value| -> Outcome {
                let one = |value: Value| if fold { caseless(value) } else { value };
                if paths.is_empty() {
                    return Ok(one(item.clone()));
                }
                Ok(Value::list(paths.iter().map(|p| p.of(item, None).map(one)).collect::<Result<_, _>>()?))
            };
            sorted(iterated(&value)?, key, flag(reverse)).map(Value::list)
        }
        "min" | "max" => {
            let [case_sensitive, attribute] = given.bind(name, ["case_sensitive", "attribute"], 0)?;
            let path = Path::new(&attribute.unwrap_or(Value::None));
            let fold = !flag(case_sensitive);
            let mut best: Option<(Value, Value)> = None;
            for item in iterated(&value)? {
                let key = path.of(&item, None)?;
                let key = if fold { caseless(key) } else { key };
                let better = match &best {
                    None => true,
                    Some((known, _)) if name == "min" => operators::less(&key, known)?,
                    Some((known, _)) => operators::compare(super::ast::Comparison::Gt, &key, known)?,
                };
                if better {
                    best = Some((key, item));
                }
            }
            Ok(best.map_or_else(|| Value::undefined("the extreme of nothing"), |b| b.1))
        }
        "unique" => {
            let [case_sensitive, attribute] = given.bind(name, ["case_sensitive", "attribute"], 0)?;
            let path = Path::new(&attribute.unwrap_or(Value::None));
            let fold = !flag(case_sensitive);
            let mut seen = Dict::default();
            let mut kept = vec![];
            for item in iterated(&value)? {
                let key = path.of(&item, None)?;
                let key = if fold { caseless(key) } else { key };
                if seen.get(&key)?.is_none() {
                    seen.insert(key, Value::None)?;
                    kept.push(item);
                }
            }
            Ok(Value::iterator(kept))
        }
        "groupby" => groupby(&value, given),
        "dictsort" => {
            let [case_sensitive, by, reverse] = given.bind(name, ["case_sensitive", "by", "reverse"], 0)?;
            let Value::Dict(dict) = &value else { return Err(Error::new("dictsort: a dict is needed")) };
            let at = match text_of(by, "key").as_str() {
                "key" => 0,
                "value" => 1,
                _ => return Err(Error::new("dictsort: by must be 'key' or 'value'")),
            };
            let fold = !flag(case_sensitive);
            let pairs = dict.entries().iter().map(|(k, v)| Value::tuple(vec![k.clone(), v.clone()])).collect();
            let key = |pair: &Value| -> Outcome {
                let part = pair.as_items().map_or(Value::None, |p| p[at].clone());
                Ok(if fold { caseless(part) } else { part })
            };
            sorted(pairs, key, flag(reverse)).map(Value::list)
        }
        "batch" | "slice" => {
            let [size, fill] = given.bind(name, ["count", "fill_with"], 1)?;
            let size = int(size, "the count", 0)?;
            let (Ok(size @ 1..), fill) = (usize::try_from(size), fill.filter(|f| !matches!(f, Value::None))) else {
                return Err(Error::new(format!("{name}: the count must be positive")));
            };
            let items = iterated(&value)?;
            if size > operators::LONGEST_LIST {
                return Err(Error::new(format!("{name}: the count is too large")));
            }
            Ok(Value::iterator(if name == "batch" { batches(&items, size, fill) } else { slices(&items, size, fill) }))
        }
        _ => Err(Error::new(format!("the filter '{name}' is not supported in chat templates"))),
    }
}

fn batches(items: &[Value], size: usize, fill: Option<Value>) -> Vec<Value> {
    let mut out = vec![];
    for part in items.chunks(size) {
        let mut part = part.to_vec();
        if let Some(fill) = &fill {
            part.resize(size, fill.clone());
        }
        out.push(Value::list(part));
    }
    out
}

fn slices(items: &[Value], count: usize, fill: Option<Value>) -> Vec<Value> {
    let (each, longer) = (items.len() / count, items.len() % count);
    let mut at = 0;
    (0..count)
        .map(|i| {
            let size = each + usize::from(i < longer);
            let mut part = items[at..at + size].to_vec();
            at += size;
            if i >= longer {
                part.extend(fill.clone());
            }
            Value::list(part)
        })
        .collect()
}

fn sorted(items: Vec<Value>, key: impl Fn(&Value) -> Outcome, reverse: bool) -> Result<Vec<Value>, Error> {
    let mut keyed = items.into_iter().map(|item| Ok((key(&item)?, item))).collect::<Result<Vec<_>, Error>>()?;
    // Equal ones keep their order in reverse, too.
    sort_by(&mut keyed, |a, b| if reverse { operators::less(&b.0, &a.0) } else { operators::less(&a.0, &b.0) })?;
    Ok(keyed.into_iter().map(|k| k.1).collect())
}

fn groupby(value: &Value, given: Given) -> Outcome {
    let [attribute, default, case_sensitive] = given.bind("groupby", ["attribute", "default", "case_sensitive"], 1)?;
    let path = Path::new(&attribute.unwrap_or(Value::None));
    let default = default.filter(|d| !matches!(d, Value::None));
    let fold = !flag(case_sensitive);
    let key = |item: &Value| -> Outcome {
        let key = path.of(item, default.as_ref())?;
        Ok(if fold { caseless(key) } else { key })
    };
    let mut groups: Vec<(Value, Vec<Value>)> = vec![];
    for item in sorted(iterated(value)?, key, false)? {
        let found = key(&item)?;
        match groups.last_mut() {
            Some((known, members)) if known.equals(&found) => members.push(item),
            _ => groups.push((found, vec![item])),
        }
    }
    let mut out = vec![];
    for (_, members) in groups {
        let name = path.of(&members[0], default.as_ref())?;
        out.push(Value::Group(Seq::new(vec![name, Value::list(members)])));
    }
    Ok(Value::list(out))
}
