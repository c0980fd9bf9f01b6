//! What the filters share for lists: sorting that can fail, attributes by path, splitting.

use std::cmp::Ordering;

use super::eval::{Given, Machine};
use super::value::Value;
use super::{is_space, methods, Error};

type Outcome<T> = Result<T, Error>;

/// A stable sort by a `less` that may fail; the first failure is the result.
pub fn sort_by<T>(items: &mut [T], less: impl Fn(&T, &T) -> Outcome<bool>) -> Outcome<()> {
    let mut failure = None;
    items.sort_by(|a, b| {
        if failure.is_some() {
            return Ordering::Equal;
        }
        match (less(a, b), less(b, a)) {
            (Ok(true), _) => Ordering::Less,
            (_, Ok(true)) => Ordering::Greater,
            (Err(e), _) | (_, Err(e)) => {
                failure = Some(e);
                Ordering::Equal
            }
            _ => Ordering::Equal,
        }
    });
    failure.map_or(Ok(()), Err)
}

/// Strings without their case, as sort, unique, min, max and groupby compare them.
pub fn caseless(value: Value) -> Value {
    match value.as_str() {
        Some(s) => Value::from(s.to_lowercase()),
        None => value,
    }
}

/// "user.tags.0": attributes or items, one after the other.
pub struct Path(Vec<Value>);

impl Path {
    pub fn new(attribute: &Value) -> Self {
        Path(match attribute.as_str() {
            Some(path) => path
                .split('.')
                .map(|part| match part.parse::<i128>() {
                    Ok(index) if part.bytes().all(|b| b.is_ascii_digit()) => Value::Int(index),
                    _ => Value::from(part),
                })
                .collect(),
            None if attribute.is_undefined() || matches!(attribute, Value::None) => vec![],
            None => vec![attribute.clone()],
        })
    }

    pub fn of(&self, value: &Value, default: Option<&Value>) -> Outcome<Value> {
        let mut at = value.clone();
        for part in &self.0 {
            at = methods::item(&at, part)?;
            if at.is_undefined() {
                if let Some(default) = default {
                    at = default.clone();
                }
            }
        }
        Ok(at)
    }
}

/// str.split and str.rsplit
pub fn split(machine: &mut Machine, s: &str, name: &str, given: Given) -> Outcome<Value> {
    let [separator, most] = given.bind(name, ["sep", "maxsplit"], 0)?;
    let most = match most.as_ref().map(|m| m.as_int().ok_or_else(|| Error::new("maxsplit must be an integer"))) {
        Some(Err(e)) => return Err(e),
        Some(Ok(m)) if m >= 0 => usize::try_from(m).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let parts: Vec<&str> = match &separator {
        None | Some(Value::None) => split_spaces(s, name == "rsplit", most),
        Some(separator) => {
            let Some(separator) = separator.as_str() else {
                return Err(Error::new(format!("{name}: the separator must be a string or none")));
            };
            if separator.is_empty() {
                return Err(Error::new("empty separator"));
            }
            let limit = most.saturating_add(1);
            if name == "split" {
                s.splitn(limit, separator).collect()
            } else {
                let mut parts: Vec<&str> = s.rsplitn(limit, separator).collect();
                parts.reverse();
                parts
            }
        }
    };
    machine.spend(parts.len())?;
    Ok(Value::list(parts.into_iter().map(Value::from).collect()))
}

fn split_spaces(s: &str, from_right: bool, most: usize) -> Vec<&str> {
    let mut parts = vec![];
    let mut rest = if from_right { s.trim_end_matches(is_space) } else { s.trim_start_matches(is_space) };
    while !rest.is_empty() {
        let cut = if parts.len() == most {
            None
        } else if from_right {
            rest.char_indices().rfind(|(_, c)| is_space(*c))
        } else {
            rest.char_indices().find(|(_, c)| is_space(*c))
        };
        let Some((at, space)) = cut else {
            parts.push(rest);
            break;
        };
        if from_right {
            parts.push(&rest[at + space.len_utf8()..]);
            rest = rest[..at].trim_end_matches(is_space);
        } else {
            parts.push(&rest[..at]);
            rest = rest[at..].trim_start_matches(is_space);
        }
    }
    if from_right {
        parts.reverse();
    }
    parts
}
