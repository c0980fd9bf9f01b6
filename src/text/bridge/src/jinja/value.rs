//! Values as Python has them: what they are, when they are equal, how they print.

use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::ast::{For, Macro, Name};
use super::eval::Scope;
use super::{text, Error};

/// Bytes of one text, the whole output among them.
pub const LONGEST_TEXT: usize = 64 << 20;

#[derive(Clone, Debug)]
pub enum Value {
    /// What is missing, for the message of whoever uses it.
    Undefined(Rc<str>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Rc<str>),
    /// A string that `safe` or `escape` has marked.
    Markup(Rc<str>),
    List(Rc<Seq>),
    Tuple(Rc<Seq>),
    /// groupby's pairs: a tuple with names.
    Group(Rc<Seq>),
    Dict(Rc<Dict>),
    View(View, Rc<Dict>),
    Range(i128, i128, i128),
    Iterator(Rc<RefCell<Stream>>),
    Namespace(Rc<RefCell<Dict>>),
    Macro(Rc<Closure>),
    Function(&'static str),
    Method(Rc<(Value, Rc<str>)>),
    Loop(Rc<LoopState>),
    Cycler(Rc<(Vec<Value>, RefCell<usize>)>),
    Joiner(Rc<(Rc<str>, RefCell<bool>)>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View {
    Keys,
    Values,
    Items,
}

/// Items, and how deep lists and dicts nest in them: deep ones would overflow the stack when they print or go.
#[derive(Debug)]
pub struct Seq {
    items: Vec<Value>,
    depth: usize,
}

impl Seq {
    pub fn new(items: Vec<Value>) -> Rc<Self> {
        let depth = items.iter().map(Value::depth).max().unwrap_or(0) + 1;
        Rc::new(Seq { items, depth })
    }
}

impl std::ops::Deref for Seq {
    type Target = Vec<Value>;
    fn deref(&self) -> &Vec<Value> {
        &self.items
    }
}

/// What is left of an iterator; the error that stands at its end, if it ends in one.
#[derive(Debug)]
pub struct Stream {
    pub items: VecDeque<Value>,
    pub error: Option<Error>,
}

#[derive(Debug)]
pub struct Closure {
    pub definition: Rc<Macro>,
    pub scope: Scope,
}

#[derive(Debug)]
pub struct LoopState {
    pub items: Vec<Value>,
    pub index: RefCell<usize>,
    pub depth: usize,
    pub changed: RefCell<Option<Vec<Value>>>,
    /// For `recursive` loops: the loop itself and where it stands.
    pub again: Option<(Rc<For>, Scope)>,
}

/// In order of insertion, with Python's equality of keys: 1, 1.0 and true are one key.
#[derive(Debug, Default)]
pub struct Dict {
    entries: Vec<(Value, Value)>,
    index: HashMap<u64, Vec<usize>>,
    depth: usize,
}

impl Dict {
    pub fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn position(&self, key: &Value, hash: u64) -> Option<usize> {
        self.index.get(&hash)?.iter().copied().find(|i| self.entries[*i].0.equals(key))
    }

    /// The error is Python's for a key that cannot be one.
    pub fn get(&self, key: &Value) -> Result<Option<&Value>, Error> {
        let hash = key.hash()?;
        Ok(self.position(key, hash).map(|i| &self.entries[i].1))
    }

    pub fn get_str(&self, key: &str) -> Option<&Value> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let found = self.index.get(&hasher.finish())?.iter().find(|i| self.entries[**i].0.as_str() == Some(key))?;
        Some(&self.entries[*found].1)
    }

    /// An equal key keeps its place and its spelling.
    pub fn insert(&mut self, key: Value, value: Value) -> Result<(), Error> {
        let hash = key.hash()?;
        self.depth = self.depth.max(key.depth()).max(value.depth());
        match self.position(&key, hash) {
            Some(i) => self.entries[i].1 = value,
            None => {
                self.index.entry(hash).or_default().push(self.entries.len());
                self.entries.push((key, value));
            }
        }
        Ok(())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Str(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Str(text.into())
    }
}

impl Value {
    pub fn list(items: Vec<Value>) -> Self {
        Value::List(Seq::new(items))
    }

    pub fn tuple(items: Vec<Value>) -> Self {
        Value::Tuple(Seq::new(items))
    }

    pub fn iterator(items: impl IntoIterator<Item = Value>) -> Self {
        Value::Iterator(Rc::new(RefCell::new(Stream { items: items.into_iter().collect(), error: None })))
    }

    pub fn undefined(what: impl AsRef<str>) -> Self {
        Value::Undefined(what.as_ref().into())
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(s) | Value::Markup(s) => Some(s),
            _ => None,
        }
    }

    pub fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined(_))
    }

