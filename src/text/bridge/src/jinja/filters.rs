//! Filters, tests and functions: Jinja2's where the library's differ, and transformers' own.

use minijinja::value::{from_args, Kwargs, Rest, Tuple, Value, ValueKind, ValueOrKwargs};
use minijinja::{filters, tests, Environment, Error, State};

use super::methods::{lines, padded, replaced, wanted};
use super::objects::Lazy;
use super::operators::{self, compare, contains, equal, integer, iterable, iterated, number, optional_integer, Number};
use super::print::{fits, text, Style};
use super::values::{bound, escape_html, fail, hashable, is_dict, is_space, items, pairs, type_name, weighed};

type Outcome = Result<Value, Error>;
type Filter = fn(&mut State, &Value, &[Value]) -> Outcome;

fn flag(value: Option<Value>) -> bool {
    value.is_some_and(|v| v.is_true())
}

/// A filter that makes a string keeps the mark of a marked one.
fn marked(original: &Value, text: String) -> Value {
    if original.is_safe() {
        Value::from_safe_string(text)
    } else {
        Value::from(text)
    }
}

fn named<const N: usize>(names: [&str; N], values: [Option<Value>; N]) -> Kwargs {
    names.iter().zip(values).filter_map(|(n, v)| v.map(|v| (n.to_string(), v))).collect()
}

fn rest(args: &[Value]) -> Result<Rest<ValueOrKwargs>, Error> {
    let (rest,): (Rest<ValueOrKwargs>,) = from_args(args)?;
    Ok(rest)
}

