//! What is known of an expression before any call: the members of its variables, the functions, and the types of what these give.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

/// The type of a value, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Number,
    Text,
    List,
    Map,
    /// Some other type of CEL, and no boolean.
    Other,
    /// Only a call shows it.
    Unknown,
}

impl Type {
    /// What a value of this type is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Other | Self::Unknown => "a value",
        }
    }
}

/// The variables, and their members: docs/guide/argument-rules.md. What may be `null` has a type that only a call shows.
pub(super) const VARIABLES: [(&str, &[(&str, Type)]); 4] = [
    ("call", &[("server", Type::Text), ("tool", Type::Text), ("arguments", Type::Unknown)]),
    (
        "tool",
        &[
            ("listed", Type::Bool),
            ("category", Type::Text),
            ("side_effects", Type::List),
            ("risk", Type::Text),
            ("approved", Type::Bool),
            ("hash", Type::Text),
        ],
    ),
    (
        "session",
        &[
            ("id", Type::Text),
            ("uid", Type::Unknown),
            ("planning", Type::Bool),
            ("spec_frozen", Type::Bool),
            ("project_id", Type::Unknown),
            ("admin_token", Type::Bool),
        ],
    ),
    (
        "time",
        &[
            ("unix", Type::Number),
            ("hour", Type::Number),
            ("minute", Type::Number),
            ("weekday", Type::Number),
        ],
    ),
];

/// Functions, and those that stand behind a value (`x.matches("…")`), with what they give: the standard library of the evaluator, cel 0.15
/// without its feature `chrono`. A test calls each.
pub(super) const FUNCTIONS: [(&str, Type); 10] = [
    ("size", Type::Number),
    ("matches", Type::Bool),
    ("bool", Type::Bool),
    ("int", Type::Number),
    ("uint", Type::Number),
    ("double", Type::Number),
    ("string", Type::Text),
    ("bytes", Type::Other),
    ("type", Type::Other),
    ("dyn", Type::Unknown),
];
pub(super) const METHODS: [(&str, Type); 9] = [
    ("size", Type::Number),
    ("matches", Type::Bool),
    ("contains", Type::Bool),
    ("startsWith", Type::Bool),
    ("endsWith", Type::Bool),
    ("value", Type::Unknown),
    ("hasValue", Type::Bool),
    ("or", Type::Unknown),
    ("orValue", Type::Unknown),
];
/// Of these the value in front is a text.
const OF_TEXTS: [&str; 4] = ["matches", "contains", "startsWith", "endsWith"];

/// Whether a name is that of a function, and of no operator (`_+_`, `@in`).
pub(super) fn is_function(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.'))
}

/// A text that stands in the expression.
pub(super) fn literal(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// The type of what an expression gives; `bound` are the variables of the loops around it.
pub(super) fn type_of(expression: &IdedExpr, bound: &[String]) -> Type {
    match &expression.expr {
        Expr::Literal(literal) => match literal {
            LiteralValue::Boolean(_) => Type::Bool,
            LiteralValue::String(_) => Type::Text,
            LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => Type::Number,
            LiteralValue::Bytes(_) | LiteralValue::Null => Type::Other,
        },
        Expr::Ident(name) if members(name, bound).is_some() => Type::Map,
        Expr::Select(select) if select.test => Type::Bool,
        Expr::Select(select) => member(&select.operand, &select.field, bound),
        Expr::List(_) => Type::List,
        Expr::Map(_) => Type::Map,
        Expr::Call(call) => of_call(call, bound),
        // `map` and `filter` give the list that they began with, `all` and `exists` a boolean.
        Expr::Comprehension(of) => match &of.result.expr {
            Expr::Ident(name) if *name == of.accu_var => type_of(&of.accu_init, bound),
            _ => type_of(&of.result, bound),
        },
        _ => Type::Unknown,
    }
}

fn of_call(call: &CallExpr, bound: &[String]) -> Type {
    let known = |all: &[(&str, Type)]| {
        all.iter().find(|(name, _)| *name == call.func_name).map_or(Type::Unknown, |(_, of)| *of)
    };
    match (call.func_name.as_str(), call.args.as_slice()) {
        ("!_" | "_&&_" | "_||_" | "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "@in", _) => Type::Bool,
        ("_-_" | "_*_" | "_/_" | "_%_" | "-_", _) => Type::Number,
        ("_+_", [left, right]) => {
            let (left, right) = (type_of(left, bound), type_of(right, bound));
            if left == Type::Unknown { right } else { left }
        }
        ("_?_:_", [_, left, right]) => {
            let (left, right) = (type_of(left, bound), type_of(right, bound));
            if left == right { left } else { Type::Unknown }
        }
        ("_[_]", [of, key]) => literal(key).map_or(Type::Unknown, |key| member(of, key, bound)),
        (name, _) if !is_function(name) => Type::Unknown,
        _ if call.target.is_some() => known(&METHODS),
        _ => known(&FUNCTIONS),
    }
}

fn member(of: &IdedExpr, name: &str, bound: &[String]) -> Type {
    let Expr::Ident(variable) = &of.expr else { return Type::Unknown };
    let member = members(variable, bound).and_then(|all| all.iter().find(|(known, _)| *known == name));
    member.map_or(Type::Unknown, |(_, of)| *of)
}

/// The members of a variable, if it is one of the documented.
fn members(name: &str, bound: &[String]) -> Option<&'static [(&'static str, Type)]> {
    let is_bound = bound.iter().any(|bound| bound == name);
    let found = VARIABLES.iter().find(|(known, _)| *known == name).filter(|_| !is_bound);
    found.map(|(_, members)| *members)
}

