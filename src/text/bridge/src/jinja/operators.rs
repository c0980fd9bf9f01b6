//! Python's operators, where the library's own differ: in what is an error, in what is printed, and in how much memory
//! one expression may take.

use std::cmp::Ordering;

use minijinja::formatting::{self, FormatStyle};
use minijinja::value::{Tuple, Value, ValueKind};
use minijinja::{Error, State};

use super::objects::{Lazy, Namespace};
use super::print::{fits, text};
use super::values::{escape_html, fail, hashable, is_dict, is_tuple, items, short, type_name, weigh, weighed};

type Outcome = Result<Value, Error>;

/// A width beyond this is a mistake or an attack.
const WIDEST: usize = 100_000;

pub enum Number {
    Int(i128),
    Float(f64),
}

use Number::{Float, Int};

pub fn number(value: &Value) -> Option<Number> {
    match value.kind() {
        ValueKind::Bool => Some(Int(value.is_true().into())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Int),
        ValueKind::Number => f64::try_from(value.clone()).ok().map(Float),
        _ => None,
    }
}

pub fn integer(value: &Value) -> Option<i128> {
    match number(value) {
        Some(Int(i)) => Some(i),
        _ => None,
    }
}

/// Python's index or count: None is an absent one.
pub fn optional_integer(value: Option<&Value>, what: &str) -> Result<Option<i128>, Error> {
    match value {
        None => Ok(None),
        Some(value) if value.is_none() => Ok(None),
        Some(value) => {
            integer(value).map(Some).ok_or_else(|| fail(format!("{what} must be an integer, not {}", type_name(value))))
        }
    }
}

fn from_integer(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

fn unsupported(symbol: &str, a: &Value, b: &Value) -> Error {
    fail(format!("unsupported operand types for {symbol}: '{}' and '{}'", type_name(a), type_name(b)))
}

fn arithmetic(
    symbol: &str,
    a: &Value,
    b: &Value,
    integers: impl Fn(i128, i128) -> Option<i128>,
    floats: impl Fn(f64, f64) -> f64,
) -> Outcome {
    let (x, y) = match (number(a), number(b)) {
        (Some(Int(x)), Some(Int(y))) => {
            return integers(x, y).map(from_integer).ok_or_else(|| fail(format!("the result of {symbol} is too large")))
        }
        (Some(Int(x)), Some(Float(y))) => (x as f64, y),
        (Some(Float(x)), Some(Int(y))) => (x, y as f64),
        (Some(Float(x)), Some(Float(y))) => (x, y),
        _ => return Err(unsupported(symbol, a, b)),
    };
    Ok(Value::from(floats(x, y)))
}

/// A list or a tuple of these, as `like` is one.
fn sequence(state: &State, like: &Value, all: Vec<Value>) -> Outcome {
    weighed(state, if is_tuple(like) { Value::from(Tuple::from(all)) } else { Value::from(all) })
}

pub fn add(state: &mut State, a: &Value, b: &Value) -> Outcome {
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        fits(x.len() + y.len())?;
        // A marked string escapes what it meets.
        return Ok(match (a.is_safe(), b.is_safe()) {
            (false, false) => Value::from([x, y].concat()),
            (true, true) => Value::from_safe_string([x, y].concat()),
            (true, false) => Value::from_safe_string(x.to_string() + &escape_html(y)),
            (false, true) => Value::from_safe_string(escape_html(x) + y),
        });
    }
    if a.kind() == ValueKind::Seq && b.kind() == ValueKind::Seq && is_tuple(a) == is_tuple(b) {
        let mut all = items(a)?;
        all.extend(items(b)?);
        return sequence(state, a, all);
    }
    arithmetic("+", a, b, i128::checked_add, |x, y| x + y)
}

pub fn multiply(state: &mut State, a: &Value, b: &Value) -> Outcome {
    for (value, times) in [(a, b), (b, a)] {
        let Some(count) = integer(times) else { continue };
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        if let Some(s) = value.as_str() {
            fits(s.len().saturating_mul(count))?;
            let repeated = s.repeat(if s.is_empty() { 0 } else { count });
            return Ok(if value.is_safe() { Value::from_safe_string(repeated) } else { Value::from(repeated) });
        }
        if value.kind() == ValueKind::Seq {
            let all = items(value)?;
            let length = all.len().saturating_mul(count);
            short(length)?;
            return sequence(state, value, all.iter().cycle().take(length).cloned().collect());
        }
    }
    arithmetic("*", a, b, i128::checked_mul, |x, y| x * y)
}