pub fn install(env: &mut Environment) {
    // What Jinja2 has not.
    for name in ["bool", "chain", "lines", "pprint", "split", "zip"] {
        env.remove_filter(name);
    }
    env.remove_global("debug");
    let all: [(&'static str, Filter); 27] = [
        ("attr", attribute),
        ("batch", batch),
        ("center", |_, v, a| {
            let [width] = bound("center", a, ["width"], 0)?;
            let width = optional_integer(width.as_ref(), "the width")?.unwrap_or(80);
            padded(&text(v)?, "center", width, " ").map(Value::from)
        }),
        ("d", default),
        ("default", default),
        ("dictsort", |state, v, a| {
            let names = ["case_sensitive", "by", "reverse"];
            filters::dictsort(v, named(names, bound("dictsort", a, names, 0)?)).and_then(|v| weighed(state, v))
        }),
        ("float", float),
        ("forceescape", |_, v, _| Ok(Value::from_safe_string(escape_html(&text(v)?)))),
        ("format", |_, v, a| {
            let values = match a {
                [one] if one.is_kwargs() => Value::from_pairs(pairs(one)),
                _ => Value::from(Tuple::from(a)),
            };
            operators::percent(&text(v)?, &values).map(Value::from)
        }),
        ("groupby", |state, v, a| {
            let names = ["attribute", "default", "case_sensitive"];
            let [attribute, default, case_sensitive] = bound("groupby", a, names, 1)?;
            iterable(v)?;
            let more = named(["default", "case_sensitive"], [default, case_sensitive]);
            let groups = filters::groupby(v.clone(), Some(wanted(&attribute, "groupby")?), more)?;
            weighed(state, groups)
        }),
        ("indent", indent),
        ("int", int),
        ("items", |_, v, a| {
            bound::<0>("items", a, [], 0)?;
            items(&filters::items(v)?).map(Lazy::generator)
        }),
        ("join", join),
        ("list", |_, v, a| bound::<0>("list", a, [], 0).and_then(|_| iterated(v)).map(Value::from)),
        ("map", mapped),
        ("max", |state, v, a| extreme(state, v, a, true)),
        ("min", |state, v, a| extreme(state, v, a, false)),
        ("random", |_, v, _| filters::first(v)),
        ("replace", |_, v, a| {
            let [old, new, count] = bound("replace", a, ["old", "new", "count"], 2)?;
            let count = optional_integer(count.as_ref(), "the count")?.unwrap_or(-1);
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            replaced(&text(v)?, &text(&old)?, &text(&new)?, count).map(Value::from)
        }),
        ("reverse", |_, v, a| {
            bound::<0>("reverse", a, [], 0)?;
            if let Some(s) = v.as_str() {
                return Ok(marked(v, s.chars().rev().collect()));
            }
            Ok(Lazy::generator(iterated(v)?.into_iter().rev().collect()))
        }),
        ("slice", slices),
        ("sort", sort),
        ("tojson", tojson),
        ("trim", |_, v, a| {
            let [set] = bound("trim", a, ["chars"], 0)?;
            let set: Option<Vec<char>> = match set.filter(|s| !s.is_none()) {
                Some(set) => Some(text(&set)?.chars().collect()),
                None => None,
            };
            let goes = |c: char| set.as_ref().map_or_else(|| is_space(c), |set| set.contains(&c));
            Ok(marked(v, text(v)?.trim_matches(goes).to_string()))
        }),
        ("truncate", |state, v, a| {
            let names = ["length", "killwords", "end", "leeway"];
            let more = named(names, bound("truncate", a, names, 0)?);
            if v.kind() == ValueKind::String {
                minijinja_contrib::filters::truncate(state, v, more)
            } else {
                Ok(v.clone())
            }
        }),
        ("unique", |state, v, a| {
            let names = ["case_sensitive", "attribute"];
            let more = named(names, bound("unique", a, names, 0)?);
            iterable(v)?;
            items(&filters::unique(state, v.clone(), more)?).map(Lazy::generator)
        }),
    ];
    for name in ["capitalize", "e", "escape", "lower", "string", "title", "upper", "wordcount"] {
        env.add_filter(name, move |value: &Value| of_text(name, value));
    }
    for name in ["reject", "rejectattr", "select", "selectattr"] {
        env.add_filter(name, move |state: &mut State, value: &Value, args: Rest<ValueOrKwargs>| {
            picked(name, state, value, &args.into_values())
        });
    }
    for (name, filter) in all {
        env.add_filter(name, move |state: &mut State, value: &Value, args: Rest<ValueOrKwargs>| {
            filter(state, value, &args.into_values())
        });
    }
    env.add_filter("filesizeformat", minijinja_contrib::filters::filesizeformat);
    env.add_filter("striptags", minijinja_contrib::filters::striptags);
    install_operators(env);
    install_tests(env);
}

/// The names are those of program.rs.
fn install_operators(env: &mut Environment) {
    env.add_filter("a+b", operators::add);
    env.add_filter("a*b", operators::multiply);
    env.add_filter("a%b", operators::modulo);
    env.add_filter("-a", operators::negate);
    env.add_filter("a~b", operators::concatenate);
    env.add_filter("a==b", |s: &mut State, a: &Value, b: &Value| equal(s, a, b));
    env.add_filter("a!=b", |s: &mut State, a: &Value, b: &Value| equal(s, a, b).map(|same| !same));
    for (name, symbol) in [("a<b", "<"), ("a<=b", "<="), ("a>b", ">"), ("a>=b", ">=")] {
        env.add_filter(name, move |s: &mut State, a: &Value, b: &Value| compare(s, symbol, a, b));
    }
    env.add_filter("a@b", |s: &mut State, a: &Value, b: &Value| contains(s, a, b));
    env.add_filter("a[b]", operators::item);
    env.add_filter("a[b:c:d]", |s: &mut State, a: &Value, b: &Value, c: &Value, d: &Value| {
        operators::slice(s, a, [b, c, d])
    });
    env.add_filter("b.c=a", |s: &mut State, a: &Value, b: &Value, c: &Value| operators::assign(s, a, b, c));
    env.add_filter("for", |value: &Value| iterable(value).map(|_| value.clone()));
    env.add_filter("[a]", |s: &mut State, all: Rest<ValueOrKwargs>| weighed(s, Value::from(all.into_values())));
    env.add_filter("(a,)", |s: &mut State, all: Rest<ValueOrKwargs>| {
        weighed(s, Value::from(Tuple::from(all.into_values())))
    });
    env.add_filter("{a:b}", |s: &mut State, all: Rest<ValueOrKwargs>| {
        let all = all.into_values();
        let entry = |pair: &[Value]| Ok((hashable(&pair[0])?.clone(), pair[1].clone()));
        weighed(s, Value::from_pairs(all.chunks(2).map(entry).collect::<Result<Vec<_>, Error>>()?))
    });
}

fn install_tests(env: &mut Environment) {
    for name in ["endingwith", "safe", "startingwith"] {
        env.remove_test(name);
    }
    for name in ["==", "eq", "equalto"] {
        env.add_test(name, |s: &mut State, a: &Value, b: &Value| equal(s, a, b));
    }
    for name in ["!=", "ne"] {
        env.add_test(name, |s: &mut State, a: &Value, b: &Value| equal(s, a, b).map(|same| !same));
    }
    let orders = [("<", ["<", "lt", "lessthan"]), ("<=", ["<=", "le", "le"]), (">", [">", "gt", "greaterthan"])];
    for (symbol, names) in orders.into_iter().chain([(">=", [">=", "ge", "ge"])]) {
        for name in names {
            env.add_test(name, move |s: &mut State, a: &Value, b: &Value| compare(s, symbol, a, b));
        }
    }
    env.add_test("in", |s: &mut State, a: &Value, b: &Value| contains(s, a, b));
    env.add_test("callable", |v: &Value| v.is_undefined() || is_callable(v));
    env.add_test("iterable", |v: &Value| iterable(v).is_ok());
    env.add_test("mapping", is_dict);
    env.add_test("sequence", |v: &Value| {
        v.is_undefined() || is_dict(v) || matches!(v.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable)
    });
    env.add_test("lower", |v: &Value| Ok::<_, Error>(tests::is_lower(&Value::from(text(v)?))));
    env.add_test("upper", |v: &Value| Ok::<_, Error>(tests::is_upper(&Value::from(text(v)?))));
}

fn is_callable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Plain | ValueKind::Map) && !is_dict(value)
}

