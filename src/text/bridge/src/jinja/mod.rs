//! Chat templates, rendered as Python's Jinja2 renders them in transformers' sandbox: minijinja, with overrides where it
//! differs from Jinja2 in what a template can see. What remains different is listed, with reasons, in
//! tests/data/text/jinja_differences.json. Time and memory of a template are bounded.

mod filters;
mod methods;
mod objects;
mod operators;
mod print;
mod program;
mod strftime;
mod values;

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{machinery, AutoEscape, Environment, Error, ErrorKind};

use objects::Namespace;
use print::LONGEST_TEXT;
use values::{bound, escape_html, fail, is_dict, items, pairs};

/// One step is an instruction, or 64 bytes of text: seconds of work, thousands of times what a conversation needs.
const FUEL: u64 = 20_000_000;
/// Eight times the longest template in use.
const LONGEST_SOURCE: usize = 128 << 10;
/// The library's parser and its macros recurse, and so does dropping what nests; bounded all, but by more than the
/// stack that a thread may happen to have.
const STACK: usize = 256 << 20;
/// Namespaces can hold each other, so that none is freed before the end.
const MOST_NAMESPACES: usize = 1000;

/// Runs `work` where the stack is large enough.
pub fn with_stack<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        match thread.map(|t| t.join()) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err("the library gave up".into()),
            Err(e) => Err(format!("a thread for the template cannot be started: {e}; free some memory")),
        }
    })
}

/// `variables` is a JSON object. transformers always passes tools, documents and add_generation_prompt, so that they
/// are defined here, too.
pub fn render(source: &str, variables: &str, clock: &str) -> Result<String, String> {
    let clock = strftime::Clock::parse(clock)?;
    let given: Value = serde_json::from_str(variables).map_err(|e| format!("the variables are not JSON: {e}"))?;
    if !is_dict(&given) {
        return Err("the variables must be a JSON object".into());
    }
    if source.len() > LONGEST_SOURCE {
        return Err(format!("the template has {} bytes; more than {LONGEST_SOURCE} are refused", source.len()));
    }
    let none = || Value::from(());
    let mut all =
        vec![("tools".into(), none()), ("documents".into(), none()), ("add_generation_prompt".into(), false.into())];
    all.extend(pairs(&given));

    let namespaces = Arc::new(Mutex::new(vec![]));
    let env = environment(clock, namespaces.clone());
    let source = program::prepared(source);
    let result = program::compiled(&source).and_then(|(main, blocks)| {
        let mut out = String::new();
        let mut output = machinery::make_string_output(&mut out);
        machinery::eval(&env, &main, Value::from_pairs(all), &blocks, &mut output, AutoEscape::None)?;
        print::fits(out.len()).map(|_| out)
    });
    // Those that hold each other would never be freed.
    let namespaces: Vec<Arc<Namespace>> =
        std::mem::take(&mut *namespaces.lock().unwrap_or_else(PoisonError::into_inner));
    namespaces.iter().for_each(|n| n.clear());
    result.map_err(|e| described(&e))
}

fn described(error: &Error) -> String {
    let mut text = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "the template takes too many steps, or too much memory".into(),
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_string(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    if let Some(cause) = std::error::Error::source(error).and_then(|e| e.downcast_ref::<Error>()) {
        text = format!("{text}: {}", described(cause));
    }
    match error.line() {
        Some(line) => format!("line {line}: {text}"),
        None => text,
    }
}

/// What all templates have in common.
fn common() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_debug(true); // errors name what is undefined
    env.set_fuel(Some(FUEL));
    env.set_formatter(|out, state, value| {
        let text = print::text(value)?;
        // Captured text is in memory, too; the fuel bounds it, but this bounds it sooner.
        if text.len() > LONGEST_TEXT {
            return Err(fail("a text is too long"));
        }
        if *state.auto_escape() == AutoEscape::None || value.is_safe() {
            out.write_str(&text)?;
        } else {
            out.write_str(&escape_html(&text))?;
        }
        Ok(())
    });
    env.set_unknown_method_callback(|state, value, name, args| {
        let ours = match value.kind() {
            ValueKind::String => methods::method(value.as_str().unwrap_or_default(), name, args),
            ValueKind::Number => methods::of_number(value, name, args),
            ValueKind::Seq | ValueKind::Iterable => methods::of_container(value, name, args),
            ValueKind::Map if is_dict(value) => methods::of_container(value, name, args),
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        };
        match ours {
            Err(e) if e.kind() == ErrorKind::UnknownMethod && value.kind() == ValueKind::String => {
                minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
            }
            ours => ours,
        }
    });
    filters::install(&mut env);
    env.add_function("cycler", |items: Rest<Value>| minijinja_contrib::globals::cycler(items.0));
    env.add_function("joiner", minijinja_contrib::globals::joiner);
    env.add_function("lipsum", || -> Result<Value, Error> { Err(fail("lipsum() is not supported in chat templates")) });
    env.add_global("self", Value::from_pairs([("", "")])); // what it is for, self.block(), the compiler sees to
    env.add_function("dict", dict);
    env.add_function("raise_exception", |message: &Value| -> Result<Value, Error> { Err(fail(print::text(message)?)) });
    env
}

fn environment(clock: strftime::Clock, namespaces: Arc<Mutex<Vec<Arc<Namespace>>>>) -> Environment<'static> {
    static COMMON: LazyLock<Environment<'static>> = LazyLock::new(common);
    let mut env = COMMON.clone();
    env.add_function("strftime_now", move |layout: &str| clock.format(layout).map_err(fail));
    env.add_function("namespace", move |args: Rest<ValueOrKwargs>| {
        let made = Arc::new(Namespace::default());
        for (name, value) in entries(&args.into_values())? {
            made.set(name.as_str().unwrap_or_default(), value);
        }
        let mut all = namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_NAMESPACES {
            return Err(fail(format!("more than {MOST_NAMESPACES} namespaces")));
        }
        all.push(made.clone());
        Ok(Value::from_dyn_object(made))
    });
    env
}

/// The entries of dict() and namespace(): of a dict or of pairs, then what is given by name.
fn entries(args: &[Value]) -> Result<Vec<(Value, Value)>, Error> {
    let (named, positional) = match args.split_last() {
        Some((last, rest)) if last.is_kwargs() => (pairs(last), rest),
        _ => (vec![], args),
    };
    let [from] = bound("dict", positional, ["mapping"], 0)?;
    let mut all = match from {
        None => vec![],
        Some(from) if is_dict(&from) => pairs(&from),
        Some(from) => {
            let pair = |pair: &Value| match &items(pair)?[..] {
                [key, value] => Ok((values::hashable(key)?.clone(), value.clone())),
                _ => Err(fail("dict: pairs are needed")),
            };
            operators::iterated(&from)?.iter().map(pair).collect::<Result<_, _>>()?
        }
    };
    all.extend(named);
    Ok(all)
}

fn dict(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    entries(&args.into_values()).map(Value::from_pairs)
}
