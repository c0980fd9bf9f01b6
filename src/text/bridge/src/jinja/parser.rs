//! Tokens to statements: Jinja2's grammar, with loop controls and `generation`.

use std::rc::Rc;

use super::ast::*;
use super::lexer::{Kind, Token};
use super::value::Value;
use super::Error;

/// How deep expressions and statements may nest: the interpreter's own stack is what this protects.
const DEEPEST: usize = 100;

pub struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Loops around the current statement that `break` could leave.
    loops: usize,
    /// `if`s around the current statement in its scope: names set there may come from outside.
    conditions: usize,
    /// Every name that was read so far, in order: tells what a macro's body mentions.
    mentioned: Vec<Name>,
    names: std::collections::HashSet<Name>,
}

type Parsed<T> = Result<T, Error>;

pub fn parse(tokens: Vec<Token>) -> Parsed<Vec<Statement>> {
    let mut parser = Parser { tokens, at: 0, depth: 0, loops: 0, conditions: 0, mentioned: vec![], names: Default::default() };
    parser.statements(&[])
}

fn describe(kind: &Kind) -> String {
    match kind {
        Kind::Data(_) => "template text".into(),
        Kind::VariableBegin => "'{{'".into(),
        Kind::VariableEnd => "'}}'".into(),
        Kind::BlockBegin => "'{%'".into(),
        Kind::BlockEnd => "'%}'".into(),
        Kind::Name(name) => format!("'{name}'"),
        Kind::Str(_) => "a string".into(),
        Kind::Int(_) | Kind::Float(_) => "a number".into(),
        Kind::Op(op) => format!("'{op}'"),
        Kind::End => "the end of the template".into(),
    }
}