    /// bool is an int in Python.
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Value::Int(i) => Some(*i),
            Value::Bool(b) => Some(i128::from(*b)),
            _ => None,
        }
    }

    pub fn as_number(&self) -> Option<f64> {
        match self {
            Value::Float(f) => Some(*f),
            other => other.as_int().map(|i| i as f64),
        }
    }

    /// The elements of a list or a tuple.
    pub fn as_items(&self) -> Option<&Rc<Seq>> {
        match self {
            Value::List(items) | Value::Tuple(items) | Value::Group(items) => Some(items),
            _ => None,
        }
    }

    pub fn depth(&self) -> usize {
        match self {
            Value::List(items) | Value::Tuple(items) | Value::Group(items) => items.depth,
            Value::Dict(dict) | Value::View(_, dict) => dict.depth + 1,
            Value::Cycler(cycler) => cycler.0.iter().map(Value::depth).max().unwrap_or(0) + 1,
            Value::Method(method) => method.0.depth() + 1,
            Value::Iterator(stream) => {
                // Its own items may be iterators, but not itself.
                stream.try_borrow().map_or(1, |s| s.items.iter().map(Value::depth).max().unwrap_or(0) + 1)
            }
            Value::Namespace(_) | Value::Loop(_) | Value::Macro(_) => 1,
            _ => 0,
        }
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Undefined(_) => "Undefined",
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::Markup(_) => "Markup",
            Value::List(_) => "list",
            Value::Tuple(_) | Value::Group(_) => "tuple",
            Value::Dict(_) => "dict",
            Value::View(View::Keys, _) => "dict_keys",
            Value::View(View::Values, _) => "dict_values",
            Value::View(View::Items, _) => "dict_items",
            Value::Range(..) => "range",
            Value::Iterator(_) => "generator",
            Value::Namespace(_) => "Namespace",
            Value::Macro(_) => "Macro",
            Value::Function(_) => "function",
            Value::Method(_) => "builtin_function_or_method",
            Value::Loop(_) => "LoopContext",
            Value::Cycler(_) => "Cycler",
            Value::Joiner(_) => "Joiner",
        }
    }

    pub fn truth(&self) -> bool {
        match self {
            Value::Undefined(_) | Value::None => false,
            Value::Bool(b) => *b,
            Value::Int(i) => *i != 0,
            Value::Float(f) => *f != 0.0,
            other => other.length().is_none_or(|n| n != 0),
        }
    }

    /// len(), for what has one.
    pub fn length(&self) -> Option<usize> {
        Some(match self {
            Value::Undefined(_) => 0,
            Value::Str(s) | Value::Markup(s) => s.chars().count(),
            Value::List(items) | Value::Tuple(items) | Value::Group(items) => items.len(),
            Value::Dict(d) | Value::View(_, d) => d.len(),
            Value::Range(start, stop, step) => range_length(*start, *stop, *step) as usize,
            Value::Loop(state) => state.items.len(),
            _ => return None,
        })
    }

    pub fn equals(&self, other: &Value) -> bool {
        if let (Some(a), Some(b)) = (self.as_int(), other.as_int()) {
            return a == b;
        }
        if let (Some(a), Some(b)) = (self.as_number(), other.as_number()) {
            return a == b;
        }
        if let (Some(a), Some(b)) = (self.as_str(), other.as_str()) {
            return a == b;
        }
        let same = |a: &[Value], b: &[Value]| a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.equals(y));
        match (self, other) {
            (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
            (Value::List(a), Value::List(b)) => same(a, b),
            (Value::Tuple(a) | Value::Group(a), Value::Tuple(b) | Value::Group(b)) => same(a, b),
            (Value::Dict(a), Value::Dict(b)) => {
                a.len() == b.len() && a.entries().iter().all(|(k, v)| matches!(b.get(k), Ok(Some(w)) if v.equals(w)))
            }
            (Value::Range(a, b, c), Value::Range(d, e, f)) => range_values(*a, *b, *c).eq(range_values(*d, *e, *f)),
            (Value::Namespace(a), Value::Namespace(b)) => Rc::ptr_eq(a, b),
            (Value::Macro(a), Value::Macro(b)) => Rc::ptr_eq(a, b),
            (Value::Loop(a), Value::Loop(b)) => Rc::ptr_eq(a, b),
            (Value::Iterator(a), Value::Iterator(b)) => Rc::ptr_eq(a, b),
            (Value::Function(a), Value::Function(b)) => a == b,
            _ => false,
        }
    }

    fn hash(&self) -> Result<u64, Error> {
        let mut hasher = DefaultHasher::new();
        self.hash_into(&mut hasher)?;
        Ok(hasher.finish())
    }

    fn hash_into(&self, hasher: &mut DefaultHasher) -> Result<(), Error> {
        match self {
            Value::Str(s) | Value::Markup(s) => s.hash(hasher),
            Value::Int(_) | Value::Bool(_) => self.as_int().hash(hasher),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e30 => Some(*f as i128).hash(hasher),
            Value::Float(f) => f.to_bits().hash(hasher),
            Value::None | Value::Undefined(_) => self.type_name().hash(hasher),
            Value::Tuple(items) | Value::Group(items) => {
                items.len().hash(hasher);
                for item in items.iter() {
                    item.hash_into(hasher)?;
                }
            }
            other => return Err(Error::new(format!("unhashable type: '{}'", other.type_name()))),
        }
        Ok(())
    }

    /// What the value is made of when it is iterated over; None for what cannot be. An iterator is used up.
    pub fn iterate(&self) -> Result<Option<Vec<Value>>, Error> {
        Ok(Some(match self {
            Value::Undefined(_) => vec![],
            Value::Str(s) | Value::Markup(s) => {
                let mut buffer = [0; 4];
                s.chars().map(|c| Value::from(&*c.encode_utf8(&mut buffer))).collect()
            }
            Value::List(items) | Value::Tuple(items) | Value::Group(items) => items.to_vec(),
            Value::Dict(d) | Value::View(View::Keys, d) => d.entries().iter().map(|e| e.0.clone()).collect(),
            Value::View(View::Values, d) => d.entries().iter().map(|e| e.1.clone()).collect(),
            Value::View(View::Items, d) => {
                d.entries().iter().map(|e| Value::tuple(vec![e.0.clone(), e.1.clone()])).collect()
            }
            Value::Range(start, stop, step) => range_values(*start, *stop, *step).map(Value::Int).collect(),
            Value::Iterator(stream) => {
                let mut stream = stream.borrow_mut();
                if let Some(error) = stream.error.take() {
                    return Err(error);
                }
                std::mem::take(&mut stream.items).into()
            }
            _ => return Ok(None),
        }))
    }

    /// str(): what `{{ }}` prints. The output is bounded by the caller.
    pub fn print(&self, out: &mut String) {
        match self {
            Value::Undefined(_) => {}
            Value::Str(s) | Value::Markup(s) => out.push_str(s),
            other => other.repr(out),
        }
    }

    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.print(&mut out);
        out
    }

    pub fn repr(&self, out: &mut String) {
        match self {
            Value::Undefined(_) => out.push_str("Undefined"),
            Value::None => out.push_str("None"),
            Value::Bool(b) => out.push_str(if *b { "True" } else { "False" }),
            Value::Int(i) => drop(write!(out, "{i}")),
            Value::Float(f) => out.push_str(&text::float_repr(*f)),
            Value::Str(s) => text::repr(s, out),
            Value::Markup(s) => {
                out.push_str("Markup(");
                text::repr(s, out);
                out.push(')');
            }
            Value::List(items) => sequence(items, "[", "]", out),
            Value::Tuple(items) | Value::Group(items) if items.len() == 1 => sequence(items, "(", ",)", out),
            Value::Tuple(items) | Value::Group(items) => sequence(items, "(", ")", out),
            Value::Dict(d) => mapping(d, out),
            Value::View(view, d) => {
                let _ = write!(out, "{}([", self.type_name());
                for (i, (key, value)) in d.entries().iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { ", " });
                    match view {
                        View::Keys => key.repr(out),
                        View::Values => value.repr(out),
                        View::Items => {
                            out.push('(');
                            key.repr(out);
                            out.push_str(", ");
                            value.repr(out);
                            out.push(')');
                        }
                    }
                }
                out.push_str("])");
            }
            Value::Range(start, stop, 1) => drop(write!(out, "range({start}, {stop})")),
            Value::Range(start, stop, step) => drop(write!(out, "range({start}, {stop}, {step})")),
            Value::Namespace(d) => {
                out.push_str("<Namespace ");
                // One that contains itself does not print itself again.
                match d.try_borrow_mut() {
                    Ok(contents) => mapping(&contents, out),
                    Err(_) => out.push_str("{...}"),
                }
                out.push('>');
            }
            Value::Macro(closure) => {
                out.push_str("<Macro ");
                text::repr(&closure.definition.name, out);
                out.push('>');
            }
            Value::Loop(state) => {
                let _ = write!(out, "<LoopContext {}/{}>", *state.index.borrow() + 1, state.items.len());
            }
            Value::Function(name) => drop(write!(out, "<function {name}>")),
            Value::Method(method) => {
                let _ = write!(out, "<built-in method {} of {} object>", method.1, method.0.type_name());
            }
            Value::Iterator(_) | Value::Cycler(_) | Value::Joiner(_) => {
                let _ = write!(out, "<{} object>", self.type_name());
            }
        }
    }
}

fn sequence(items: &[Value], open: &str, close: &str, out: &mut String) {
    out.push_str(open);
    for (i, item) in items.iter().enumerate() {
        if out.len() > LONGEST_TEXT {
            return;
        }
        out.push_str(if i == 0 { "" } else { ", " });
        item.repr(out);
    }
    out.push_str(close);
}

fn mapping(dict: &Dict, out: &mut String) {
    out.push('{');
    for (i, (key, value)) in dict.entries().iter().enumerate() {
        if out.len() > LONGEST_TEXT {
            return;
        }
        out.push_str(if i == 0 { "" } else { ", " });
        key.repr(out);
        out.push_str(": ");
        value.repr(out);
    }
    out.push('}');
}

pub fn range_length(start: i128, stop: i128, step: i128) -> i128 {
    if step > 0 && stop > start {
        (stop - start - 1) / step + 1
    } else if step < 0 && start > stop {
        (start - stop - 1) / -step + 1
    } else {
        0
    }
}

pub fn range_values(start: i128, stop: i128, step: i128) -> impl Iterator<Item = i128> {
    (0..range_length(start, stop, step)).map(move |i| start + i * step)
}

/// A name's value among few: scopes are small.
pub type Bindings = Vec<(Name, Value)>;
