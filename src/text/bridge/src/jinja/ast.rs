//! What the parser makes and the interpreter walks.

use std::rc::Rc;

use super::value::Value;

pub type Name = Rc<str>;

#[derive(Debug)]
pub enum Expr {
    Const(Value),
    Name(Name),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Neg(Box<Expr>),
    Pos(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Concat(Vec<Expr>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    If {
        test: Box<Expr>,
        then: Box<Expr>,
        otherwise: Option<Box<Expr>>,
    },
    Attribute(Box<Expr>, Name),
    Item(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(Box<Expr>, Arguments),
    /// None: the text that a filter block or a set block has captured.
    Filter(Option<Box<Expr>>, Name, Arguments),
    Test(Box<Expr>, Name, Arguments),
}

#[derive(Debug, Default)]
pub struct Arguments {
    pub positional: Vec<Expr>,
    pub keyword: Vec<(Name, Expr)>,
    pub more_positional: Option<Box<Expr>>,
    pub more_keyword: Option<Box<Expr>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
}

#[derive(Debug)]
pub enum Target {
    Name(Name),
    /// namespace.attribute
    Attribute(Name, Name),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub struct Statement {
    pub line: usize,
    pub kind: StatementKind,
}

#[derive(Debug)]
pub enum StatementKind {
    Data(String),
    Print(Expr),
    For(Rc<For>),
    If(Vec<(Expr, Vec<Statement>)>, Vec<Statement>),
    Set(Target, Expr),
    /// `hides`: the name is undefined inside the block, where it is not assigned before in the same scope.
    SetBlock { target: Target, filter: Option<Expr>, body: Vec<Statement>, hides: bool },
    With(Vec<(Target, Expr)>, Vec<Statement>),
    Macro(Rc<Macro>),
    Call(Expr, Rc<Macro>),
    FilterBlock(Expr, Vec<Statement>),
    /// Contents in a scope of their own: `generation`, and `block`, which sees the template's own names only.
    Scoped {
        from_root: bool,
        body: Vec<Statement>,
    },
    Autoescape(Expr, Vec<Statement>),
    Break,
    Continue,
    /// include, import, extends: there is no other template to be had.
    NoLoader(&'static str),
}

#[derive(Debug)]
pub struct For {
    pub target: Target,
    pub iterable: Expr,
    pub test: Option<Expr>,
    pub recursive: bool,
    pub body: Vec<Statement>,
    pub otherwise: Vec<Statement>,
}

#[derive(Debug)]
pub struct Macro {
    pub name: Name,
    pub parameters: Vec<(Name, Option<Expr>)>,
    pub body: Vec<Statement>,
    /// What the body mentions of the special names, and so may be given.
    pub takes_varargs: bool,
    pub takes_kwargs: bool,
    pub takes_caller: bool,
}
