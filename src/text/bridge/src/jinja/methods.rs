//! What objects offer: attributes, items, methods; and the functions every template has.

use std::cell::RefCell;
use std::rc::Rc;

use super::eval::{iterated, Given, Machine};
use super::value::{Dict, Value, View};
use super::{format, is_space, operators, sequences, strftime, text, Error};

pub const GLOBALS: [&str; 9] =
    ["range", "dict", "lipsum", "cycler", "joiner", "namespace", "raise_exception", "strftime_now", "self"];

type Outcome = Result<Value, Error>;

const STR: [&str; 44] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
];

fn has_method(value: &Value, name: &str) -> bool {
    match value {
        Value::Str(_) | Value::Markup(_) => STR.contains(&name) || name == "zfill" || name == "translate",
        Value::List(_) => matches!(name, "index" | "count" | "copy"),
        Value::Tuple(_) | Value::Group(_) | Value::Range(..) => matches!(name, "index" | "count"),
        Value::Dict(_) => matches!(name, "get" | "items" | "keys" | "values" | "copy" | "fromkeys"),
        Value::Int(_) | Value::Bool(_) => matches!(name, "bit_length" | "bit_count" | "conjugate"),
        Value::Float(_) => matches!(name, "is_integer" | "conjugate"),
        Value::Loop(_) => matches!(name, "cycle" | "changed"),
        Value::Cycler(_) => matches!(name, "next" | "reset"),
        _ => false,
    }
}

/// Python's getattr(), for what the immutable sandbox lets through.
fn own_attribute(value: &Value, name: &str) -> Option<Value> {
    if has_method(value, name) {
        return Some(Value::Method(Rc::new((value.clone(), name.into()))));
    }
    match value {
        Value::Int(_) | Value::Bool(_) => {
            let int = value.as_int().unwrap_or(0);
            match name {
                "real" | "numerator" => Some(Value::Int(int)),
                "imag" => Some(Value::Int(0)),
                "denominator" => Some(Value::Int(1)),
                _ => None,
            }
        }
        Value::Float(f) => match name {
            "real" => Some(Value::Float(*f)),
            "imag" => Some(Value::Float(0.0)),
            _ => None,
        },
        Value::Range(start, stop, step) => match name {
            "start" => Some(Value::Int(*start)),
            "stop" => Some(Value::Int(*stop)),
            "step" => Some(Value::Int(*step)),
            _ => None,
        },
        Value::Namespace(contents) => contents.borrow().get_str(name).cloned(),
        Value::Group(pair) => match name {
            "grouper" => pair.first().cloned(),
            "list" => pair.get(1).cloned(),
            _ => None,
        },
        Value::Macro(closure) => {
            let definition = &closure.definition;
            Some(match name {
                "name" => Value::Str(definition.name.clone()),
                "arguments" => Value::tuple(definition.parameters.iter().map(|p| Value::Str(p.0.clone())).collect()),
                "caller" => Value::Bool(definition.takes_caller),
                "catch_varargs" => Value::Bool(definition.takes_varargs),
                "catch_kwargs" => Value::Bool(definition.takes_kwargs),
                _ => return None,
            })
        }
        Value::Cycler(cycler) if name == "current" => cycler.0.get(*cycler.1.borrow()).cloned(),
        Value::Loop(state) => {
            let (index, length) = (*state.index.borrow(), state.items.len());
            let int = |i: usize| Some(Value::Int(i as i128));
            let neighbour = |at: Option<usize>, what: &str| {
                let found = at.and_then(|i| state.items.get(i).cloned());
                Some(found.unwrap_or_else(|| Value::undefined(format!("there is no {what} item; it"))))
            };
            match name {
                "index" => int(index + 1),
                "index0" => int(index),
                "revindex" => int(length - index),
                "revindex0" => int(length - index - 1),
                "length" => int(length),
                "depth" => int(state.depth + 1),
                "depth0" => int(state.depth),
                "first" => Some(Value::Bool(index == 0)),
                "last" => Some(Value::Bool(index + 1 == length)),
                "previtem" => neighbour(index.checked_sub(1), "previous"),
                "nextitem" => neighbour(Some(index + 1), "next"),
                _ => None,
            }
        }
        _ => None,
    }
}

