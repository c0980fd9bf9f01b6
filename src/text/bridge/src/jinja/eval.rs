//! The interpreter: statements to text, expressions to values.

use std::cell::RefCell;
use std::rc::Rc;

use super::ast::*;
use super::strftime::Clock;
use super::value::{range_length, Bindings, Closure, Dict, LoopState, Value, LONGEST_TEXT};
use super::{filters, methods, operators, predicates, text, Error};

/// Steps of one rendering: some seconds of work, thousands of times what a conversation needs.
const FUEL: u64 = 30_000_000;
/// How deep evaluation may go, macros that call macros included; Python stops at 1000 calls.
const DEEPEST: usize = 1200;
/// How deep lists and dicts may nest, and how many namespaces (which can hold each other) there may be.
const DEEPEST_VALUE: usize = 200;
const MOST_NAMESPACES: usize = 1000;
/// transformers' sandbox has the same limit on range().
const LONGEST_RANGE: i128 = 100_000;

type Outcome<T> = Result<T, Error>;

#[derive(Debug)]
pub struct ScopeData {
    names: RefCell<Bindings>,
    parent: Option<Scope>,
}

pub type Scope = Rc<ScopeData>;

fn inside(parent: &Scope) -> Scope {
    Rc::new(ScopeData { names: RefCell::default(), parent: Some(parent.clone()) })
}

impl ScopeData {
    fn set(&self, name: &Name, value: Value) {
        let mut names = self.names.borrow_mut();
        match names.iter_mut().find(|n| n.0 == *name) {
            Some(known) => known.1 = value,
            None => names.push((name.clone(), value)),
        }
    }

    fn find(&self, name: &str) -> Option<Value> {
        let mut scope = self;
        loop {
            if let Some((_, value)) = scope.names.borrow().iter().find(|n| &*n.0 == name) {
                return Some(value.clone());
            }
            scope = scope.parent.as_deref()?;
        }
    }
}

enum Flow {
    On,
    Break,
    Continue,
}

/// Arguments of a call, evaluated.
#[derive(Default)]
pub struct Given {
    pub positional: Vec<Value>,
    pub keyword: Vec<(Name, Value)>,
}

impl Given {
    /// By the names of a function's parameters, of which the first `needed` must be there.
    pub fn bind<const N: usize>(self, function: &str, names: [&str; N], needed: usize) -> Outcome<[Option<Value>; N]> {
        if self.positional.len() > N {
            let given = self.positional.len();
            return Err(Error::new(format!("{function}: takes at most {N} arguments, {given} were given")));
        }
        let mut bound = [const { None }; N];
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.keyword {
            let Some(i) = names.iter().position(|n| **n == *name) else {
                return Err(Error::new(format!("{function}: has no argument named '{name}'")));
            };
            if bound[i].replace(value).is_some() {
                return Err(Error::new(format!("{function}: got two values for argument '{name}'")));
            }
        }
        if let Some(missing) = (0..needed).find(|i| bound[*i].is_none()) {
            return Err(Error::new(format!("{function}: the argument '{}' is missing", names[missing])));
        }
        Ok(bound)
    }
}

pub struct Machine {
    root: Scope,
    fuel: u64,
    depth: usize,
    autoescape: bool,
    pub clock: Clock,
    namespaces: Vec<Rc<RefCell<Dict>>>,
    /// Scopes that macros hold, and that hold macros: emptied at the end, or they would keep each other alive.
    closed_over: Vec<Scope>,
}