fn attribute(_: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let [name] = bound("attr", args, ["name"], 1)?;
    // Attributes only: a dict's items are none.
    if is_dict(value) {
        Ok(Value::UNDEFINED)
    } else {
        value.get_attr(wanted(&name, "attr")?)
    }
}

fn default(_: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let [default, boolean] = bound("default", args, ["default_value", "boolean"], 0)?;
    let absent = value.is_undefined() || (flag(boolean) && !value.is_true());
    Ok(if absent { default.unwrap_or_else(|| Value::from("")) } else { value.clone() })
}

/// Filters of the library that take a string, after whatever is none has become one as in Python.
fn of_text(name: &str, value: &Value) -> Outcome {
    let plain = text(value)?;
    Ok(match name {
        "upper" => marked(value, plain.to_uppercase()),
        "lower" => marked(value, plain.to_lowercase()),
        "title" => Value::from(filters::title(plain)),
        "e" | "escape" if value.is_safe() => value.clone(),
        "e" | "escape" => Value::from_safe_string(escape_html(&plain)),
        "wordcount" => minijinja_contrib::filters::wordcount(&Value::from(plain))?,
        "capitalize" => {
            let mut rest = plain.chars();
            let first = rest.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
            marked(value, first + &rest.as_str().to_lowercase())
        }
        _ if value.kind() == ValueKind::String => value.clone(),
        _ => Value::from(plain),
    })
}