fn missing(value: &Value, name: &str) -> Value {
    let kind = value.type_name();
    Value::undefined(format!("attribute or item '{name}' of a {kind}"))
}

/// value.name: the attribute, or else the item of that name.
pub fn attribute(value: &Value, name: &str) -> Outcome {
    if let Value::Undefined(what) = value {
        return Err(Error::new(format!("{what} is undefined, so '{name}' cannot be read from it")));
    }
    if let Some(found) = own_attribute(value, name) {
        return Ok(found);
    }
    if let Value::Dict(dict) = value {
        // What Python's objects have with such names, the sandbox hides.
        let hidden = name.starts_with("__") && name.ends_with("__");
        let mutating = matches!(name, "clear" | "pop" | "popitem" | "setdefault" | "update");
        if !hidden && !mutating {
            if let Some(found) = dict.get_str(name) {
                return Ok(found.clone());
            }
        }
    }
    Ok(missing(value, name))
}

/// value[index]: the item, or else the attribute of that name.
pub fn item(value: &Value, index: &Value) -> Outcome {
    if let Value::Undefined(what) = value {
        return Err(Error::new(format!("{what} is undefined, so no item can be read from it")));
    }
    if let Some(found) = operators::item(value, index) {
        return Ok(found);
    }
    if let Some(found) = index.as_str().and_then(|name| own_attribute(value, name)) {
        return Ok(found);
    }
    let mut spelled = String::new();
    index.repr(&mut spelled);
    Ok(missing(value, spelled.trim_matches('\'')))
}

/// value | attr(name): the attribute only.
pub fn attribute_only(value: &Value, name: &str) -> Value {
    own_attribute(value, name).unwrap_or_else(|| missing(value, name))
}

pub fn call_global(machine: &mut Machine, name: &str, given: Given) -> Outcome {
    match name {
        "range" => machine.range(given),
        "dict" => dict_from(given).map(|d| Value::Dict(Rc::new(d))),
        "namespace" => {
            let contents = dict_from(given)?;
            machine.namespace(contents)
        }
        "cycler" => {
            if given.positional.is_empty() || !given.keyword.is_empty() {
                return Err(Error::new("cycler: at least one item is needed"));
            }
            Ok(Value::Cycler(Rc::new((given.positional, RefCell::new(0)))))
        }
        "joiner" => {
            let [separator] = given.bind("joiner", ["sep"], 0)?;
            let separator = separator.map_or(", ".into(), |s| s.to_text());
            Ok(Value::Joiner(Rc::new((separator.into(), RefCell::new(false)))))
        }
        "raise_exception" => {
            let [message] = given.bind(name, ["message"], 1)?;
            Err(Error::new(message.map_or_else(String::new, |m| m.to_text())))
        }
        "strftime_now" => {
            let [layout] = given.bind(name, ["format"], 1)?;
            let Some(layout) = layout.as_ref().and_then(Value::as_str) else {
                return Err(Error::new("strftime_now: the format must be a string"));
            };
            Ok(Value::from(strftime::format(&machine.clock, layout)))
        }
        _ => Err(Error::new(format!("{name}() is not available in chat templates"))),
    }
}