impl Parser {
    fn kind(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn ahead(&self) -> &Kind {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    fn line(&self) -> usize {
        self.tokens[self.at].line
    }

    fn step(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(Error::new(message).at(self.line()))
    }

    fn unexpected<T>(&self, wanted: &str) -> Parsed<T> {
        self.fail(format!("expected {wanted}, found {}", describe(self.kind())))
    }

    fn is_op(&self, op: &str) -> bool {
        matches!(self.kind(), Kind::Op(o) if *o == op)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.kind(), Kind::Name(n) if n == name)
    }

    fn skip_op(&mut self, op: &str) -> bool {
        let found = self.is_op(op);
        if found {
            self.step();
        }
        found
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        if found {
            self.step();
        }
        found
    }

    fn expect_op(&mut self, op: &str) -> Parsed<()> {
        if self.skip_op(op) {
            return Ok(());
        }
        self.unexpected(&format!("'{op}'"))
    }

    fn intern(&mut self, name: &str) -> Name {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let made: Name = name.into();
        self.names.insert(made.clone());
        made
    }

    fn expect_name(&mut self) -> Parsed<Name> {
        let Kind::Name(name) = self.kind().clone() else {
            return self.unexpected("a name");
        };
        self.step();
        Ok(self.intern(&name))
    }

    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEEPEST {
            return self.fail(format!("nested deeper than {DEEPEST} levels"));
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    // -- statements

    /// Up to a block whose name is in `ends`; that name is the current token then. No ends: up to the end.
    fn statements(&mut self, ends: &[&str]) -> Parsed<Vec<Statement>> {
        let mut body = vec![];
        loop {
            let line = self.line();
            match self.kind().clone() {
                Kind::Data(text) => {
                    self.step();
                    body.push(Statement { line, kind: StatementKind::Data(text) });
                }
                Kind::VariableBegin => {
                    self.step();
                    let value = self.tuple(true, &[], false)?;
                    if *self.kind() != Kind::VariableEnd {
                        return self.unexpected("'}}'");
                    }
                    self.step();
                    body.push(Statement { line, kind: StatementKind::Print(value) });
                }
                Kind::BlockBegin => {
                    self.step();
                    let Kind::Name(name) = self.kind().clone() else {
                        return self.unexpected("a tag's name");
                    };
                    if ends.contains(&name.as_str()) {
                        return Ok(body);
                    }
                    let kind = self.deeper(|p| p.statement(&name))?;
                    self.block_end()?;
                    body.push(Statement { line, kind });
                }
                Kind::End if ends.is_empty() => return Ok(body),
                Kind::End => {
                    return self.fail(format!("the template ends where {{% {} %}} was expected", ends[ends.len() - 1]))
                }
                _ => return self.unexpected("template text"),
            }
        }
    }

    fn block_end(&mut self) -> Parsed<()> {
        if *self.kind() != Kind::BlockEnd {
            return self.unexpected("'%}'");
        }
        self.step();
        Ok(())
    }

    /// The statements of a block, from its tag's end to `end`, which is taken.
    fn body(&mut self, end: &str) -> Parsed<Vec<Statement>> {
        self.block_end()?;
        let body = self.statements(&[end])?;
        self.step();
        Ok(body)
    }

    fn statement(&mut self, name: &str) -> Parsed<StatementKind> {
        self.step();
        match name {
            "for" => self.for_loop(),
            "if" => self.conditional(),
            "set" => self.set(),
            "with" => self.with(),
            "macro" => {
                let name = self.expect_name()?;
                Ok(StatementKind::Macro(Rc::new(self.macro_from(name, "endmacro")?)))
            }
            "call" => {
                let start = self.mentioned.len();
                let parameters = if self.is_op("(") { self.signature()? } else { vec![] };
                let call = self.expression()?;
                if !matches!(call, Expr::Call(..)) {
                    return self.fail("expected a call");
                }
                let name = self.intern("caller");
                let body = self.callable_body("endcall")?;
                Ok(StatementKind::Call(call, Rc::new(self.finished_macro(name, parameters, body, start))))
            }
            "filter" => {
                let filter = self.filter(None)?;
                Ok(StatementKind::FilterBlock(filter, self.body("endfilter")?))
            }
            "generation" => {
                let body = self.callable_body("endgeneration")?;
                Ok(StatementKind::Scoped { from_root: false, body })
            }
            "block" => {
                let name = self.expect_name()?;
                self.skip_name("scoped");
                self.skip_name("required");
                let body = self.callable_body("endblock")?;
                self.skip_name(&name);
                Ok(StatementKind::Scoped { from_root: true, body })
            }
            "autoescape" => {
                let on = self.expression()?;
                Ok(StatementKind::Autoescape(on, self.body("endautoescape")?))
            }
            "print" => Ok(StatementKind::Print(self.tuple(true, &[], false)?)),
            "break" | "continue" if self.loops == 0 => self.fail(format!("'{name}' outside of a loop")),
            "break" => Ok(StatementKind::Break),
            "continue" => Ok(StatementKind::Continue),
            "include" | "import" | "from" | "extends" => {
                while *self.kind() != Kind::BlockEnd && *self.kind() != Kind::End {
                    self.step();
                }
                Ok(StatementKind::NoLoader(match name {
                    "include" => "include",
                    "extends" => "extends",
                    _ => "import",
                }))
            }
            _ => self.fail(format!("unknown tag '{name}'")),
        }
    }

    fn for_loop(&mut self) -> Parsed<StatementKind> {
        let target = self.target(&["in"], false)?;
        if !self.skip_name("in") {
            return self.unexpected("'in'");
        }
        let iterable = self.tuple(false, &["recursive"], false)?;
        let test = if self.skip_name("if") { Some(self.expression()?) } else { None };
        let recursive = self.skip_name("recursive");
        self.block_end()?;
        self.loops += 1;
        let conditions = std::mem::take(&mut self.conditions);
        let body = self.statements(&["endfor", "else"])?;
        self.conditions = conditions;
        self.loops -= 1;
        let mut otherwise = vec![];
        if self.skip_name("else") {
            otherwise = self.body("endfor")?;
        } else {
            self.step();
        }
        Ok(StatementKind::For(Rc::new(For { target, iterable, test, recursive, body, otherwise })))
    }

    fn conditional(&mut self) -> Parsed<StatementKind> {
        let mut branches = vec![];
        loop {
            let test = self.tuple(false, &[], false)?;
            self.block_end()?;
            self.conditions += 1;
            branches.push((test, self.statements(&["elif", "else", "endif"])?));
            self.conditions -= 1;
            if self.skip_name("elif") {
                continue;
            }
            let otherwise = if self.skip_name("else") {
                self.conditions += 1;
                let body = self.body("endif")?;
                self.conditions -= 1;
                body
            } else {
                self.step();
                vec![]
            };
            return Ok(StatementKind::If(branches, otherwise));
        }
    }

    fn set(&mut self) -> Parsed<StatementKind> {
        let target = self.target(&[], true)?;
        if self.skip_op("=") {
            return Ok(StatementKind::Set(target, self.tuple(true, &[], false)?));
        }
        let filter = if self.is_op("|") { Some(self.filters(None)?) } else { None };
        let hides = self.conditions == 0;
        Ok(StatementKind::SetBlock { target, filter, body: self.scoped_body("endset")?, hides })
    }

    fn with(&mut self) -> Parsed<StatementKind> {
        let mut pairs = vec![];
        while *self.kind() != Kind::BlockEnd {
            if !pairs.is_empty() {
                self.expect_op(",")?;
            }
            let target = self.target(&[], false)?;
            self.expect_op("=")?;
            pairs.push((target, self.expression()?));
        }
        Ok(StatementKind::With(pairs, self.scoped_body("endwith")?))
    }

    /// The body of a block that has names of its own.
    fn scoped_body(&mut self, end: &str) -> Parsed<Vec<Statement>> {
        let conditions = std::mem::take(&mut self.conditions);
        let body = self.body(end)?;
        self.conditions = conditions;
        Ok(body)
    }

    /// The body of what Python makes a function of: a loop around it cannot be left from inside.
    fn callable_body(&mut self, end: &str) -> Parsed<Vec<Statement>> {
        let loops = std::mem::take(&mut self.loops);
        let body = self.scoped_body(end);
        self.loops = loops;
        body
    }

    fn macro_from(&mut self, name: Name, end: &str) -> Parsed<Macro> {
        let start = self.mentioned.len();
        let parameters = self.signature()?;
        let body = self.callable_body(end)?;
        Ok(self.finished_macro(name, parameters, body, start))
    }

    fn finished_macro(
        &self,
        name: Name,
        parameters: Vec<(Name, Option<Expr>)>,
        body: Vec<Statement>,
        start: usize,
    ) -> Macro {
        let mentions = |name: &str| self.mentioned[start..].iter().any(|n| &**n == name);
        Macro {
            takes_varargs: mentions("varargs"),
            takes_kwargs: mentions("kwargs"),
            takes_caller: mentions("caller"),
            name,
            parameters,
            body,
        }
    }

    fn signature(&mut self) -> Parsed<Vec<(Name, Option<Expr>)>> {
        self.expect_op("(")?;
        let mut parameters: Vec<(Name, Option<Expr>)> = vec![];
        while !self.is_op(")") {
            if !parameters.is_empty() {
                self.expect_op(",")?;
            }
            let name = self.assignable_name()?;
            let default = if self.skip_op("=") { Some(self.expression()?) } else { None };
            if default.is_none() && parameters.iter().any(|p| p.1.is_some()) {
                return self.fail("a parameter without default follows one with a default");
            }
            parameters.push((name, default));
        }
        self.step();
        Ok(parameters)
    }

    fn assignable_name(&mut self) -> Parsed<Name> {
        let name = self.expect_name()?;
        if matches!(&*name, "true" | "false" | "none" | "True" | "False" | "None") {
            return self.fail(format!("cannot assign to '{name}'"));
        }
        Ok(name)
    }

    fn target(&mut self, ends: &[&str], attributes: bool) -> Parsed<Target> {
        let mut targets = vec![];
        let mut tuple = false;
        loop {
            if self.is_op("(") {
                self.step();
                let inner = self.deeper(|p| p.target(&[], false))?;
                self.expect_op(")")?;
                targets.push(inner);
            } else {
                let name = self.assignable_name()?;
                if attributes && self.skip_op(".") {
                    targets.push(Target::Attribute(name, self.expect_name()?));
                } else {
                    targets.push(Target::Name(name));
                }
            }
            if !self.skip_op(",") {
                break;
            }
            tuple = true;
            let ended = matches!(self.kind(), Kind::Name(n) if ends.contains(&n.as_str()));
            if ended || self.is_op(")") || self.is_op("=") || *self.kind() == Kind::BlockEnd {
                break;
            }
        }
        Ok(if tuple { Target::Tuple(targets) } else { targets.remove(0) })
    }

    // -- expressions

    pub fn expression(&mut self) -> Parsed<Expr> {
        self.deeper(|p| {
            let mut value = p.or()?;
            while p.skip_name("if") {
                let test = Box::new(p.or()?);
                let otherwise = if p.skip_name("else") { Some(Box::new(p.expression()?)) } else { None };
                value = Expr::If { test, then: Box::new(value), otherwise };
            }
            Ok(value)
        })
    }

    /// One expression, or several with commas between: a tuple.
    fn tuple(&mut self, conditional: bool, ends: &[&str], parenthesized: bool) -> Parsed<Expr> {
        let mut items = vec![];
        let mut tuple = false;
        loop {
            let ended = match self.kind() {
                Kind::VariableEnd | Kind::BlockEnd => true,
                Kind::Op(op) => *op == ")",
                Kind::Name(name) => ends.contains(&name.as_str()),
                _ => false,
            };
            if ended {
                break;
            }
            items.push(if conditional { self.expression()? } else { self.deeper(Self::or)? });
            if !self.skip_op(",") {
                break;
            }
            tuple = true;
        }
        if !tuple {
            if let Some(only) = items.pop() {
                return Ok(only);
            }
            if !parenthesized {
                return self.unexpected("an expression");
            }
        }
        Ok(Expr::Tuple(items))
    }

    fn or(&mut self) -> Parsed<Expr> {
        let mut left = self.and()?;
        while self.skip_name("or") {
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed<Expr> {
        let mut left = self.not()?;
        while self.skip_name("and") {
            left = Expr::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed<Expr> {
        if self.skip_name("not") {
            return Ok(Expr::Not(Box::new(self.deeper(Self::not)?)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Parsed<Expr> {
        let first = self.sum()?;
        let mut rest = vec![];
        loop {
            let operator = match self.kind() {
                Kind::Op("==") => Comparison::Eq,
                Kind::Op("!=") => Comparison::Ne,
                Kind::Op("<") => Comparison::Lt,
                Kind::Op("<=") => Comparison::Le,
                Kind::Op(">") => Comparison::Gt,
                Kind::Op(">=") => Comparison::Ge,
                Kind::Name(n) if n == "in" => Comparison::In,
                Kind::Name(n) if n == "not" && matches!(self.ahead(), Kind::Name(m) if m == "in") => {
                    self.step();
                    Comparison::NotIn
                }
                _ => break,
            };
            self.step();
            rest.push((operator, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    fn left_associative(
        &mut self,
        operators: &[(&str, Operator)],
        operand: fn(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let mut left = operand(self)?;
        'next: loop {
            for (text, operator) in operators {
                if self.skip_op(text) {
                    left = Expr::Binary(*operator, Box::new(left), Box::new(operand(self)?));
                    continue 'next;
                }
            }
            return Ok(left);
        }
    }

    fn sum(&mut self) -> Parsed<Expr> {
        self.left_associative(&[("+", Operator::Add), ("-", Operator::Sub)], Self::concatenation)
    }

    fn concatenation(&mut self) -> Parsed<Expr> {
        let first = self.product()?;
        if !self.is_op("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip_op("~") {
            parts.push(self.product()?);
        }
        Ok(Expr::Concat(parts))
    }

    fn product(&mut self) -> Parsed<Expr> {
        let operators = [("*", Operator::Mul), ("/", Operator::Div), ("//", Operator::FloorDiv), ("%", Operator::Mod)];
        self.left_associative(&operators, Self::power)
    }

    fn power(&mut self) -> Parsed<Expr> {
        self.left_associative(&[("**", Operator::Pow)], |p| p.unary(true))
    }

    fn unary(&mut self, filtered: bool) -> Parsed<Expr> {
        let value = if self.skip_op("-") {
            Expr::Neg(Box::new(self.deeper(|p| p.unary(false))?))
        } else if self.skip_op("+") {
            Expr::Pos(Box::new(self.deeper(|p| p.unary(false))?))
        } else {
            self.primary()?
        };
        let value = self.postfix(value)?;
        if filtered {
            self.filtered(value)
        } else {
            Ok(value)
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let value = match self.kind().clone() {
            Kind::Name(name) => match name.as_str() {
                "true" | "True" => Expr::Const(Value::Bool(true)),
                "false" | "False" => Expr::Const(Value::Bool(false)),
                "none" | "None" => Expr::Const(Value::None),
                _ => {
                    let name = self.intern(&name);
                    self.mentioned.push(name.clone());
                    Expr::Name(name)
                }
            },
            Kind::Str(first) => {
                let mut text = first;
                while let Kind::Str(more) = self.ahead() {
                    text.push_str(more);
                    self.step();
                }
                Expr::Const(Value::from(text))
            }
            Kind::Int(value) => Expr::Const(Value::Int(value)),
            Kind::Float(value) => Expr::Const(Value::Float(value)),
            Kind::Op("(") => {
                self.step();
                let inner = self.tuple(true, &[], true)?;
                if !self.is_op(")") {
                    return self.unexpected("')'");
                }
                inner
            }
            Kind::Op("[") => {
                self.step();
                let mut items = vec![];
                while !self.is_op("]") {
                    if !items.is_empty() {
                        self.expect_op(",")?;
                        if self.is_op("]") {
                            break;
                        }
                    }
                    items.push(self.expression()?);
                }
                Expr::List(items)
            }
            Kind::Op("{") => {
                self.step();
                let mut items = vec![];
                while !self.is_op("}") {
                    if !items.is_empty() {
                        self.expect_op(",")?;
                        if self.is_op("}") {
                            break;
                        }
                    }
                    let key = self.expression()?;
                    self.expect_op(":")?;
                    items.push((key, self.expression()?));
                }
                Expr::Dict(items)
            }
            _ => return self.unexpected("an expression"),
        };
        self.step();
        Ok(value)
    }

    fn postfix(&mut self, mut value: Expr) -> Parsed<Expr> {
        loop {
            value = match self.kind() {
                Kind::Op(".") | Kind::Op("[") => self.subscript(value)?,
                Kind::Op("(") => Expr::Call(Box::new(value), self.arguments()?),
                _ => return Ok(value),
            };
        }
    }

    /// Filters and tests, and calls of what they give.
    fn filtered(&mut self, mut value: Expr) -> Parsed<Expr> {
        loop {
            value = match self.kind() {
                Kind::Op("|") => self.filters(Some(value))?,
                Kind::Name(n) if n == "is" => self.test(value)?,
                Kind::Op("(") => Expr::Call(Box::new(value), self.arguments()?),
                _ => return Ok(value),
            };
        }
    }

    fn subscript(&mut self, value: Expr) -> Parsed<Expr> {
        if self.skip_op(".") {
            let made = match self.kind().clone() {
                Kind::Name(name) => Expr::Attribute(Box::new(value), self.intern(&name)),
                Kind::Int(index) => Expr::Item(Box::new(value), Box::new(Expr::Const(Value::Int(index)))),
                _ => return self.unexpected("a name or a number"),
            };
            self.step();
            return Ok(made);
        }
        self.expect_op("[")?;
        let mut items = vec![];
        let mut slice = None;
        while !self.is_op("]") {
            if !items.is_empty() {
                self.expect_op(",")?;
            }
            match self.subscripted()? {
                Ok(item) => items.push(item),
                Err(parts) if items.is_empty() => {
                    slice = Some(parts);
                    break;
                }
                Err(_) => return self.fail("several indices with a slice among them are not supported"),
            }
        }
        self.expect_op("]")?;
        if let Some(parts) = slice {
            return Ok(Expr::Slice(Box::new(value), parts));
        }
        let index = if items.len() == 1 { items.remove(0) } else { Expr::Tuple(items) };
        Ok(Expr::Item(Box::new(value), Box::new(index)))
    }

    /// An index, or as Err the three parts of a slice.
    #[allow(clippy::type_complexity)]
    fn subscripted(&mut self) -> Parsed<Result<Expr, [Option<Box<Expr>>; 3]>> {
        let start = if self.is_op(":") { None } else { Some(self.expression()?) };
        if !self.is_op(":") {
            return match start {
                Some(index) => Ok(Ok(index)),
                None => self.unexpected("an index"),
            };
        }
        let mut parts = [start.map(Box::new), None, None];
        for part in &mut parts[1..] {
            if !self.skip_op(":") {
                break;
            }
            if !self.is_op(":") && !self.is_op("]") && !self.is_op(",") {
                *part = Some(Box::new(self.expression()?));
            }
        }
        Ok(Err(parts))
    }

    fn arguments(&mut self) -> Parsed<Arguments> {
        self.expect_op("(")?;
        let mut all = Arguments::default();
        let mut first = true;
        while !self.is_op(")") {
            if !first {
                self.expect_op(",")?;
                if self.is_op(")") {
                    break;
                }
            }
            first = false;
            let valid = if self.skip_op("*") {
                let valid = all.more_positional.is_none() && all.more_keyword.is_none();
                all.more_positional = Some(Box::new(self.expression()?));
                valid
            } else if self.skip_op("**") {
                let valid = all.more_keyword.is_none();
                all.more_keyword = Some(Box::new(self.expression()?));
                valid
            } else if matches!(self.kind(), Kind::Name(_)) && matches!(self.ahead(), Kind::Op("=")) {
                let name = self.expect_name()?;
                self.step();
                all.keyword.push((name, self.expression()?));
                all.more_keyword.is_none()
            } else {
                all.positional.push(self.expression()?);
                all.more_positional.is_none() && all.more_keyword.is_none() && all.keyword.is_empty()
            };
            if !valid {
                return self.fail("invalid syntax for a function call");
            }
        }
        self.step();
        Ok(all)
    }

    fn dotted_name(&mut self) -> Parsed<Name> {
        let mut name = self.expect_name()?.to_string();
        while self.skip_op(".") {
            name.push('.');
            name.push_str(&self.expect_name()?);
        }
        Ok(self.intern(&name))
    }

    /// `| a | b(1)` after `value`.
    fn filters(&mut self, mut value: Option<Expr>) -> Parsed<Expr> {
        loop {
            self.expect_op("|")?;
            let filter = self.filter_call(value)?;
            if !self.is_op("|") {
                return Ok(filter);
            }
            value = Some(filter);
        }
    }

    fn filter_call(&mut self, value: Option<Expr>) -> Parsed<Expr> {
        let name = self.dotted_name()?;
        let arguments = if self.is_op("(") { self.arguments()? } else { Arguments::default() };
        Ok(Expr::Filter(value.map(Box::new), name, arguments))
    }

    /// `a | b(1)`, as a filter block has it.
    fn filter(&mut self, value: Option<Expr>) -> Parsed<Expr> {
        let first = self.filter_call(value)?;
        if self.is_op("|") {
            return self.filters(Some(first));
        }
        Ok(first)
    }

    fn test(&mut self, value: Expr) -> Parsed<Expr> {
        self.step();
        let negated = self.skip_name("not");
        let name = self.dotted_name()?;
        let mut arguments = Arguments::default();
        match self.kind() {
            Kind::Op("(") => arguments = self.arguments()?,
            Kind::Name(n) if matches!(n.as_str(), "else" | "or" | "and") => {}
            Kind::Name(n) if n == "is" => return self.fail("tests cannot be chained with is"),
            Kind::Name(_) | Kind::Str(_) | Kind::Int(_) | Kind::Float(_) | Kind::Op("[") | Kind::Op("{") => {
                let argument = self.primary()?;
                arguments.positional.push(self.postfix(argument)?);
            }
            _ => {}
        }
        let test = Expr::Test(Box::new(value), name, arguments);
        Ok(if negated { Expr::Not(Box::new(test)) } else { test })
    }
}
