//! Small questions about values, and the bounds within which lists and dicts may grow.

use minijinja::value::{Tuple, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use super::objects::Lazy;

/// Items of one list.
pub const LONGEST_LIST: usize = 2_000_000;
/// Parts of one list or dict with all that it holds, each as often as it is held; an entry of a dict is ENTRY of them,
/// as the library takes that much longer to come by it.
const MOST_PARTS: usize = 2_000_000;
const ENTRY: usize = 8;
/// The same of a tuple that is a dict's key.
const MOST_IN_KEY: usize = 1000;
const DEEPEST: usize = 150;

pub fn fail(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Python's idea of white space.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// groupby's pairs are tuples, too.
pub fn is_tuple(value: &Value) -> bool {
    value.is_tuple() || value.as_object().is_some_and(|o| o.type_name().ends_with("::GroupTuple"))
}

/// Not so the library's own objects, macros and `loop`, which look like dicts to it.
pub fn is_dict(value: &Value) -> bool {
    value.kind() == ValueKind::Map
        && value.as_object().is_some_and(|o| !o.type_name().ends_with("::Macro") && !o.type_name().ends_with("::Loop"))
}

pub fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Seq if is_tuple(value) => "tuple",
        ValueKind::Iterable if Lazy::is_generator(value) => "generator",
        ValueKind::Seq | ValueKind::Iterable => "list",
        ValueKind::Map if is_dict(value) => "dict",
        _ => "object",
    }
}

pub fn items(value: &Value) -> Result<Vec<Value>, Error> {
    let mut all = vec![];
    for item in value.try_iter()?.checked() {
        all.push(item?);
        short(all.len())?;
    }
    Ok(all)
}

pub fn short(length: usize) -> Result<(), Error> {
    if length > LONGEST_LIST {
        return Err(fail(format!("a list of more than {LONGEST_LIST} items")));
    }
    Ok(())
}

pub fn pairs(dict: &Value) -> Vec<(Value, Value)> {
    dict.as_object().and_then(|o| o.try_iter_pairs()).map_or_else(Vec::new, Iterator::collect)
}

/// How many parts a value has, if it stays within the bounds: whatever walks through one (printing, comparing, hashing,
/// dropping) takes as many steps, and as deep a stack.
pub fn weigh(value: &Value) -> Result<usize, Error> {
    let mut parts = 0;
    weigh_at(value, 0, &mut parts)?;
    Ok(parts)
}

fn weigh_at(value: &Value, depth: usize, parts: &mut usize) -> Result<(), Error> {
    *parts += 1;
    if *parts > MOST_PARTS {
        return Err(fail(format!("a list or dict of more than {MOST_PARTS} parts")));
    }
    if depth > DEEPEST {
        return Err(fail(format!("lists and dicts nest deeper than {DEEPEST} levels")));
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    let all = |items: &[Value], parts: &mut usize| items.iter().try_for_each(|i| weigh_at(i, depth + 1, parts));
    if let Some(list) = object.downcast_ref::<Vec<Value>>() {
        all(list, parts)?;
    } else if let Some(tuple) = object.downcast_ref::<Tuple>() {
        all(tuple, parts)?;
    } else if let Some(lazy) = object.downcast_ref::<Lazy>() {
        all(&lazy.left(), parts)?;
    } else if is_dict(value) {
        for (key, item) in object.try_iter_pairs().into_iter().flatten() {
            *parts += ENTRY - 2;
            weigh_at(&key, depth + 1, parts)?;
            weigh_at(&item, depth + 1, parts)?;
        }
    } else if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        object.try_iter().into_iter().flatten().try_for_each(|item| weigh_at(&item, depth + 1, parts))?;
    }
    Ok(())
}

/// The value, where it stays within the bounds; the template pays for the look.
pub fn weighed(state: &State, value: Value) -> Result<Value, Error> {
    if value.as_object().is_some() {
        state.consume_fuel(weigh(&value)? as u64 / 16)?;
    }
    Ok(value)
}

/// The value, where Python takes it for a dict's key.
pub fn hashable(value: &Value) -> Result<&Value, Error> {
    let unhashable = || fail(format!("unhashable type: '{}'", type_name(value)));
    if is_tuple(value) {
        if weigh(value)? > MOST_IN_KEY {
            return Err(fail("a dict's key is too large"));
        }
        items(value)?.iter().try_for_each(|item| hashable(item).map(drop))?;
    } else if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        return Err(unhashable());
    }
    Ok(value)
}

/// As MarkupSafe does it, with numbers for the quotes.
pub fn escape_html(text: &str) -> String {
    let marks = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;"), ("\"", "&#34;")];
    marks.iter().fold(text.to_string(), |text, (mark, name)| text.replace(mark, name))
}

/// What a filter or method was given, by position or by name, in the order of `names`.
pub fn bound<const N: usize>(
    what: &str,
    given: &[Value],
    names: [&str; N],
    required: usize,
) -> Result<[Option<Value>; N], Error> {
    let mut all = [const { None }; N];
    let (named, positional) = match given.split_last() {
        Some((last, rest)) if last.is_kwargs() => (pairs(last), rest),
        _ => (vec![], given),
    };
    if positional.len() > N {
        return Err(fail(format!("{what}: at most {N} arguments, not {}", positional.len())));
    }
    for (place, value) in all.iter_mut().zip(positional) {
        *place = Some(value.clone());
    }
    for (name, value) in named {
        let at = names.iter().position(|known| Some(*known) == name.as_str());
        match at.map(|i| &mut all[i]) {
            Some(place @ None) => *place = Some(value),
            Some(_) => return Err(fail(format!("{what}: the argument '{name}' is given twice"))),
            None => return Err(fail(format!("{what}: there is no argument '{name}'"))),
        }
    }
    match all[..required].iter().position(Option::is_none) {
        Some(missing) => Err(fail(format!("{what}: the argument '{}' is missing", names[missing]))),
        None => Ok(all),
    }
}