/// dict(pairs or mapping, name=value ...)
fn dict_from(given: Given) -> Result<Dict, Error> {
    let mut dict = Dict::default();
    let mut positional = given.positional.into_iter();
    if let Some(first) = positional.next() {
        if let Value::Dict(d) = &first {
            for (key, value) in d.entries() {
                dict.insert(key.clone(), value.clone())?;
            }
        } else {
            for pair in iterated(&first)? {
                let pair = iterated(&pair)?;
                let [key, value] = &pair[..] else {
                    return Err(Error::new(format!("dict: pairs are needed, found {} values", pair.len())));
                };
                dict.insert(key.clone(), value.clone())?;
            }
        }
    }
    if positional.next().is_some() {
        return Err(Error::new("dict: at most one positional argument is allowed"));
    }
    for (name, value) in given.keyword {
        dict.insert(Value::Str(name), value)?;
    }
    Ok(dict)
}

pub fn call_method(machine: &mut Machine, value: &Value, name: &str, given: Given) -> Outcome {
    if let Some(s) = value.as_str() {
        let result = string_method(machine, s, name, given)?;
        // A marked string stays one.
        return Ok(match (value, result) {
            (Value::Markup(_), Value::Str(s)) => Value::Markup(s),
            (_, other) => other,
        });
    }
    match value {
        Value::Dict(dict) => dict_method(dict, name, given),
        Value::Loop(state) => {
            let index = *state.index.borrow();
            if name == "cycle" {
                if given.positional.is_empty() {
                    return Err(Error::new("cycle: at least one item is needed"));
                }
                return Ok(given.positional[index % given.positional.len()].clone());
            }
            let mut before = state.changed.borrow_mut();
            let same = before.as_ref().is_some_and(|b| {
                b.len() == given.positional.len() && b.iter().zip(&given.positional).all(|(x, y)| x.equals(y))
            });
            *before = Some(given.positional);
            Ok(Value::Bool(!same))
        }
        Value::Cycler(cycler) => {
            let mut at = cycler.1.borrow_mut();
            if name == "reset" {
                *at = 0;
                return Ok(Value::None);
            }
            let current = cycler.0[*at].clone();
            *at = (*at + 1) % cycler.0.len();
            Ok(current)
        }
        Value::Int(_) | Value::Bool(_) => {
            let int = value.as_int().unwrap_or(0);
            let magnitude = int.unsigned_abs();
            Ok(Value::Int(match name {
                "bit_length" => i128::from(128 - magnitude.leading_zeros()),
                "bit_count" => i128::from(magnitude.count_ones()),
                _ => int,
            }))
        }
        Value::Float(f) => Ok(if name == "is_integer" { Value::Bool(f.fract() == 0.0) } else { value.clone() }),
        sequence => {
            if name == "copy" {
                return Ok(sequence.clone());
            }
            let [wanted, start, stop] = given.bind(name, ["value", "start", "stop"], 1)?;
            let wanted = wanted.unwrap_or(Value::None);
            let items = iterated(sequence)?;
            if name == "count" {
                return Ok(Value::Int(items.iter().filter(|i| i.equals(&wanted)).count() as i128));
            }
            let (from, to) = bounds(start, stop, items.len());
            match (from..to).find(|i| items[*i].equals(&wanted)) {
                Some(i) => Ok(Value::Int(i as i128)),
                None => Err(Error::new("index: the value is not in the sequence")),
            }
        }
    }
}

fn dict_method(dict: &Rc<Dict>, name: &str, given: Given) -> Outcome {
    match name {
        "get" => {
            let [key, default] = given.bind("get", ["key", "default"], 1)?;
            let found = dict.get(&key.unwrap_or(Value::None))?.cloned();
            Ok(found.or(default).unwrap_or(Value::None))
        }
        "fromkeys" => {
            let [keys, value] = given.bind("fromkeys", ["keys", "value"], 1)?;
            let mut made = Dict::default();
            for key in iterated(&keys.unwrap_or(Value::None))? {
                made.insert(key, value.clone().unwrap_or(Value::None))?;
            }
            Ok(Value::Dict(Rc::new(made)))
        }
        _ => {
            given.bind::<0>(name, [], 0)?;
            Ok(match name {
                "items" => Value::View(View::Items, dict.clone()),
                "keys" => Value::View(View::Keys, dict.clone()),
                "values" => Value::View(View::Values, dict.clone()),
                _ => Value::Dict(dict.clone()),
            })
        }
    }
}