fn float(_: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let [default] = bound("float", args, ["default"], 0)?;
    match (value.kind(), number(value)) {
        (ValueKind::Undefined, _) => Err(fail("float: the value is undefined")),
        (_, Some(Number::Int(i))) => Ok(Value::from(i as f64)),
        (_, Some(Number::Float(f))) => Ok(Value::from(f)),
        _ => {
            let parsed = value.as_str().and_then(|s| s.trim_matches(is_space).replace('_', "").parse::<f64>().ok());
            Ok(parsed.map_or_else(|| default.unwrap_or_else(|| Value::from(0.0)), Value::from))
        }
    }
}

fn int(state: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let [default, base] = bound("int", args, ["default", "base"], 0)?;
    let default = default.unwrap_or_else(|| Value::from(0));
    match value.kind() {
        ValueKind::Undefined => Err(fail("int: the value is undefined")),
        ValueKind::Number | ValueKind::Bool => match number(value) {
            Some(Number::Float(f)) if !f.is_finite() => Ok(default),
            _ => filters::int(state, value, None, None, named([], [])),
        },
        ValueKind::String => {
            let tidy = Value::from(value.as_str().unwrap_or_default().trim_matches(is_space).replace('_', ""));
            let base = optional_integer(base.as_ref(), "the base")?.map(|b| b.clamp(0, 99) as u32);
            filters::int(state, &tidy, Some(default), base, named([], []))
        }
        _ => Ok(default),
    }
}

fn indent(_: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let [width, first, blank] = bound("indent", args, ["width", "first", "blank"], 0)?;
    let plain = wanted(&Some(value.clone()), "indent")?.to_string() + "\n";
    let by = match width.as_ref().and_then(Value::as_str) {
        Some(by) => by.to_string(),
        None => " ".repeat(optional_integer(width.as_ref(), "the width")?.unwrap_or(4).clamp(0, 10_000) as usize),
    };
    let lines = lines(&plain, false);
    fits(plain.len().saturating_add(lines.len().saturating_mul(by.len())))?;
    let blank = flag(blank);
    let mut out = if flag(first) { by.clone() } else { String::new() };
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push('\n');
            out.push_str(if blank || !line.is_empty() { &by } else { "" });
        }
        out.push_str(line);
    }
    Ok(marked(value, out))
}

fn join(state: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let [separator, attribute] = bound("join", args, ["d", "attribute"], 0)?;
    let separator = separator.map_or(Ok(String::new()), |s| text(&s).map(|s| s.into_owned()))?;
    let mut all = iterated(value)?;
    if let Some(attribute) = attribute.filter(|a| !a.is_none()) {
        all = filters::map(state, Value::from(all), rest(&[named(["attribute"], [Some(attribute)]).into()])?)?;
    }
    state.consume_fuel(all.len() as u64 / 2)?;
    let mut out = String::new();
    for (i, item) in all.iter().enumerate() {
        out.push_str(if i > 0 { &separator } else { "" });
        out.push_str(&text(item)?);
        fits(out.len())?;
    }
    Ok(Value::from(out))
}

/// What map() and the selecting filters go through: what is false is empty, whatever it is.
fn chosen(value: &Value) -> Result<Value, Error> {
    if value.is_true() {
        iterable(value).map(|_| value.clone())
    } else {
        Ok(Value::UNDEFINED)
    }
}

fn mapped(state: &mut State, value: &Value, args: &[Value]) -> Outcome {
    filters::map(state, chosen(value)?, rest(args)?).map(Lazy::generator)
}

fn picked(name: &str, state: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let value = chosen(value)?;
    let attribute = |args: &[Value]| wanted(&args.first().cloned(), name).map(|a| a.to_string().into());
    let test = |args: &[Value]| match args.first().filter(|a| !a.is_kwargs()) {
        Some(test) => wanted(&Some(test.clone()), name).map(|t| Some(t.to_string().into())),
        None => Ok(None),
    };
    let from = |at: usize| rest(args.get(at..).unwrap_or_default());
    Ok(Lazy::generator(match name {
        "select" => filters::select(state, value, test(args)?, from(1)?)?,
        "reject" => filters::reject(state, value, test(args)?, from(1)?)?,
        _ => {
            let (attribute, test) = (attribute(args)?, test(args.get(1..).unwrap_or_default())?);
            match name {
                "selectattr" => filters::selectattr(state, value, attribute, test, from(2)?)?,
                _ => filters::rejectattr(state, value, attribute, test, from(2)?)?,
            }
        }
    }))
}

