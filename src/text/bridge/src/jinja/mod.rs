//! Chat templates, rendered as Python's Jinja2 renders them in transformers' sandbox.
//!
//! minijinja differs from that in what it prints (none, 1.0, lists, dicts), in operators, precedence, undefined
//! values, methods and filters; too much to be mended from outside, so this is an interpreter of its own. The
//! sandbox is the immutable one: no method here changes a list or a dict. Time and memory of a template are bounded.

mod ast;
mod eval;
mod filters;
mod format;
mod json;
mod lexer;
mod methods;
mod operators;
mod parser;
mod predicates;
mod sequences;
mod strftime;
mod text;
mod value;

use std::fmt;

use value::Value;

#[derive(Clone, Debug)]
pub struct Error {
    message: String,
    line: usize,
}

impl Error {
    pub fn new(message: impl Into<String>) -> Self {
        Error { message: message.into(), line: 0 }
    }

    /// The line, unless a deeper place has named one already.
    pub fn at(mut self, line: usize) -> Self {
        if self.line == 0 {
            self.line = line;
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.message)
    }
}

/// Python's idea of white space.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// `variables` is a JSON object. transformers always passes tools, documents and add_generation_prompt, so that they
/// are defined here, too.
pub fn render(source: &str, variables: &str, clock: &str) -> Result<String, Error> {
    let clock = strftime::Clock::parse(clock)?;
    let Value::Dict(given) = json::parse(variables)? else {
        return Err(Error::new("the variables must be a JSON object"));
    };
    let statements = parser::parse(lexer::tokenize(source)?)?;
    let mut all = vec![
        ("tools".into(), Value::None),
        ("documents".into(), Value::None),
        ("add_generation_prompt".into(), Value::Bool(false)),
    ];
    for (key, value) in given.entries() {
        if let Some(name) = key.as_str() {
            all.push((name.into(), value.clone()));
        }
    }
    eval::render(&statements, all, clock)
}