/// Python's optional start and stop, in a sequence of that length.
fn bounds(start: Option<Value>, stop: Option<Value>, length: usize) -> (usize, usize) {
    let place = |value: Option<Value>, absent: usize| match value.as_ref().and_then(Value::as_int) {
        Some(i) if i < 0 => (i + length as i128).max(0) as usize,
        Some(i) => i.min(length as i128) as usize,
        None => absent,
    };
    (place(start, 0), place(stop, length))
}

pub fn is_lower(s: &str) -> bool {
    s.chars().any(char::is_lowercase) && !s.chars().any(|c| text::is_cased(c) && !c.is_lowercase())
}

pub fn is_upper(s: &str) -> bool {
    s.chars().any(char::is_uppercase) && !s.chars().any(|c| text::is_cased(c) && !c.is_uppercase())
}

fn is_title(s: &str) -> bool {
    let (mut any, mut inside) = (false, false);
    for c in s.chars() {
        let upper = c.is_uppercase() || (text::is_cased(c) && !c.is_lowercase());
        if (upper && inside) || (c.is_lowercase() && !inside) {
            return false;
        }
        inside = text::is_cased(c);
        any |= inside;
    }
    any
}

fn strip<'s>(s: &'s str, name: &str, given: Given) -> Result<&'s str, Error> {
    let [set] = given.bind(name, ["chars"], 0)?;
    let set: Option<Vec<char>> = match set {
        None | Some(Value::None) => None,
        Some(set) => match set.as_str() {
            Some(set) => Some(set.chars().collect()),
            None => return Err(Error::new(format!("{name}: the characters must be a string or none"))),
        },
    };
    let goes = |c: char| set.as_ref().map_or_else(|| is_space(c), |set| set.contains(&c));
    let s = if name == "rstrip" { s } else { s.trim_start_matches(goes) };
    Ok(if name == "lstrip" { s } else { s.trim_end_matches(goes) })
}

fn wanted_text(value: Option<Value>, name: &str) -> Result<Rc<str>, Error> {
    match value {
        Some(Value::Str(s) | Value::Markup(s)) => Ok(s),
        other => {
            let kind = other.as_ref().map_or("nothing", Value::type_name);
            Err(Error::new(format!("{name}: a string is needed, not {kind}")))
        }
    }
}

fn wanted_int(value: Option<Value>, name: &str, absent: i128) -> Result<i128, Error> {
    match value {
        None => Ok(absent),
        Some(value) => {
            value.as_int().ok_or_else(|| Error::new(format!("{name}: an integer is needed, not {}", value.type_name())))
        }
    }
}