pub fn render(statements: &[Statement], variables: Bindings, clock: Clock) -> Outcome<String> {
    let globals = methods::GLOBALS.iter().map(|name| (Name::from(*name), Value::Function(name))).collect();
    let base: Scope = Rc::new(ScopeData { names: RefCell::new(globals), parent: None });
    for (name, value) in variables {
        base.set(&name, value);
    }
    let mut machine = Machine {
        root: inside(&base),
        fuel: FUEL,
        depth: 0,
        autoescape: false,
        clock,
        namespaces: vec![],
        closed_over: vec![],
    };
    let mut out = String::new();
    let root = machine.root.clone();
    let result = machine.run(statements, &root, &mut out);
    machine.closed_over.iter().for_each(|scope| scope.names.borrow_mut().clear());
    root.names.borrow_mut().clear();
    machine.namespaces.iter().for_each(|n| drop(n.replace(Dict::default())));
    result.and_then(|_| operators::text_fits(out.len())).map(|_| out)
}

impl Machine {
    pub fn spend(&mut self, steps: usize) -> Outcome<()> {
        self.fuel = self.fuel.saturating_sub(steps as u64);
        if self.fuel == 0 {
            return Err(Error::new("the template takes too many steps"));
        }
        Ok(())
    }

    fn spend_on(&mut self, value: &Value) -> Outcome<()> {
        let size = match value {
            Value::Str(s) | Value::Markup(s) => s.len() / 32,
            Value::List(items) | Value::Tuple(items) | Value::Group(items) => items.len() / 4,
            Value::Dict(d) => d.len(),
            _ => return Ok(()),
        };
        self.spend(size)
    }

    // -- statements