/// Whether a value can have this member.
///
/// # Errors
/// It is a documented variable without it, or nothing that has members.
pub(super) fn check_member(of: &IdedExpr, name: &str, bound: &[String]) -> Result<(), String> {
    if let Expr::Ident(variable) = &of.expr
        && let Some(all) = members(variable, bound)
        && !all.iter().any(|(known, _)| *known == name)
    {
        let all: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
        let (near, all) = (nearest(name, &all), all.join(", "));
        return Err(format!("`{variable}` has no member `{name}`{near}; its members are {all}"));
    }
    match type_of(of, bound) {
        Type::Map | Type::Unknown | Type::Other => Ok(()),
        other => Err(format!("there is no member `{name}` of {}", other.name())),
    }
}

/// Whether a function is there, and can be asked of these values.
///
/// # Errors
/// It is not, or it cannot.
pub(super) fn check_call(call: &CallExpr, bound: &[String]) -> Result<(), String> {
    let name = call.func_name.as_str();
    if let ("_<_" | "_<=_" | "_>_" | "_>=_" | "_+_" | "_-_" | "_*_" | "_/_" | "_%_", [left, right]) =
        (name, call.args.as_slice())
    {
        let (left, right) = (type_of(left, bound), type_of(right, bound));
        if left != right && ![left, right].iter().any(|of| matches!(of, Type::Unknown | Type::Other)) {
            return Err(format!("{} and {} are no operands of one operator", left.name(), right.name()));
        }
    }
    if let ("_[_]" | "_[?_]" | "_?._", [of, key]) = (name, call.args.as_slice())
        && let Some(key) = literal(key)
    {
        return check_member(of, key, bound);
    }
    if !is_function(name) {
        return Ok(());
    }
    let all: Vec<&str> = match &call.target {
        Some(_) => METHODS.iter().map(|(known, _)| *known).collect(),
        None => FUNCTIONS.iter().map(|(known, _)| *known).collect(),
    };
    if !all.contains(&name) {
        let (near, place) = (nearest(name, &all), if call.target.is_some() { " behind a value" } else { "" });
        return Err(format!(
            "there is no function `{name}`{place}{near}; the functions here are {}",
            all.join(", ")
        ));
    }
    if let Some(of) = call.target.as_deref().map(|of| type_of(of, bound))
        && OF_TEXTS.contains(&name)
        && !matches!(of, Type::Text | Type::Unknown | Type::Other)
    {
        return Err(format!("`{name}` is asked of a text, and this is {}", of.name()));
    }
    match call.args.last().filter(|_| name == "matches").and_then(literal) {
        Some(pattern) => check_pattern(pattern),
        None => Ok(()),
    }
}

fn check_pattern(pattern: &str) -> Result<(), String> {
    let Err(error) = regex::Regex::new(pattern) else { return Ok(()) };
    // The pattern stands above the reason.
    let error = error.to_string();
    let reason = error.lines().next_back().unwrap_or_default().trim();
    Err(format!("`{pattern}` is no regular expression: {}", reason.strip_prefix("error: ").unwrap_or(reason)))
}

/// The name that was meant, if one is near.
fn nearest(name: &str, all: &[&str]) -> String {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    let distance = |known: &&&str| strsim::damerau_levenshtein(&plain(name), &plain(known));
    let near = all.iter().min_by_key(distance).filter(|known| distance(known) <= 2);
    near.map(|known| format!(" (did you mean `{known}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use cel::{Context, Program, Value};

    use super::*;

    /// The evaluator has every function of the tables, and nothing that is refused.
    #[test]
    fn functions_are_those_of_the_evaluator() {
        let is_undeclared = |text: &str| {
            let outcome = Program::compile(text).unwrap().execute(&Context::default());
            matches!(outcome, Err(cel::ExecutionError::UndeclaredReference(_)))
        };
        for (name, _) in FUNCTIONS {
            assert!(!is_undeclared(&format!("{name}('1')")), "{name}");
        }
        for (name, _) in METHODS {
            assert!(!is_undeclared(&format!("'1'.{name}('1')")), "{name}");
        }
        for text in
            ["lower('1')", "'1'.startswith('1')", "'1'.replace('1', '2')", "'1'.lowerAscii()", "now()"]
        {
            assert!(is_undeclared(text), "{text}");
        }
        assert_eq!(Program::compile("size('ab')").unwrap().execute(&Context::default()), Ok(Value::Int(2)));
    }
}
