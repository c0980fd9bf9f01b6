//! Python's operators on values.

use std::cmp::Ordering;
use std::rc::Rc;

use super::ast::{Comparison, Operator};
use super::value::{range_values, Seq, Value, LONGEST_TEXT};
use super::{format, text, Error};

pub const LONGEST_LIST: usize = 4_000_000;

fn unsupported(symbol: &str, a: &Value, b: &Value) -> Error {
    for value in [a, b] {
        if let Value::Undefined(what) = value {
            return Error::new(format!("{what} is undefined"));
        }
    }
    Error::new(format!("unsupported operand types for {symbol}: '{}' and '{}'", a.type_name(), b.type_name()))
}

fn overflow() -> Error {
    Error::new("integer is too large")
}

pub fn text_fits(bytes: usize) -> Result<(), Error> {
    if bytes > LONGEST_TEXT {
        return Err(Error::new(format!("a text of more than {} MiB", LONGEST_TEXT >> 20)));
    }
    Ok(())
}

pub fn binary(operator: Operator, a: &Value, b: &Value) -> Result<Value, Error> {
    match operator {
        Operator::Add => add(a, b),
        Operator::Sub => arithmetic("-", a, b, i128::checked_sub, |x, y| x - y),
        Operator::Mul => multiply(a, b),
        Operator::Div => {
            let (Some(x), Some(y)) = (a.as_number(), b.as_number()) else { return Err(unsupported("/", a, b)) };
            if y == 0.0 {
                return Err(Error::new("division by zero"));
            }
            Ok(Value::Float(x / y))
        }
        Operator::FloorDiv => {
            nonzero("//", a, b)?;
            arithmetic("//", a, b, floor_div, |x, y| float_floor_div(x, y).0)
        }
        Operator::Mod => {
            if a.as_str().is_some() {
                return format::percent(a, b);
            }
            nonzero("%", a, b)?;
            arithmetic("%", a, b, |x, y| Some(x - floor_div(x, y)? * y), |x, y| float_floor_div(x, y).1)
        }
        Operator::Pow => power(a, b),
    }
}

fn nonzero(symbol: &str, a: &Value, b: &Value) -> Result<(), Error> {
    match (a.as_number(), b.as_number()) {
        (Some(_), Some(0.0)) => Err(Error::new("integer division or modulo by zero")),
        (Some(_), Some(_)) => Ok(()),
        _ => Err(unsupported(symbol, a, b)),
    }
}

fn floor_div(x: i128, y: i128) -> Option<i128> {
    let quotient = x.checked_div(y)?;
    Some(if x % y != 0 && (x < 0) != (y < 0) { quotient - 1 } else { quotient })
}

/// Python's divmod of floats: the remainder has the divisor's sign.
fn float_floor_div(x: f64, y: f64) -> (f64, f64) {
    let mut remainder = x % y;
    let mut quotient = (x - remainder) / y;
    if remainder != 0.0 {
        if (y < 0.0) != (remainder < 0.0) {
            remainder += y;
            quotient -= 1.0;
        }
    } else {
        remainder = 0f64.copysign(y);
    }
    let floored = if quotient == 0.0 {
        0f64.copysign(x / y)
    } else {
        let floor = quotient.floor();
        if quotient - floor > 0.5 {
            floor + 1.0
        } else {
            floor
        }
    };
    (floored, remainder)
}

fn arithmetic(
    symbol: &str,
    a: &Value,
    b: &Value,
    integers: impl Fn(i128, i128) -> Option<i128>,
    floats: impl Fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return integers(x, y).map(Value::Int).ok_or_else(overflow);
    }
    match (a.as_number(), b.as_number()) {
        (Some(x), Some(y)) => Ok(Value::Float(floats(x, y))),
        _ => Err(unsupported(symbol, a, b)),
    }
}

fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        text_fits(x.len() + y.len())?;
        // A marked string escapes what it meets.
        return Ok(match (a, b) {
            (Value::Markup(_), Value::Markup(_)) => Value::Markup((x.to_string() + y).into()),
            (Value::Markup(_), _) => Value::Markup((x.to_string() + &text::escape_html(y)).into()),
            (_, Value::Markup(_)) => Value::Markup((text::escape_html(x) + y).into()),
            _ => {
                let mut joined = String::with_capacity(x.len() + y.len());
                joined.push_str(x);
                joined.push_str(y);
                Value::from(joined)
            }
        });
    }
    let joined = |x: &[Value], y: &[Value]| {
        if x.len() + y.len() > LONGEST_LIST {
            return Err(Error::new("a list is too long"));
        }
        Ok([x, y].concat())
    };
    match (a, b) {
        (Value::List(x), Value::List(y)) => Ok(Value::list(joined(x, y)?)),
        (Value::Tuple(x) | Value::Group(x), Value::Tuple(y) | Value::Group(y)) => Ok(Value::tuple(joined(x, y)?)),
        (Value::Str(_) | Value::Markup(_), other) if !other.is_undefined() => {
            let kind = other.type_name();
            Err(Error::new(format!("can only concatenate str (not \"{kind}\") to str; convert it with | string")))
        }
        _ => arithmetic("+", a, b, i128::checked_add, |x, y| x + y),
    }
}

