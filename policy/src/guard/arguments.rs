//! Conditions of rules on tools: tests of arguments, and expressions.
//!
//! | module | job |
//! |---|---|
//! | `tree` | arguments as any server may read them: duplicate keys and other letter cases are kept |
//! | `test` | one test of one argument |
//! | `check` | the same, of the text alone: what the gate can tell |
//! | `path` | whether a path lies below a directory |
//! | `host` | the host of a URL |
//! | `expression` | CEL |
//!
//! A condition holds, does not hold, or cannot be told ([`Truth`]). What cannot be told counts against the call: a rule that
//! denies applies, and a rule that allows does not.

mod check;
mod expression;
mod host;
mod path;
mod test;
mod tree;

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Facts, ToolFacts};
use crate::config::{ArgumentTest, ArgumentTests, Expression, Pointer, ToolRule};
use crate::glob::GlobError;
use crate::terms::Timestamp;
use expression::CompiledExpression;
use test::CompiledTest;
use tree::Tree;

pub(crate) use check::{Check, Checks, alike_keys, key_expression};

/// Longest arguments that conditions are asked of. Bytes. Of longer ones nothing can be told.
pub(crate) const MOST_BYTES: usize = 256 << 10;

/// Whether something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    Yes,
    No,
    /// It cannot be told.
    Unknown,
}

impl Truth {
    fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }

    /// Whether all hold.
    fn all(truths: impl Iterator<Item = Self>) -> Self {
        let mut all = Self::Yes;
        for truth in truths {
            match truth {
                Self::No => return Self::No,
                Self::Unknown => all = Self::Unknown,
                Self::Yes => {}
            }
        }
        all
    }

    /// Whether one holds.
    fn any(truths: impl Iterator<Item = Self>) -> Self {
        Self::all(truths.map(Self::not)).not()
    }
}

/// What a rule is for, which decides what counts where several values, or none that can be told, stand for one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It denies: one value for which it holds is enough.
    Deny,
    /// It allows: it must hold for every value.
    Allow,
}

impl Purpose {
    fn inverse(self) -> Self {
        match self {
            Self::Deny => Self::Allow,
            Self::Allow => Self::Deny,
        }
    }

    /// Whether a rule that is for this applies: what cannot be told counts against the call.
    fn applies(self, truth: Truth) -> bool {
        match self {
            Self::Deny => truth != Truth::No,
            Self::Allow => truth == Truth::Yes,
        }
    }

    fn of(self, truths: impl Iterator<Item = Truth>) -> Truth {
        match self {
            Self::Deny => Truth::any(truths),
            Self::Allow => Truth::all(truths),
        }
    }
}

/// What is known of the arguments of calls.
#[derive(Clone, Copy, Debug, Default)]
pub enum Conditions<'a> {
    /// Those of the call that is judged.
    #[default]
    OfCall,
    /// Nothing, and the verdict is to be the strictest of all arguments.
    Strictest,
    /// The same, the most lenient.
    Lenient,
    /// Which conditions hold is given.
    Assumed(&'a Assumption),
}

/// Which conditions hold, of those that guards look at: who asks them with each set of these learns what goes by them.
#[derive(Debug, Default)]
pub struct Assumption {
    found: RefCell<Vec<(CompiledConditions, Purpose)>>,
    holding: Cell<usize>,
}

impl Assumption {
    /// From now on those hold whose bits are set, in the order in which they were found.
    pub(crate) fn assume(&self, holding: usize) {
        self.holding.set(holding);
    }

    /// Those that were looked at so far.
    pub(crate) fn found(&self) -> Vec<(CompiledConditions, Purpose)> {
        self.found.borrow().clone()
    }

    /// How many these are.
    pub(crate) fn count(&self) -> usize {
        self.found.borrow().len()
    }

    fn applies(&self, conditions: &CompiledConditions, purpose: Purpose) -> bool {
        let mut found = self.found.borrow_mut();
        let place = found.iter().position(|(known, of)| *of == purpose && known.source == conditions.source);
        let place = place.unwrap_or_else(|| {
            found.push((conditions.clone(), purpose));
            found.len() - 1
        });
        self.holding.get().checked_shr(u32::try_from(place).unwrap_or(u32::MAX)).unwrap_or(0) & 1 != 0
    }
}