pub fn modulo(a: &Value, b: &Value) -> Outcome {
    if let Some(layout) = a.as_str() {
        return percent(layout, b).map(Value::from);
    }
    if matches!(number(b), Some(Int(0))) || matches!(number(b), Some(Float(0.0))) {
        return Err(fail("modulo by zero"));
    }
    let integers = |x: i128, y: i128| {
        let rest = x.checked_rem(y)?;
        Some(if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest })
    };
    arithmetic("%", a, b, integers, |x, y| {
        let rest = x % y;
        match rest != 0.0 {
            true if (rest < 0.0) != (y < 0.0) => rest + y,
            true => rest,
            false => 0f64.copysign(y),
        }
    })
}

pub fn negate(value: &Value) -> Outcome {
    match number(value) {
        Some(Int(i)) => i.checked_neg().map(from_integer).ok_or_else(|| fail("the result of - is too large")),
        Some(Float(f)) => Ok(Value::from(-f)),
        None => Err(fail(format!("bad operand type for unary -: '{}'", type_name(value)))),
    }
}

pub fn concatenate(a: &Value, b: &Value) -> Outcome {
    let (x, y) = (text(a)?, text(b)?);
    fits(x.len() + y.len())?;
    Ok(Value::from([x, y].concat()))
}

/// layout % values, and the filter `format`
pub fn percent(layout: &str, values: &Value) -> Result<String, Error> {
    let values = match values.kind() {
        ValueKind::Undefined => vec![],
        _ if is_tuple(values) => items(values)?,
        _ => vec![values.clone()],
    };
    formatted(FormatStyle::Printf, layout, &values)
}

/// The library's formatting, less widths beyond reason; what it would print itself is printed as Python does.
pub fn formatted(style: FormatStyle, layout: &str, values: &[Value]) -> Result<String, Error> {
    let mut digits = 0usize;
    let mut inside = false;
    for c in layout.chars() {
        match c {
            '%' | '{' | '}' => (inside, digits) = (c != '}', 0),
            '0'..='9' if inside => digits = (digits * 10).saturating_add(c as usize - '0' as usize).min(WIDEST + 1),
            '*' if inside => return Err(fail("a format with * is not supported in chat templates")),
            _ if c.is_alphabetic() && style == FormatStyle::Printf => inside = false,
            _ => digits = 0,
        }
        if digits > WIDEST {
            return Err(fail(format!("a format wider than {WIDEST}")));
        }
    }
    let printed = |value: &Value| match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Plain => text(value).map(Value::from),
        _ => Ok(value.clone()),
    };
    let values = values.iter().map(printed).collect::<Result<Vec<_>, _>>()?;
    values.iter().try_for_each(|v| weigh(v).map(drop))?;
    let result = formatting::format(style, layout, &values)?;
    fits(result.len())?;
    Ok(result)
}

fn order(symbol: &str, a: &Value, b: &Value) -> Result<Option<Ordering>, Error> {
    match (number(a), number(b)) {
        (Some(Int(x)), Some(Int(y))) => return Ok(Some(x.cmp(&y))),
        (Some(Int(x)), Some(Float(y))) => return Ok((x as f64).partial_cmp(&y)),
        (Some(Float(x)), Some(Int(y))) => return Ok(x.partial_cmp(&(y as f64))),
        (Some(Float(x)), Some(Float(y))) => return Ok(x.partial_cmp(&y)),
        _ => {}
    }
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        return Ok(Some(x.cmp(y)));
    }
    if a.kind() == ValueKind::Seq && b.kind() == ValueKind::Seq && is_tuple(a) == is_tuple(b) {
        let (x, y) = (items(a)?, items(b)?);
        for (v, w) in x.iter().zip(&y) {
            if v != w {
                return order(symbol, v, w);
            }
        }
        return Ok(Some(x.len().cmp(&y.len())));
    }
    Err(unsupported(symbol, a, b))
}

/// <, <=, > and >=, where Python has an order.
pub fn compare(state: &State, symbol: &str, a: &Value, b: &Value) -> Result<bool, Error> {
    pay(state, a, b)?;
    let found = order(symbol, a, b)?;
    Ok(match symbol {
        "<" => found == Some(Ordering::Less),
        "<=" => matches!(found, Some(Ordering::Less | Ordering::Equal)),
        ">" => found == Some(Ordering::Greater),
        _ => matches!(found, Some(Ordering::Greater | Ordering::Equal)),
    })
}