fn multiply(a: &Value, b: &Value) -> Result<Value, Error> {
    for (value, times) in [(a, b), (b, a)] {
        let Some(count) = times.as_int() else { continue };
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        if let Some(s) = value.as_str() {
            text_fits(s.len().saturating_mul(count))?;
            let repeated: Rc<str> = s.repeat(if s.is_empty() { 0 } else { count }).into();
            return Ok(if matches!(value, Value::Markup(_)) { Value::Markup(repeated) } else { Value::Str(repeated) });
        }
        if let Some(items) = value.as_items() {
            let length = items.len().saturating_mul(count);
            if length > LONGEST_LIST {
                return Err(Error::new("a list is too long"));
            }
            let repeated = Seq::new(items.iter().cycle().take(length).cloned().collect());
            return Ok(if matches!(value, Value::List(_)) { Value::List(repeated) } else { Value::Tuple(repeated) });
        }
    }
    arithmetic("*", a, b, i128::checked_mul, |x, y| x * y)
}

fn power(a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        if y >= 0 {
            let exponent = u32::try_from(y).map_err(|_| overflow());
            return match x {
                0 | 1 => Ok(Value::Int(if y == 0 { 1 } else { x })),
                -1 => Ok(Value::Int(if y % 2 == 0 { 1 } else { -1 })),
                _ => x.checked_pow(exponent?).map(Value::Int).ok_or_else(overflow),
            };
        }
    }
    let (Some(x), Some(y)) = (a.as_number(), b.as_number()) else { return Err(unsupported("**", a, b)) };
    if x == 0.0 && y < 0.0 {
        return Err(Error::new("zero to a negative power"));
    }
    if x < 0.0 && y.fract() != 0.0 {
        return Err(Error::new("complex numbers are not supported"));
    }
    let result = x.powf(y);
    if result.is_infinite() && x.is_finite() && y.is_finite() {
        return Err(Error::new("the result of ** is too large"));
    }
    Ok(Value::Float(result))
}

pub fn negate(value: &Value, positive: bool) -> Result<Value, Error> {
    match value {
        Value::Float(f) => Ok(Value::Float(if positive { *f } else { -f })),
        other => match other.as_int() {
            Some(i) if positive => Ok(Value::Int(i)),
            Some(i) => i.checked_neg().map(Value::Int).ok_or_else(overflow),
            None => match other {
                Value::Undefined(what) => Err(Error::new(format!("{what} is undefined"))),
                _ => Err(Error::new(format!("bad operand type for unary -: '{}'", other.type_name()))),
            },
        },
    }
}

/// a < b, where Python has an order.
pub fn less(a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(order("<", a, b)? == Some(Ordering::Less))
}

fn order(symbol: &str, a: &Value, b: &Value) -> Result<Option<Ordering>, Error> {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return Ok(Some(x.cmp(&y)));
    }
    if let (Some(x), Some(y)) = (a.as_number(), b.as_number()) {
        return Ok(x.partial_cmp(&y));
    }
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        return Ok(Some(x.cmp(y)));
    }
    match (a, b) {
        (Value::List(x), Value::List(y)) | (Value::Tuple(x) | Value::Group(x), Value::Tuple(y) | Value::Group(y)) => {
            for (v, w) in x.iter().zip(y.iter()) {
                if !v.equals(w) {
                    return order(symbol, v, w);
                }
            }
            Ok(Some(x.len().cmp(&y.len())))
        }
        _ => Err(unsupported(symbol, a, b)),
    }
}