    fn run(&mut self, statements: &[Statement], scope: &Scope, out: &mut String) -> Outcome<Flow> {
        for statement in statements {
            match self.statement(statement, scope, out).map_err(|e| e.at(statement.line))? {
                Flow::On => {}
                left => return Ok(left),
            }
        }
        Ok(Flow::On)
    }

    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        if self.depth >= DEEPEST {
            return Err(Error::new("the template recurses too deeply"));
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    fn statement(&mut self, statement: &Statement, scope: &Scope, out: &mut String) -> Outcome<Flow> {
        self.spend(1)?;
        if out.len() > LONGEST_TEXT {
            return Err(Error::new(format!("the text is longer than {} MiB", LONGEST_TEXT >> 20)));
        }
        match &statement.kind {
            StatementKind::Data(text) => {
                self.spend(text.len() / 256)?;
                out.push_str(text);
            }
            StatementKind::Print(expression) => {
                let value = self.eval(expression, scope)?;
                let before = out.len();
                if self.autoescape && !matches!(value, Value::Markup(_)) {
                    out.push_str(&text::escape_html(&value.to_text()));
                } else {
                    value.print(out);
                }
                self.spend((out.len() - before) / 64)?;
            }
            StatementKind::If(branches, otherwise) => {
                for (test, body) in branches {
                    if self.eval(test, scope)?.truth() {
                        return self.deeper(|m| m.run(body, scope, out));
                    }
                }
                return self.deeper(|m| m.run(otherwise, scope, out));
            }
            StatementKind::For(definition) => {
                let items = self.eval(&definition.iterable, scope)?;
                self.deeper(|m| m.for_loop(definition, items, scope, 0, out))?;
            }
            StatementKind::Set(target, expression) => {
                let value = self.eval(expression, scope)?;
                self.assign(target, value, scope)?;
            }
            StatementKind::SetBlock { target, filter, body, hides } => {
                let inner = inside(scope);
                if let (Target::Name(name), true) = (target, *hides) {
                    if !scope.names.borrow().iter().any(|n| n.0 == *name) {
                        inner.set(name, Value::undefined(format!("'{name}'")));
                    }
                }
                let mut value = Value::from(self.captured(body, &inner)?);
                if let Some(filter) = filter {
                    value = self.filter_chain(filter, value, scope)?;
                }
                self.assign(target, value, scope)?;
            }
            StatementKind::With(pairs, body) => {
                let inner = inside(scope);
                for (target, expression) in pairs {
                    let value = self.eval(expression, scope)?;
                    self.assign(target, value, &inner)?;
                }
                return self.deeper(|m| m.run(body, &inner, out));
            }
            StatementKind::Macro(definition) => {
                scope.set(&definition.name, self.close(definition, scope));
            }
            StatementKind::Call(call, definition) => {
                let caller = self.close(definition, scope);
                let Expr::Call(function, arguments) = call else { return Ok(Flow::On) };
                let function = self.eval(function, scope)?;
                let mut given = self.arguments(arguments, scope)?;
                given.keyword.push(("caller".into(), caller));
                self.deeper(|m| m.call(&function, given))?.print(out);
            }
            StatementKind::FilterBlock(filter, body) => {
                let text = Value::from(self.captured(body, &inside(scope))?);
                self.filter_chain(filter, text, scope)?.print(out);
            }
            StatementKind::Scoped { from_root, body } => {
                let inner = inside(if *from_root { &self.root } else { scope });
                self.deeper(|m| m.run(body, &inner, out))?;
            }
            StatementKind::Autoescape(on, body) => {
                let on = self.eval(on, scope)?.truth();
                let before = std::mem::replace(&mut self.autoescape, on);
                let flow = self.deeper(|m| m.run(body, &inside(scope), out));
                self.autoescape = before;
                return flow;
            }
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
            StatementKind::NoLoader(tag) => {
                return Err(Error::new(format!("'{tag}' needs other templates, and there are none here")))
            }
        }
        Ok(Flow::On)
    }

    fn close(&mut self, definition: &Rc<Macro>, scope: &Scope) -> Value {
        if !self.closed_over.last().is_some_and(|s| Rc::ptr_eq(s, scope)) {
            self.closed_over.push(scope.clone());
        }
        Value::Macro(Rc::new(Closure { definition: definition.clone(), scope: scope.clone() }))
    }

    fn captured(&mut self, body: &[Statement], scope: &Scope) -> Outcome<String> {
        let mut text = String::new();
        self.deeper(|m| m.run(body, scope, &mut text))?;
        operators::text_fits(text.len())?;
        Ok(text)
    }

    fn for_loop(
        &mut self,
        definition: &Rc<For>,
        iterable: Value,
        scope: &Scope,
        depth: usize,
        out: &mut String,
    ) -> Outcome<()> {
        let Some(mut items) = iterable.iterate()? else {
            return Err(Error::new(format!("'{}' object is not iterable", iterable.type_name())));
        };
        self.spend(items.len() / 16)?;
        if let Some(test) = &definition.test {
            let mut kept = vec![];
            for item in items {
                let inner = inside(scope);
                self.assign(&definition.target, item.clone(), &inner)?;
                if self.eval(test, &inner)?.truth() {
                    kept.push(item);
                }
            }
            items = kept;
        }
        if items.is_empty() {
            self.run(&definition.otherwise, &inside(scope), out)?;
            return Ok(());
        }
        let state = Rc::new(LoopState {
            items,
            index: RefCell::new(0),
            depth,
            changed: RefCell::new(None),
            again: definition.recursive.then(|| (definition.clone(), scope.clone())),
        });
        let name: Name = "loop".into();
        for i in 0..state.items.len() {
            *state.index.borrow_mut() = i;
            let inner = inside(scope);
            inner.set(&name, Value::Loop(state.clone()));
            self.assign(&definition.target, state.items[i].clone(), &inner)?;
            if let Flow::Break = self.run(&definition.body, &inner, out)? {
                break;
            }
        }
        Ok(())
    }

    fn assign(&mut self, target: &Target, value: Value, scope: &Scope) -> Outcome<()> {
        match target {
            Target::Name(name) => scope.set(name, value),
            Target::Attribute(name, attribute) => match scope.find(name) {
                Some(Value::Namespace(contents)) => {
                    contents.borrow_mut().insert(Value::Str(attribute.clone()), value)?;
                }
                _ => return Err(Error::new("cannot assign an attribute of an object that is no namespace")),
            },
            Target::Tuple(targets) => {
                let Some(items) = value.iterate()? else {
                    return Err(Error::new(format!("cannot unpack a value of type {}", value.type_name())));
                };
                if items.len() != targets.len() {
                    let (wanted, found) = (targets.len(), items.len());
                    return Err(Error::new(format!("cannot unpack {found} values into {wanted} names")));
                }
                for (target, item) in targets.iter().zip(items) {
                    self.assign(target, item, scope)?;
                }
            }
        }
        Ok(())
    }

    // -- expressions

    pub fn eval(&mut self, expression: &Expr, scope: &Scope) -> Outcome<Value> {
        self.spend(1)?;
        match expression {
            Expr::Const(value) => Ok(value.clone()),
            Expr::Name(name) => Ok(scope.find(name).unwrap_or_else(|| Value::undefined(format!("'{name}'")))),
            other => self.deeper(|m| m.compound(other, scope)),
        }
    }

    fn compound(&mut self, expression: &Expr, scope: &Scope) -> Outcome<Value> {
        let value = match expression {
            Expr::Const(_) | Expr::Name(_) => return self.eval(expression, scope),
            Expr::List(items) => Value::list(self.all(items, scope)?),
            Expr::Tuple(items) => Value::tuple(self.all(items, scope)?),
            Expr::Dict(pairs) => {
                let mut dict = Dict::default();
                for (key, value) in pairs {
                    let key = self.eval(key, scope)?;
                    dict.insert(key, self.eval(value, scope)?)?;
                }
                Value::Dict(Rc::new(dict))
            }
            Expr::Not(inner) => Value::Bool(!self.eval(inner, scope)?.truth()),
            Expr::Neg(inner) => operators::negate(&self.eval(inner, scope)?, false)?,
            Expr::Pos(inner) => operators::negate(&self.eval(inner, scope)?, true)?,
            Expr::And(left, right) => {
                let value = self.eval(left, scope)?;
                if value.truth() {
                    self.eval(right, scope)?
                } else {
                    value
                }
            }
            Expr::Or(left, right) => {
                let value = self.eval(left, scope)?;
                if value.truth() {
                    value
                } else {
                    self.eval(right, scope)?
                }
            }
            Expr::Binary(operator, left, right) => {
                let left = self.eval(left, scope)?;
                operators::binary(*operator, &left, &self.eval(right, scope)?)?
            }
            Expr::Concat(parts) => {
                let mut joined = String::new();
                for part in parts {
                    self.eval(part, scope)?.print(&mut joined);
                    operators::text_fits(joined.len())?;
                }
                Value::from(joined)
            }
            Expr::Compare(first, rest) => return self.comparison(first, rest, scope),
            Expr::If { test, then, otherwise } => {
                if self.eval(test, scope)?.truth() {
                    self.eval(then, scope)?
                } else {
                    match otherwise {
                        Some(otherwise) => self.eval(otherwise, scope)?,
                        None => Value::undefined("the inline if without else"),
                    }
                }
            }
            Expr::Attribute(object, name) => {
                let object = self.eval(object, scope)?;
                methods::attribute(&object, name)?
            }
            Expr::Item(object, index) => {
                let object = self.eval(object, scope)?;
                let index = self.eval(index, scope)?;
                if let Value::Str(s) = &object {
                    self.spend(s.len() / 64)?;
                }
                methods::item(&object, &index)?
            }
            Expr::Slice(object, parts) => {
                let object = self.eval(object, scope)?;
                if let Value::Undefined(what) = &object {
                    return Err(Error::new(format!("{what} is undefined")));
                }
                let mut bounds = [None, None, None];
                for (bound, part) in bounds.iter_mut().zip(parts) {
                    *bound = part.as_ref().map(|p| self.eval(p, scope)).transpose()?;
                }
                operators::slice(&object, bounds)?
            }
            Expr::Call(function, arguments) => {
                let function = self.eval(function, scope)?;
                let given = self.arguments(arguments, scope)?;
                self.call(&function, given)?
            }
            Expr::Filter(Some(inner), name, arguments) => {
                let value = self.eval(inner, scope)?;
                let given = self.arguments(arguments, scope)?;
                filters::apply(self, name, value, given)?
            }
            Expr::Filter(None, ..) => return Err(Error::new("a filter without a value")),
            Expr::Test(inner, name, arguments) => {
                let value = self.eval(inner, scope)?;
                let given = self.arguments(arguments, scope)?;
                Value::Bool(predicates::test(name, &value, given)?)
            }
        };
        self.spend_on(&value)?;
        // Printing stops beyond the limit, and what is cut short is no result.
        operators::text_fits(value.as_str().map_or(0, str::len))?;
        if value.depth() > DEEPEST_VALUE {
            return Err(Error::new(format!("lists and dicts nest deeper than {DEEPEST_VALUE} levels")));
        }
        Ok(value)
    }

    fn all(&mut self, items: &[Expr], scope: &Scope) -> Outcome<Vec<Value>> {
        items.iter().map(|item| self.eval(item, scope)).collect()
    }

    /// a < b < c, each operand once.
    fn comparison(&mut self, first: &Expr, rest: &[(Comparison, Expr)], scope: &Scope) -> Outcome<Value> {
        let mut left = self.eval(first, scope)?;
        for (operator, right) in rest {
            let right = self.eval(right, scope)?;
            self.spend_on(&left)?;
            self.spend_on(&right)?;
            if !operators::compare(*operator, &left, &right)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn arguments(&mut self, arguments: &Arguments, scope: &Scope) -> Outcome<Given> {
        let mut given = Given { positional: self.all(&arguments.positional, scope)?, keyword: vec![] };
        for (name, value) in &arguments.keyword {
            given.keyword.push((name.clone(), self.eval(value, scope)?));
        }
        if let Some(more) = &arguments.more_positional {
            let more = self.eval(more, scope)?;
            let Some(items) = more.iterate()? else {
                return Err(Error::new("the argument after * must be iterable"));
            };
            given.positional.extend(items);
        }
        if let Some(more) = &arguments.more_keyword {
            let Value::Dict(dict) = self.eval(more, scope)? else {
                return Err(Error::new("the argument after ** must be a dict"));
            };
            for (key, value) in dict.entries() {
                let Some(name) = key.as_str() else {
                    return Err(Error::new("keywords must be strings"));
                };
                given.keyword.push((name.into(), value.clone()));
            }
        }
        Ok(given)
    }

    /// The chain of filters at the end of a captured text.
    fn filter_chain(&mut self, filter: &Expr, text: Value, scope: &Scope) -> Outcome<Value> {
        let Expr::Filter(inner, name, arguments) = filter else {
            return Err(Error::new("expected a filter"));
        };
        let value = match inner {
            None => text,
            Some(inner) => self.deeper(|m| m.filter_chain(inner, text, scope))?,
        };
        let given = self.arguments(arguments, scope)?;
        filters::apply(self, name, value, given)
    }

    // -- calls

    pub fn call(&mut self, function: &Value, given: Given) -> Outcome<Value> {
        match function {
            Value::Macro(closure) => Ok(Value::from(self.expand(closure, given)?)),
            Value::Function(name) => methods::call_global(self, name, given),
            Value::Method(method) => {
                if let Some(s) = method.0.as_str() {
                    self.spend(s.len() / 32)?;
                }
                methods::call_method(self, &method.0, &method.1, given)
            }
            Value::Loop(state) => {
                let Some((definition, scope)) = &state.again else {
                    return Err(Error::new("the loop is not marked recursive, and cannot be called"));
                };
                let [items] = given.bind("loop", ["iterable"], 1)?;
                let mut out = String::new();
                let items = items.unwrap_or(Value::None);
                self.deeper(|m| m.for_loop(definition, items, scope, state.depth + 1, &mut out))?;
                Ok(Value::from(out))
            }
            Value::Joiner(joiner) => {
                let used = joiner.1.replace(true);
                Ok(if used { Value::Str(joiner.0.clone()) } else { Value::from("") })
            }
            Value::Undefined(what) => Err(Error::new(format!("{what} is undefined"))),
            other => Err(Error::new(format!("'{}' object is not callable", other.type_name()))),
        }
    }

    fn expand(&mut self, closure: &Rc<Closure>, given: Given) -> Outcome<String> {
        let definition = &closure.definition;
        let scope = inside(&closure.scope);
        let name = &definition.name;
        let mut positional = given.positional.into_iter();
        let mut keyword = given.keyword;
        let mut take = |wanted: &str| {
            let at = keyword.iter().position(|k| &*k.0 == wanted)?;
            Some(keyword.remove(at).1)
        };
        for (parameter, default) in &definition.parameters {
            let value = match (positional.next(), take(parameter)) {
                (Some(_), Some(_)) => {
                    return Err(Error::new(format!("macro '{name}' got two values for '{parameter}'")));
                }
                (Some(value), None) | (None, Some(value)) => value,
                (None, None) => match default {
                    Some(default) => self.eval(default, &scope)?,
                    None => Value::undefined(format!("parameter '{parameter}' was not provided; it")),
                },
            };
            scope.set(parameter, value);
        }
        if definition.takes_caller {
            let caller = take("caller").unwrap_or_else(|| Value::undefined("'caller' (no call block)"));
            scope.set(&"caller".into(), caller);
        }
        if definition.takes_varargs {
            scope.set(&"varargs".into(), Value::tuple(positional.collect()));
        } else if positional.next().is_some() {
            let count = definition.parameters.len();
            return Err(Error::new(format!("macro '{name}' takes no more than {count} arguments")));
        }
        if definition.takes_kwargs {
            let mut rest = Dict::default();
            for (key, value) in keyword {
                rest.insert(Value::Str(key), value)?;
            }
            scope.set(&"kwargs".into(), Value::Dict(Rc::new(rest)));
        } else if let Some((key, _)) = keyword.first() {
            return Err(Error::new(format!("macro '{name}' takes no argument named '{key}'")));
        }
        self.captured(&definition.body, &scope)
    }

    pub fn namespace(&mut self, contents: Dict) -> Outcome<Value> {
        if self.namespaces.len() >= MOST_NAMESPACES {
            return Err(Error::new(format!("more than {MOST_NAMESPACES} namespaces")));
        }
        let made = Rc::new(RefCell::new(contents));
        self.namespaces.push(made.clone());
        Ok(Value::Namespace(made))
    }

    pub fn range(&mut self, given: Given) -> Outcome<Value> {
        if !given.keyword.is_empty() {
            return Err(Error::new("range() takes no keyword arguments"));
        }
        let mut numbers = vec![];
        for value in &given.positional {
            match value.as_int() {
                Some(i) if i.abs() < 1 << 62 => numbers.push(i),
                Some(_) => return Err(Error::new("range: the number is too large")),
                None => return Err(Error::new(format!("range: '{}' is no integer", value.type_name()))),
            }
        }
        let (start, stop, step) = match numbers[..] {
            [stop] => (0, stop, 1),
            [start, stop] => (start, stop, 1),
            [start, stop, step] => (start, stop, step),
            _ => return Err(Error::new("range() takes one to three arguments")),
        };
        if step == 0 {
            return Err(Error::new("range: the step must not be zero"));
        }
        let length = range_length(start, stop, step);
        if length > LONGEST_RANGE {
            return Err(Error::new(format!("range: {length} numbers; at most {LONGEST_RANGE} are allowed")));
        }
        Ok(Value::Range(start, stop, step))
    }
}

/// The elements of anything iterable, or Python's complaint.
pub fn iterated(value: &Value) -> Outcome<Vec<Value>> {
    match value.iterate()? {
        Some(items) => Ok(items),
        None => Err(Error::new(format!("'{}' object is not iterable", value.type_name()))),
    }
}