/// Comparing costs as much as the smaller side has parts.
fn pay(state: &State, a: &Value, b: &Value) -> Result<(), Error> {
    if a.as_object().is_some() && b.as_object().is_some() {
        state.consume_fuel(2 * weigh(a)?.min(weigh(b)?) as u64)?;
    }
    Ok(())
}

pub fn equal(state: &State, a: &Value, b: &Value) -> Result<bool, Error> {
    pay(state, a, b)?;
    if Lazy::is_generator(a) || Lazy::is_generator(b) {
        return Ok(minijinja::tests::is_sameas(a, b)); // not by reading them
    }
    Ok(a == b)
}

/// item in container
pub fn contains(state: &State, item: &Value, container: &Value) -> Result<bool, Error> {
    if let Some(whole) = container.as_str() {
        return match item.as_str() {
            Some(part) => Ok(whole.contains(part)),
            None => Err(fail(format!("'in <string>' requires a string on its left, not {}", type_name(item)))),
        };
    }
    if is_dict(container) {
        let known = container.as_object().and_then(|dict| dict.get_value(hashable(item).ok()?));
        return hashable(item).map(|_| known.is_some());
    }
    let all = iterated(container)?;
    state.consume_fuel(all.len() as u64 / 8)?;
    for one in &all {
        if equal(state, one, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a loop goes through; the library takes None for an empty list.
pub fn iterable(value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Iterable => Ok(()),
        ValueKind::Map if is_dict(value) => Ok(()),
        _ => Err(fail(format!("'{}' object is not iterable", type_name(value)))),
    }
}

pub fn iterated(value: &Value) -> Result<Vec<Value>, Error> {
    iterable(value)?;
    items(value)
}

/// container[key]: what is not there is undefined.
pub fn item(container: &Value, key: &Value) -> Outcome {
    if Lazy::is_generator(container) || (key.as_object().is_some() && hashable(key).is_err()) {
        return Ok(Value::UNDEFINED);
    }
    container.get_item(key)
}

/// container[start:stop:step]
pub fn slice(state: &State, container: &Value, parts: [&Value; 3]) -> Outcome {
    let all = match container.kind() {
        ValueKind::String | ValueKind::Seq => items(container)?,
        ValueKind::Iterable if !Lazy::is_generator(container) => items(container)?,
        _ => return Err(fail(format!("'{}' object cannot be sliced", type_name(container)))),
    };
    let mut bounds = [None; 3];
    for (bound, part) in bounds.iter_mut().zip(parts) {
        *bound = optional_integer(Some(part), "a slice's index")?;
    }
    let length = all.len() as i128;
    let step = bounds[2].unwrap_or(1).clamp(-length - 1, length + 1);
    if step == 0 {
        return Err(fail("slice step cannot be zero"));
    }
    let place = |bound: Option<i128>, absent: i128| {
        let at = bound.map_or(absent, |i| if i < 0 { i.saturating_add(length) } else { i });
        if step > 0 {
            at.clamp(0, length)
        } else {
            at.clamp(-1, length - 1)
        }
    };
    let (mut at, end) = match step > 0 {
        true => (place(bounds[0], 0), place(bounds[1], length)),
        // An absent end lies before the first item, where no index reaches.
        false => (place(bounds[0], length - 1), bounds[1].map_or(-1, |i| place(Some(i), -1))),
    };
    let mut picked = vec![];
    while if step > 0 { at < end } else { at > end } {
        picked.push(all[at as usize].clone());
        at += step;
    }
    if container.kind() == ValueKind::String {
        let joined: String = picked.iter().filter_map(Value::as_str).collect();
        return Ok(if container.is_safe() { Value::from_safe_string(joined) } else { Value::from(joined) });
    }
    sequence(state, container, picked)
}

/// set namespace.name = value
pub fn assign(state: &State, value: &Value, target: &Value, name: &Value) -> Outcome {
    let Some(namespace) = target.downcast_object_ref::<Namespace>() else {
        return Err(fail(format!("cannot assign an attribute of a '{}', only of a namespace", type_name(target))));
    };
    let value = match value.kind() {
        ValueKind::Iterable => Value::from(items(value)?), // else each pass would wrap the one before
        _ => value.clone(),
    };
    namespace.set(name.as_str().unwrap_or_default(), weighed(state, value)?);
    Ok(Value::from(()))
}
