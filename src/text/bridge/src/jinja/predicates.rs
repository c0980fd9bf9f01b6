//! What may stand after `is`.

use std::rc::Rc;

use super::ast::Comparison;
use super::eval::Given;
use super::value::Value;
use super::{filters, methods, operators, text, Error};

const NAMES: [&str; 39] = [
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

pub fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

fn modulo(value: &Value, by: &Value) -> Result<Value, Error> {
    operators::binary(super::ast::Operator::Mod, value, by)
}

pub fn test(name: &str, value: &Value, given: Given) -> Result<bool, Error> {
    let comparison = match name {
        "==" | "eq" | "equalto" => Some(Comparison::Eq),
        "!=" | "ne" => Some(Comparison::Ne),
        "<" | "lt" | "lessthan" => Some(Comparison::Lt),
        "<=" | "le" => Some(Comparison::Le),
        ">" | "gt" | "greaterthan" => Some(Comparison::Gt),
        ">=" | "ge" => Some(Comparison::Ge),
        "in" => Some(Comparison::In),
        _ => None,
    };
    let operand = |given: Given| given.bind(name, ["other"], 1).map(|[other]| other.unwrap_or(Value::None));
    if let Some(comparison) = comparison {
        return operators::compare(comparison, value, &operand(given)?);
    }
    match name {
        "divisibleby" => return Ok(modulo(value, &operand(given)?)?.equals(&Value::Int(0))),
        "sameas" => return Ok(same(value, &operand(given)?)),
        _ if !exists(name) => return Err(Error::new(format!("no test named '{name}'"))),
        _ => given.bind::<0>(name, [], 0)?,
    };
    Ok(match name {
        "boolean" => matches!(value, Value::Bool(_)),
        "callable" => matches!(
            value,
            Value::Macro(_)
                | Value::Function(_)
                | Value::Method(_)
                | Value::Loop(_)
                | Value::Joiner(_)
                | Value::Undefined(_)
        ),
        "defined" => !value.is_undefined(),
        "undefined" => value.is_undefined(),
        "escaped" => matches!(value, Value::Markup(_)),
        "even" => modulo(value, &Value::Int(2))?.equals(&Value::Int(0)),
        "odd" => modulo(value, &Value::Int(2))?.equals(&Value::Int(1)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "none" => matches!(value, Value::None),
        "filter" | "test" if matches!(value, Value::List(_) | Value::Dict(_)) => {
            return Err(Error::new(format!("unhashable type: '{}'", value.type_name())));
        }
        "filter" => value.as_str().is_some_and(filters::exists),
        "test" => value.as_str().is_some_and(exists),
        "float" => matches!(value, Value::Float(_)),
        "integer" => matches!(value, Value::Int(_)),
        "number" => value.as_number().is_some(),
        "iterable" => {
            !matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::None)
                && !matches!(value, Value::Macro(_) | Value::Function(_) | Value::Method(_) | Value::Namespace(_))
                && !matches!(value, Value::Cycler(_) | Value::Joiner(_))
        }
        "mapping" => matches!(value, Value::Dict(_)),
        "sequence" => {
            value.as_str().is_some()
                || value.as_items().is_some()
                || matches!(value, Value::Dict(_) | Value::Range(..) | Value::Undefined(_))
        }
        "string" => value.as_str().is_some(),
        "lower" => methods::is_lower(&value.to_text()),
        "upper" => methods::is_upper(&value.to_text()),
        _ => return Err(Error::new(format!("no test named '{name}'"))),
    })
}

/// Python's `is`, as far as values here have an identity.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(x), Value::List(y)) | (Value::Tuple(x), Value::Tuple(y)) => Rc::ptr_eq(x, y),
        (Value::Dict(x), Value::Dict(y)) => Rc::ptr_eq(x, y),
        _ => a.type_name() == b.type_name() && a.equals(b),
    }
}

/// Small helper of the filters: letters and digits, as `\w` has them.
pub fn is_word(c: char) -> bool {
    c == '_' || text::is_letter(c) || text::is_numeric(c) || text::is_digit(c)
}
