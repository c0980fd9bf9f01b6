//! A template compiled by the library, then with its operators replaced by ours.
//!
//! The library offers filters, tests and functions for overriding, but not operators. Its compiled program is a list of
//! instructions for a stack machine, where an operator takes its operands from the stack just as a filter does; so each
//! becomes a filter, with a name that no template can spell (without spaces: those the library drops). This is the one place that uses the library's machinery,
//! which it does not promise to keep: the version is pinned, and the tests would show what changed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minijinja::machinery::{parse, CodeGenerator, Instruction, Instructions};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::Error;
use regex::Regex;

use super::values::fail;

/// Twice the longest tag in use. The library takes a time with the square of a tag's operators to look for constants.
const LONGEST_TAG: usize = 12 << 10;

/// Compiled: the main part, and the `block`s by name.
pub type Program<'s> = (Instructions<'s>, BTreeMap<&'s str, Instructions<'s>>);

/// What Python's Jinja2 does before anything else; and `generation`, which only marks text for training, is a scope.
pub fn prepared(source: &str) -> String {
    static TAG: LazyLock<Regex> = LazyLock::new(|| {
        let tag = r"(\{%[-+]?[ \t\n]*)(end)?generation([ \t\n]*[-+]?%\})";
        Regex::new(tag).unwrap_or_else(|e| panic!("{e}"))
    });
    let text = source.replace("\r\n", "\n").replace('\r', "\n");
    TAG.replace_all(&text, "${1}${2}with${3}").into_owned()
}

/// The parser goes as deep as a tag has operators, too.
fn short_tags(source: &str) -> Result<(), Error> {
    let bytes = source.as_bytes();
    let long = bytes.windows(2).enumerate().find(|(at, pair)| {
        let rest = &bytes[at + 2..];
        let closed = |rest: &[u8]| rest.windows(2).any(|pair| matches!(pair, b"%}" | b"}}"));
        matches!(*pair, b"{%" | b"{{") && rest.len() > LONGEST_TAG && !closed(&rest[..LONGEST_TAG])
    });
    match long {
        None => Ok(()),
        Some((at, _)) => {
            let line = 1 + bytes[..at].iter().filter(|b| **b == b'\n').count();
            Err(fail(format!("the tag in line {line} has more than {LONGEST_TAG} bytes; set parts of it as variables")))
        }
    }
}

pub fn compiled(source: &str) -> Result<Program<'_>, Error> {
    short_tags(source)?;
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    let tree = parse(source, "template", syntax)?;
    let mut generator = CodeGenerator::new("template", source);
    generator.compile_stmt(&tree);
    let (main, blocks) = generator.finish();
    Ok((patched(&main), blocks.iter().map(|(name, block)| (*name, patched(block))).collect()))
}

/// The filter of ours that does what the instruction does, and how many operands it takes.
fn substitute(instruction: &Instruction) -> Option<(&'static str, u16)> {
    Some(match instruction {
        Instruction::Add => ("a+b", 2),
        Instruction::Mul => ("a*b", 2),
        Instruction::Rem => ("a%b", 2),
        Instruction::Neg => ("-a", 1),
        Instruction::StringConcat => ("a~b", 2),
        Instruction::Eq => ("a==b", 2),
        Instruction::Ne => ("a!=b", 2),
        Instruction::Lt => ("a<b", 2),
        Instruction::Lte => ("a<=b", 2),
        Instruction::Gt => ("a>b", 2),
        Instruction::Gte => ("a>=b", 2),
        Instruction::In => ("a@b", 2),
        Instruction::GetItem => ("a[b]", 2),
        Instruction::Slice => ("a[b:c:d]", 4),
        Instruction::BuildList(Some(n)) if *n > 0 => ("[a]", u16::try_from(*n).ok()?),
        Instruction::BuildTuple(Some(n)) if *n > 0 => ("(a,)", u16::try_from(*n).ok()?),
        Instruction::BuildMap(n) if *n > 0 => ("{a:b}", u16::try_from(2 * n).ok()?),
        _ => return None,
    })
}

fn filter(name: &'static str, operands: u16) -> Instruction<'static> {
    Instruction::ApplyFilter(name, Some(operands), !0) // !0: looked up by name each time
}

fn patched<'s>(old: &Instructions<'s>) -> Instructions<'s> {
    let mut new = Instructions::new(old.name(), old.source());
    let mut places = vec![];
    let mut length = 0;
    for at in 0.. {
        places.push(length);
        let Some(instruction) = old.get(at) else { break };
        let mut put = |instruction: Instruction<'s>| {
            length = 1 + match (old.get_span(at), old.get_line(at)) {
                (Some(span), _) => new.add_with_span(instruction, span),
                (None, Some(line)) => new.add_with_line(instruction, line as u16),
                _ => new.add(instruction),
            };
        };
        match (instruction, substitute(instruction)) {
            (_, Some((name, operands))) => put(filter(name, operands)),
            (Instruction::SetAttr(name), _) => {
                put(Instruction::LoadConst(Value::from(*name)));
                put(filter("b.c=a", 3));
                put(Instruction::DiscardTop);
            }
            (Instruction::PushLoop(_), _) => {
                put(filter("for", 1));
                put(instruction.clone());
            }
            _ => put(instruction.clone()),
        }
    }
    // Jumps lead to where their targets have moved.
    for at in 0..length {
        match new.get_mut(at) {
            Some(
                Instruction::Jump(target)
                | Instruction::JumpIfFalse(target)
                | Instruction::JumpIfFalseOrPop(target)
                | Instruction::JumpIfTrueOrPop(target)
                | Instruction::Iterate(target)
                | Instruction::BuildMacro(_, target, _),
            ) => *target = places[*target as usize],
            _ => {}
        }
    }
    new
}