fn string_method(machine: &mut Machine, s: &str, name: &str, given: Given) -> Outcome {
    match name {
        "strip" | "lstrip" | "rstrip" => return strip(s, name, given).map(Value::from),
        "split" | "rsplit" => return sequences::split(machine, s, name, given),
        "format" => return format::braces(s, &given.positional, &given.keyword).map(Value::from),
        "format_map" => {
            let [map] = given.bind(name, ["mapping"], 1)?;
            let Some(Value::Dict(dict)) = map else { return Err(Error::new("format_map: a dict is needed")) };
            let named: Vec<(Rc<str>, Value)> =
                dict.entries().iter().filter_map(|(k, v)| Some((k.as_str()?.into(), v.clone()))).collect();
            return format::braces(s, &[], &named).map(Value::from);
        }
        "startswith" | "endswith" => {
            let [wanted, start, stop] = given.bind(name, ["prefix", "start", "end"], 1)?;
            let length = s.chars().count();
            let (from, to) = bounds(start.clone(), stop, length);
            let beyond = start.as_ref().and_then(Value::as_int).is_some_and(|i| i > length as i128);
            let part: String = s.chars().skip(from).take(to.saturating_sub(from)).collect();
            let hit = |w: &str| !beyond && if name == "startswith" { part.starts_with(w) } else { part.ends_with(w) };
            return match &wanted {
                Some(Value::Tuple(any)) => {
                    let mut found = false;
                    for one in any.iter() {
                        found |= hit(&wanted_text(Some(one.clone()), name)?);
                    }
                    Ok(Value::Bool(found))
                }
                _ => Ok(Value::Bool(hit(&wanted_text(wanted, name)?))),
            };
        }
        "replace" => {
            let [old, new, count] = given.bind(name, ["old", "new", "count"], 2)?;
            let (old, new) = (wanted_text(old, name)?, wanted_text(new, name)?);
            return replaced(s, &old, &new, wanted_int(count, name, -1)?).map(Value::from);
        }
        "find" | "rfind" | "index" | "rindex" | "count" => return search(s, name, given),
        "join" => {
            let [items] = given.bind(name, ["iterable"], 1)?;
            let mut joined = String::new();
            for (i, item) in iterated(&items.unwrap_or(Value::None))?.into_iter().enumerate() {
                if i > 0 {
                    joined.push_str(s);
                }
                joined.push_str(&wanted_text(Some(item), "join")?);
                operators::text_fits(joined.len())?;
            }
            return Ok(Value::from(joined));
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let [width, fill] = given.bind(name, ["width", "fillchar"], 1)?;
            let fill = fill.map_or(Ok(" ".into()), |f| wanted_text(Some(f), name))?;
            let mut chars = fill.chars();
            let (Some(fill), None) = (chars.next(), chars.next()) else {
                return Err(Error::new(format!("{name}: the fill must be one character")));
            };
            return padded(s, name, wanted_int(width, name, 0)?, fill).map(Value::from);
        }
        "partition" | "rpartition" => {
            let [separator] = given.bind(name, ["sep"], 1)?;
            let separator = wanted_text(separator, name)?;
            if separator.is_empty() {
                return Err(Error::new("partition: empty separator"));
            }
            let cut = if name == "partition" { s.split_once(&*separator) } else { s.rsplit_once(&*separator) };
            let parts = match cut {
                Some((before, after)) => [before, &separator, after],
                None if name == "partition" => [s, "", ""],
                None => ["", "", s],
            };
            return Ok(Value::tuple(parts.into_iter().map(Value::from).collect()));
        }
        "removeprefix" | "removesuffix" => {
            let [part] = given.bind(name, ["affix"], 1)?;
            let part = wanted_text(part, name)?;
            let cut = if name == "removeprefix" { s.strip_prefix(&*part) } else { s.strip_suffix(&*part) };
            return Ok(Value::from(cut.unwrap_or(s)));
        }
        "splitlines" => {
            let [keep] = given.bind(name, ["keepends"], 0)?;
            let lines = text::split_lines(s, keep.is_some_and(|k| k.truth()));
            return Ok(Value::list(lines.into_iter().map(Value::from).collect()));
        }
        "expandtabs" => {
            let [size] = given.bind(name, ["tabsize"], 0)?;
            let size = wanted_int(size, name, 8)?.clamp(0, 1000) as usize;
            let (mut out, mut column) = (String::new(), 0);
            for c in s.chars() {
                if c == '\t' {
                    let fill = if size == 0 { 0 } else { size - column % size };
                    (0..fill).for_each(|_| out.push(' '));
                    column += fill;
                } else {
                    column = if c == '\n' || c == '\r' { 0 } else { column + 1 };
                    out.push(c);
                }
                operators::text_fits(out.len())?;
            }
            return Ok(Value::from(out));
        }
        "encode" | "translate" => return Err(Error::new(format!("str.{name}() is not supported in chat templates"))),
        _ => given.bind::<0>(name, [], 0)?,
    };
    let all = |test: fn(char) -> bool| Value::Bool(!s.is_empty() && s.chars().all(test));
    Ok(match name {
        "upper" => Value::from(s.to_uppercase()),
        "lower" => Value::from(s.to_lowercase()),
        "casefold" => Value::from(s.to_lowercase().replace('ß', "ss").replace('ς', "σ")),
        "title" => Value::from(text::title(s)),
        "capitalize" => Value::from(text::capitalize(s)),
        "swapcase" => Value::from(text::swap_case(s)),
        "isalpha" => all(text::is_letter),
        "isdigit" => all(text::is_digit),
        "isdecimal" => all(text::is_decimal),
        "isnumeric" => all(text::is_numeric),
        "isalnum" => all(|c| text::is_letter(c) || text::is_digit(c) || text::is_numeric(c)),
        "isspace" => all(is_space),
        "isascii" => Value::Bool(s.is_ascii()),
        "isprintable" => Value::Bool(s.chars().all(text::is_printable)),
        "islower" => Value::Bool(is_lower(s)),
        "isupper" => Value::Bool(is_upper(s)),
        "istitle" => Value::Bool(is_title(s)),
        "isidentifier" => {
            let word = |c: char| c == '_' || text::is_letter(c) || text::is_decimal(c);
            Value::Bool(s.chars().next().is_some_and(|c| word(c) && !text::is_decimal(c)) && s.chars().all(word))
        }
        _ => return Err(Error::new(format!("str has no method '{name}'"))),
    })
}