pub fn compare(operator: Comparison, a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(match operator {
        Comparison::Eq => a.equals(b),
        Comparison::Ne => !a.equals(b),
        Comparison::Lt => order("<", a, b)? == Some(Ordering::Less),
        Comparison::Gt => order(">", a, b)? == Some(Ordering::Greater),
        Comparison::Le => matches!(order("<=", a, b)?, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Ge => matches!(order(">=", a, b)?, Some(Ordering::Greater | Ordering::Equal)),
        Comparison::In => contains(b, a)?,
        Comparison::NotIn => !contains(b, a)?,
    })
}

/// item in container
pub fn contains(container: &Value, item: &Value) -> Result<bool, Error> {
    if let Some(whole) = container.as_str() {
        let Some(part) = item.as_str() else {
            let kind = item.type_name();
            return Err(Error::new(format!("'in <string>' requires a string on its left, not {kind}")));
        };
        return Ok(whole.contains(part));
    }
    if let Some(items) = container.as_items() {
        return Ok(items.iter().any(|i| i.equals(item)));
    }
    match container {
        Value::Dict(d) => Ok(d.get(item)?.is_some()),
        Value::Range(start, stop, step) => {
            Ok(item.as_int().is_some_and(|i| range_values(*start, *stop, *step).any(|v| v == i)))
        }
        other => match other.iterate()? {
            Some(items) => Ok(items.iter().any(|i| i.equals(item))),
            None => Err(Error::new(format!("'in' needs a container on its right, not '{}'", other.type_name()))),
        },
    }
}

/// Where Python's index lands in a sequence of that length.
fn position(index: i128, length: usize) -> Option<usize> {
    let length = length as i128;
    let at = if index < 0 { index + length } else { index };
    (0..length).contains(&at).then_some(at as usize)
}

/// value[index]: None where Python would raise a LookupError or TypeError, which Jinja makes undefined.
pub fn item(value: &Value, index: &Value) -> Option<Value> {
    match value {
        Value::Dict(d) => d.get(index).ok().flatten().cloned(),
        Value::Str(s) | Value::Markup(s) => {
            let index = index.as_int()?;
            let at = if s.is_ascii() {
                position(index, s.len()).map(|i| &s[i..=i])
            } else {
                position(index, s.chars().count()).and_then(|i| {
                    let (start, c) = s.char_indices().nth(i)?;
                    Some(&s[start..start + c.len_utf8()])
                })
            };
            at.map(Value::from)
        }
        Value::Range(start, stop, step) => {
            let at = position(index.as_int()?, value.length()?)?;
            let _ = stop;
            Some(Value::Int(start + at as i128 * step))
        }
        other => {
            let items = other.as_items()?;
            Some(items[position(index.as_int()?, items.len())?].clone())
        }
    }
}

/// value[start:stop:step]; what cannot be sliced is an error, unlike an index that is not there.
pub fn slice(value: &Value, parts: [Option<Value>; 3]) -> Result<Value, Error> {
    let not_sliced = || Error::new(format!("'{}' object cannot be sliced", value.type_name()));
    let length = value.length().ok_or_else(not_sliced)?;
    let mut bounds = [None; 3];
    for (bound, part) in bounds.iter_mut().zip(&parts) {
        match part {
            None | Some(Value::None) => {}
            Some(given) => match given.as_int() {
                Some(i) => *bound = Some(i),
                None => return Err(Error::new("slice indices must be integers or none")),
            },
        }
    }
    let length = length as i128;
    let step = bounds[2].unwrap_or(1);
    if step == 0 {
        return Err(Error::new("slice step cannot be zero"));
    }
    let clamp = |bound: Option<i128>, absent: i128| match bound {
        None => absent,
        Some(i) => {
            let at = if i < 0 { i.saturating_add(length) } else { i };
            if step > 0 {
                at.clamp(0, length)
            } else {
                at.clamp(-1, length - 1)
            }
        }
    };
    let (first, last) = if step > 0 { (0, length) } else { (length - 1, -1) };
    let step = step.clamp(-length - 1, length + 1);
    let picked = range_values(clamp(bounds[0], first), clamp(bounds[1], last), step).map(|i| i as usize);
    Ok(match value {
        Value::Str(s) | Value::Markup(s) => {
            let text: String = if s.is_ascii() {
                picked.map(|i| s.as_bytes()[i] as char).collect()
            } else {
                let chars: Vec<char> = s.chars().collect();
                picked.map(|i| chars[i]).collect()
            };
            if matches!(value, Value::Markup(_)) { Value::Markup(text.into()) } else { Value::from(text) }
        }
        Value::Range(start, _, by) => {
            let all: Vec<usize> = picked.collect();
            let at = |i: usize| start + i as i128 * by;
            match (all.first(), all.last()) {
                (Some(a), Some(b)) => Value::Range(at(*a), at(*b) + (by * step).signum(), by * step),
                _ => Value::Range(*start, *start, by * step),
            }
        }
        Value::List(items) => Value::list(picked.map(|i| items[i].clone()).collect()),
        Value::Tuple(items) | Value::Group(items) => Value::tuple(picked.map(|i| items[i].clone()).collect()),
        _ => return Err(not_sliced()),
    })
}