/// Python sorts only what it can compare.
fn comparable(state: &State, all: &[Value]) -> Result<(), Error> {
    all.windows(2).try_for_each(|pair| compare(state, "<", &pair[0], &pair[1]).map(drop))
}

/// The items as a list, whose keys a filter can put in order.
fn orderable(state: &mut State, value: &Value, attribute: &Option<Value>) -> Outcome {
    let all = Value::from(iterated(value)?);
    let Some(attribute) = attribute else {
        return comparable(state, &items(&all)?).map(|_| all);
    };
    for part in wanted(&Some(attribute.clone()), "the attribute")?.split(',') {
        let by = named(["attribute"], [Some(Value::from(part.trim()))]);
        let keys = filters::map(state, all.clone(), rest(&[by.into()])?)?;
        comparable(state, &keys)?;
    }
    Ok(all)
}

fn sort(state: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let names = ["reverse", "case_sensitive", "attribute"];
    let given = bound("sort", args, names, 0)?;
    let all = orderable(state, value, &given[2])?;
    filters::sort(state, all, named(names, given))
}

fn extreme(state: &mut State, value: &Value, args: &[Value], largest: bool) -> Outcome {
    let names = ["case_sensitive", "attribute"];
    let given = bound(if largest { "max" } else { "min" }, args, names, 0)?;
    let all = orderable(state, value, &given[1])?;
    let find = if largest { filters::max } else { filters::min };
    find(state, all, named(names, given))
}

fn count(given: Option<Value>, what: &str) -> Result<usize, Error> {
    let count = given.as_ref().and_then(integer).and_then(|i| usize::try_from(i).ok());
    count.filter(|n| (1..=100_000).contains(n)).ok_or_else(|| fail(format!("{what}: the count must be positive")))
}

fn batch(state: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let [size, fill] = bound("batch", args, ["linecount", "fill_with"], 1)?;
    iterable(value)?;
    let batches = filters::batch(state, value.clone(), count(size, "batch")?, fill)?;
    items(&weighed(state, batches)?).map(Lazy::generator)
}

fn slices(state: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let [size, fill] = bound("slice", args, ["slices", "fill_with"], 1)?;
    iterable(value)?;
    let slices = filters::slice(state, value.clone(), count(size, "slice")?, fill)?;
    items(&weighed(state, slices)?).map(Lazy::generator)
}

fn tojson(_: &mut State, value: &Value, args: &[Value]) -> Outcome {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ensure_ascii, indent, separators, sort_keys] = bound("tojson", args, names, 0)?;
    let indent = match indent.filter(|i| !i.is_none()) {
        None => None,
        Some(indent) => Some(match (integer(&indent), indent.as_str()) {
            (Some(width), _) => " ".repeat(width.clamp(0, 1000) as usize),
            (_, Some(text)) => text.to_string(),
            _ => return Err(fail(format!("tojson: indent must be a number or a string, not {}", type_name(&indent)))),
        }),
    };
    let (item_separator, key_separator) = match separators.filter(|s| !s.is_none()) {
        None => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
        Some(pair) => match &items(&pair)?[..] {
            [item, key] => (text(item)?.into_owned(), text(key)?.into_owned()),
            _ => return Err(fail("tojson: separators must be two strings")),
        },
    };
    let (ensure_ascii, sort_keys) = (flag(ensure_ascii), flag(sort_keys));
    let mut out = String::new();
    Style { ensure_ascii, indent, item_separator, key_separator, sort_keys }.dump(value, 0, &mut out)?;
    Ok(Value::from(out))
}