pub fn replaced(s: &str, old: &str, new: &str, count: i128) -> Result<String, Error> {
    let most = if count < 0 { usize::MAX } else { count as usize };
    let occurrences = if old.is_empty() { s.chars().count() + 1 } else { s.matches(old).count() }.min(most);
    operators::text_fits(s.len().saturating_add(occurrences.saturating_mul(new.len())))?;
    Ok(s.replacen(old, new, occurrences))
}

fn search(s: &str, name: &str, given: Given) -> Outcome {
    let [wanted, start, stop] = given.bind(name, ["sub", "start", "end"], 1)?;
    let wanted = wanted_text(wanted, name)?;
    let length = s.chars().count();
    let beyond = start.as_ref().and_then(Value::as_int).is_some_and(|i| i > length as i128);
    let (from, to) = bounds(start, stop, length);
    let at = |i: usize| s.char_indices().nth(i).map_or(s.len(), |(at, _)| at);
    let (first, last) = (at(from), at(to));
    let part = if beyond || first > last { None } else { Some(&s[first..last]) };
    if name == "count" {
        let count =
            part.map_or(0, |p| if wanted.is_empty() { p.chars().count() + 1 } else { p.matches(&*wanted).count() });
        return Ok(Value::Int(count as i128));
    }
    let found = part.and_then(|p| if name.starts_with('r') { p.rfind(&*wanted) } else { p.find(&*wanted) });
    match found {
        Some(byte) => Ok(Value::Int(s[..first + byte].chars().count() as i128)),
        None if name.ends_with("find") => Ok(Value::Int(-1)),
        None => Err(Error::new("substring not found")),
    }
}

pub fn padded(s: &str, name: &str, width: i128, fill: char) -> Result<String, Error> {
    let length = s.chars().count();
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(length);
    operators::text_fits(missing.saturating_mul(fill.len_utf8()))?;
    let run = |n: usize| std::iter::repeat_n(fill, n).collect::<String>();
    Ok(match name {
        "ljust" => s.to_string() + &run(missing),
        "rjust" => run(missing) + s,
        "zfill" => {
            let sign = usize::from(s.starts_with(['+', '-']));
            format!("{}{}{}", &s[..sign], "0".repeat(missing), &s[sign..])
        }
        _ => {
            // Python puts the odd one to the left of a text of even width.
            let left = missing / 2 + (missing & usize::try_from(width).unwrap_or(0) & 1);
            run(left) + s + &run(missing - left)
        }
    })
}