/// A call, as conditions see it.
pub(crate) struct Call<'a> {
    tool: &'a str,
    arguments: Option<&'a RawValue>,
    facts: &'a Facts<'a>,
    now: Timestamp,
    tree: OnceCell<Option<Tree>>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        tool: &'a str,
        arguments: Option<&'a RawValue>,
        facts: &'a Facts<'a>,
        now: Timestamp,
    ) -> Self {
        Self { tool, arguments, facts, now, tree: OnceCell::new() }
    }

    pub(crate) fn known(&self) -> Option<&'a ToolFacts> {
        self.facts.tool
    }

    /// Their length. Bytes.
    fn bytes(&self) -> usize {
        self.arguments.map_or(0, |json| json.get().len())
    }

    /// Its arguments; `None`: they cannot be told.
    fn tree(&self) -> Option<&Tree> {
        let read = || match self.arguments {
            None => Some(Tree::Null),
            Some(json) if json.get().len() > MOST_BYTES => None,
            Some(json) => Some(Tree::read(json)),
        };
        self.tree.get_or_init(read).as_ref()
    }
}

/// The conditions of a rule, compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompiledConditions {
    tests: Vec<(Pointer, Vec<String>, CompiledTest)>,
    when: Option<CompiledExpression>,
    /// What they were compiled from.
    source: Arc<(ArgumentTests, Option<Expression>)>,
}

impl CompiledConditions {
    pub(crate) fn new(rule: &ToolRule) -> Result<Self, GlobError> {
        let ToolRule { arguments, when, .. } = rule;
        let source = Arc::new((arguments.clone(), when.clone()));
        Ok(Self { tests: tests(arguments)?, when: when.as_ref().map(compiled), source })
    }

    /// Tests of arguments alone.
    pub(crate) fn of_arguments(arguments: &ArgumentTests) -> Result<Self, GlobError> {
        Ok(Self { tests: tests(arguments)?, when: None, source: Arc::new((arguments.clone(), None)) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty() && self.when.is_none()
    }

    /// Whether a rule with these conditions applies to a call.
    pub(crate) fn apply(&self, call: &Call<'_>, purpose: Purpose) -> bool {
        if self.is_empty() {
            return true;
        }
        let truth = match call.facts.conditions {
            Conditions::OfCall => self.hold(call, purpose),
            Conditions::Strictest => Truth::Unknown,
            Conditions::Lenient => return purpose == Purpose::Allow,
            Conditions::Assumed(assumption) => return assumption.applies(self, purpose),
        };
        purpose.applies(truth)
    }

    /// What the texts of single arguments tell of them, for this purpose.
    pub(crate) fn checks(&self, purpose: Purpose) -> Checks {
        let of_test = |(pointer, tokens, test): &(Pointer, Vec<String>, CompiledTest)| {
            let source: &ArgumentTest = self.source.0.get(pointer)?;
            Check::new(tokens, source, test, purpose)
        };
        let checks: Vec<Option<Check>> = self.tests.iter().map(of_test).collect();
        let is_partial = self.when.is_some() || checks.iter().any(Option::is_none);
        Checks { checks: checks.into_iter().flatten().collect(), is_partial }
    }

    /// Whether the gate decides by them, wherever an argument is a plain text.
    pub(crate) fn can_be_checked(&self) -> bool {
        let Checks { checks, is_partial } = self.checks(Purpose::Deny);
        !is_partial && checks.iter().all(Check::is_complete)
    }

    fn hold(&self, call: &Call<'_>, purpose: Purpose) -> Truth {
        let Some(tree) = call.tree() else { return Truth::Unknown };
        let of_tests = self.tests.iter().map(|(_, tokens, test)| {
            let mut values = Vec::new();
            match tree.find(tokens, &mut values) {
                Ok(()) => test.holds(&values, purpose),
                Err(tree::TooMany) => Truth::Unknown,
            }
        });
        let of_expression =
            self.when.iter().map(|when| when.holds(call.tool, (tree, call.bytes()), call.facts, call.now));
        Truth::all(of_tests.chain(of_expression))
    }

    /// In words, behind the names of a rule; empty where there are none.
    pub(crate) fn describe(&self) -> String {
        let tests = self.tests.iter().map(|(pointer, ..)| match pointer.as_str() {
            "" => "the arguments".to_owned(),
            pointer => pointer.to_owned(),
        });
        let all: Vec<String> = tests.chain(self.when.iter().map(|_| "`when`".to_owned())).collect();
        if all.is_empty() { String::new() } else { format!(" by {}", all.join(", ")) }
    }
}

fn compiled(expression: &Expression) -> CompiledExpression {
    CompiledExpression::new(expression)
}

fn tests(tests: &ArgumentTests) -> Result<Vec<(Pointer, Vec<String>, CompiledTest)>, GlobError> {
    let compile = |(pointer, test): (&Pointer, _)| {
        Ok((pointer.clone(), pointer.tokens().collect(), CompiledTest::new(test)?))
    };
    tests.iter().map(compile).collect()
}
