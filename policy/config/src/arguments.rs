//! Conditions of a rule on tools: what the arguments of a call must be, and an expression over the call.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::texts::{Directory, HostGlob, Pointer};
use super::values::Glob;
use super::{Config, Level, Step, ToolRule, parse, steps};

/// One value, or a list of which one is enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AnyOf<T> {
    /// One.
    One(T),
    /// Several.
    Several(#[schemars(length(min = 1, max = 256))] Vec<T>),
}

impl<T> AnyOf<T> {
    /// Each.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        match self {
            Self::One(one) => std::slice::from_ref(one).iter(),
            Self::Several(several) => several.iter(),
        }
    }
}

/// What an argument must be. All that is given must hold; of a list, one value is enough.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("minProperties" = 1))]
pub struct ArgumentTest {
    /// Whether it is there. `null` is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// The value. A list gives several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_value")]
    pub equal: Option<Value>,
    /// The beginning of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<AnyOf<String>>,
    /// A glob on the whole text; `*` matches `/` too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<AnyOf<Glob>>,
    /// The least number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The largest number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// The host of the URL: a glob on names, an IP address or a CIDR block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<AnyOf<HostGlob>>,
    /// A directory that the path, once normalized, is or lies below. `.` is the working directory of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<AnyOf<Directory>>,
    /// The least length: characters of a text, elements of a list, members of an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u32>,
    /// The largest length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
    /// What must not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<ArgumentTest>>,
}

fn any_value(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": ["string", "number", "boolean", "array", "object"],
        "items": { "type": ["string", "number", "boolean", "array", "object"], "additionalProperties": true },
        "additionalProperties": true
    })
}

/// The tests of a rule, by where the argument stands.
pub type ArgumentTests = BTreeMap<Pointer, ArgumentTest>;

impl Config {
    /// Every rule on tools, and where it stands.
    pub fn tool_rules(&self) -> impl Iterator<Item = (Vec<Step>, &ToolRule)> {
        let policy = [
            ("allowed_tools", &self.policy.allowed_tools),
            ("denied_tools", &self.policy.denied_tools),
            ("requires_admin_token", &self.policy.requires_admin_token),
            ("disabled_tools", &self.policy.disabled_tools),
        ];
        let policy = policy.into_iter().map(|(key, rules)| (steps!["policy", key], &**rules));
        let guards =
            self.guards.iter().enumerate().filter_map(|(at, entry)| Some((at, entry.config.as_ref()?)));
        let guards = guards.flat_map(|(at, own)| {
            let lists = [
                ("allowed_tools", &own.allowed_tools),
                ("denied_tools", &own.denied_tools),
                ("tools", &own.tools),
            ];
            lists.map(|(key, rules)| {
                (steps!["guards", at, "config", key], rules.as_deref().unwrap_or_default())
            })
        });
        let sessions = self.sessions.iter().enumerate().flat_map(|(at, entry)| {
            let lists = [("allowed_tools", &entry.allowed_tools), ("denied_tools", &entry.denied_tools)];
            lists.map(|(key, rules)| (steps!["sessions", at, key], &**rules))
        });
        let lists = policy.chain(guards).chain(sessions);
        lists.flat_map(|(path, rules)| {
            let place = move |at: usize| [&*path, &[Step::from(at)]].concat();
            rules.iter().enumerate().map(move |(at, rule)| (place(at), rule))
        })
    }
}

/// Tests of arguments that are given elsewhere than in a rule.
///
/// # Errors
/// What is wrong with the first that is unusable, and which.
pub fn argument_tests(tests: &Value) -> Result<ArgumentTests, String> {
    let rule = json!({ "policy": { "denied_tools": [{ "tool": "*", "arguments": tests }] } });
    match parse(rule.to_string().as_bytes()) {
        Ok((mut config, _)) => {
            Ok(config.policy.denied_tools.pop().map(|rule| rule.arguments).unwrap_or_default())
        }
        Err(problems) => {
            let worst = problems.iter().find(|problem| problem.level == Level::Error);
            let (path, message) =
                worst.map_or_else(Default::default, |found| (found.path.to_string(), found.message.as_str()));
            let path = path.strip_prefix("policy.denied_tools[0].").unwrap_or(&path);
            Err(format!("`{path}`: {message}"))
        }
    }
}

/// What makes the conditions of a rule unusable: the key below the rule, and why.
pub(super) fn faults(rule: &ToolRule) -> Vec<(Vec<Step>, &'static str)> {
    let mut found = Vec::new();
    for (pointer, test) in &rule.arguments {
        test.faults(&[Step::from("arguments"), Step::from(pointer.as_str())], &mut found);
    }
    found
}

impl ArgumentTest {
    fn faults(&self, path: &[Step], found: &mut Vec<(Vec<Step>, &'static str)>) {
        let numbers = [self.min, self.max];
        if numbers.iter().flatten().any(|number| !number.is_finite()) {
            found.push((path.to_vec(), "`min` and `max` must be numbers"));
        }
        if matches!(numbers, [Some(least), Some(most)] if least > most) {
            found.push((path.to_vec(), "`min` is above `max`"));
        }
        if matches!((self.min_length, self.max_length), (Some(least), Some(most)) if least > most) {
            found.push((path.to_vec(), "`min_length` is above `max_length`"));
        }
        if let Some(not) = &self.not {
            not.faults(&[path, &["not".into()]].concat(), found);
        }
    }
}
