//! Expressions of rules (CEL) over a call.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, Program, Value};

use super::Truth;
use super::tree::Tree;
use crate::config::Expression;
use crate::guard::Facts;
use crate::terms::Timestamp;

/// Most values in arguments that an expression is asked of, by how deep its loops are nested: what one costs is about their
/// number to that power, times their length.
const MOST_VALUES: [usize; 3] = [65_536, 2_048, 128];
/// The same of their length. Bytes.
const MOST_BYTES: [usize; 3] = [super::MOST_BYTES, 16 << 10, 2 << 10];

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// An expression, compiled.
#[derive(Clone)]
pub(super) struct CompiledExpression {
    /// `None` of a text that was not checked: nothing can be told by it.
    program: Option<Arc<Program>>,
    loops: usize,
}

impl fmt::Debug for CompiledExpression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CompiledExpression").field("loops", &self.loops).finish_non_exhaustive()
    }
}

impl CompiledExpression {
    pub(super) fn new(expression: &Expression) -> Self {
        match expression.compile() {
            Ok((program, loops)) => Self { program: Some(Arc::new(program)), loops },
            Err(_) => Self { program: None, loops: 0 },
        }
    }

    /// Whether it is true of a call. An error (a member that is not there, a comparison of a number with a text) and a value
    /// that is neither true nor false cannot be told, nor can arguments whose readers differ.
    pub(super) fn holds(
        &self,
        tool: &str,
        (arguments, bytes): (&Tree, usize),
        facts: &Facts<'_>,
        now: Timestamp,
    ) -> Truth {
        let Some(program) = &self.program else { return Truth::Unknown };
        let most = |all: [usize; 3]| all.get(self.loops).copied().unwrap_or_default();
        if bytes > most(MOST_BYTES) || arguments.count() > most(MOST_VALUES) || arguments.is_ambiguous() {
            return Truth::Unknown;
        }
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        let call = [
            ("server", text(&facts.server.0)),
            ("tool", text(tool)),
            (
                "arguments",
                match arguments {
                    Tree::Null => map([]),
                    arguments => value(arguments),
                },
            ),
        ];
        context.add_variable_from_value("call", map(call));
        context.add_variable_from_value("tool", of_tool(facts));
        context.add_variable_from_value("session", of_session(facts));
        context.add_variable_from_value("time", of_time(now));
        match program.execute(&context) {
            Ok(Value::Bool(holds)) => Truth::of(holds),
            _ => Truth::Unknown,
        }
    }
}

/// What is known of the tool. Of one that is not listed, that it is not.
fn of_tool(facts: &Facts<'_>) -> Value {
    let Some(tool) = facts.tool else { return map([("listed", Value::Bool(false))]) };
    let effects = tool.side_effects.iter().map(|effect| text(effect)).collect();
    map([
        ("listed", Value::Bool(!tool.removed)),
        ("category", text(tool.category.name())),
        ("side_effects", Value::List(Arc::new(effects))),
        ("risk", text(tool.risk.name())),
        ("approved", Value::Bool(tool.approved)),
        ("hash", text(&tool.hash)),
    ])
}

fn of_session(facts: &Facts<'_>) -> Value {
    let optional = |known: Option<&str>| known.map_or(Value::Null, text);
    map([
        ("id", text(&facts.session.0)),
        ("uid", facts.uid.map_or(Value::Null, |uid| Value::Int(uid.into()))),
        ("planning", Value::Bool(facts.profile.planning)),
        ("spec_frozen", Value::Bool(facts.profile.spec_frozen)),
        ("project_id", optional(facts.profile.project_id.as_deref())),
        ("admin_token", Value::Bool(facts.profile.admin_token)),
    ])
}

/// The time of the call, in UTC.
fn of_time(now: Timestamp) -> Value {
    let seconds = i64::try_from(now.0 / 1_000_000_000).unwrap_or(i64::MAX);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    map([
        ("unix", Value::Int(seconds)),
        ("hour", Value::Int(second / 3_600)),
        ("minute", Value::Int(second % 3_600 / 60)),
        // The first day of 1970 was a Thursday. 1: Monday; 7: Sunday.
        ("weekday", Value::Int((days + 3) % 7 + 1)),
    ])
}

fn text(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

fn map<const N: usize>(members: [(&str, Value); N]) -> Value {
    let members: HashMap<String, Value> =
        members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    members.into()
}

fn value(tree: &Tree) -> Value {
    match tree {
        // (Of what is unreadable no expression is asked.)
        Tree::Null | Tree::Unreadable => Value::Null,
        Tree::Bool(value) => Value::Bool(*value),
        Tree::Integer(number) => Value::Int(*number),
        Tree::Number(number) => Value::Float(*number),
        Tree::Text(value) => text(value),
        Tree::List(items) => Value::List(Arc::new(items.iter().map(value).collect())),
        Tree::Map(members) => {
            let members: HashMap<String, Value> =
                members.iter().map(|(key, member)| (key.clone(), value(member))).collect();
            members.into()
        }
    }
}
