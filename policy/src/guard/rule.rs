//! Rules of the configuration on tools, and lists of them.

use crate::config::{ServerRule, Session, ToolRule};
use crate::glob::{GlobError, NameGlob};
use crate::guard::ToolFacts;
use crate::guard::arguments::{Call, CompiledConditions, Purpose};

/// A rule on tools, compiled.
#[derive(Clone, Debug)]
pub(crate) struct CompiledRule {
    pub(crate) server: NameGlob,
    pub(crate) tool: NameGlob,
    /// 64 hexadecimal digits.
    pub(crate) hash: Option<String>,
    /// What calls must be besides.
    pub(crate) conditions: CompiledConditions,
}

impl CompiledRule {
    pub(crate) fn names(&self, server: &str, tool: &str) -> bool {
        self.tool.matches(tool) && self.server.matches(server)
    }

    /// Whether it is on this definition.
    pub(crate) fn holds(&self, known: Option<&ToolFacts>) -> bool {
        self.hash.as_deref().is_none_or(|hash| known.is_some_and(|tool| tool.hash.eq_ignore_ascii_case(hash)))
    }

    /// Whether it is on a call of a tool that it names.
    pub(crate) fn applies(&self, call: &Call<'_>, purpose: Purpose) -> bool {
        self.holds(call.known()) && self.conditions.apply(call, purpose)
    }

    pub(crate) fn matches(&self, server: &str, tool: &str, call: &Call<'_>, purpose: Purpose) -> bool {
        self.names(server, tool) && self.applies(call, purpose)
    }

    /// Whether this rule that allows is more than an exception to everything: what `deny` denies with a bare `*` it
    /// names. What is denied of a server by its name, only a rule of a server allows.
    pub(crate) fn beats(&self, deny: &Self) -> bool {
        let by_server = !self.server.is_any();
        let by_tool = !self.tool.is_any() && (by_server || deny.server.is_any());
        deny.tool.is_any() && deny.conditions.is_empty() && (by_tool || by_server && deny.server.is_any())
    }

    pub(crate) fn describe(&self) -> String {
        format!("{}:{}{}", self.server.as_str(), self.tool.as_str(), self.conditions.describe())
    }
}

/// Rules on tools.
pub(crate) fn tool_rules(rules: &[ToolRule], case_sensitive: bool) -> Result<Vec<CompiledRule>, GlobError> {
    let compile = |rule: &ToolRule| {
        Ok(CompiledRule {
            server: rule.server.compile(case_sensitive)?,
            tool: rule.tool.compile(case_sensitive)?,
            hash: rule.content_hash.as_ref().map(|hash| hash.digits().to_owned()),
            conditions: CompiledConditions::new(rule)?,
        })
    };
    rules.iter().map(compile).collect()
}

/// What the lists of one profile allow and deny: see [`Session`]. A list of what is allowed denies everything else.
#[derive(Debug)]
pub struct AccessLists {
    /// How messages name the profile, behind the name of a list.
    pub(crate) whose: String,
    pub(crate) allowed_servers: Vec<NameGlob>,
    pub(crate) denied_servers: Vec<NameGlob>,
    pub(crate) allowed_tools: Vec<CompiledRule>,
    pub(crate) denied_tools: Vec<CompiledRule>,
}

impl AccessLists {
    /// Those of an entry of `sessions`; `None` where it has none.
    ///
    /// # Errors
    /// A glob does not compile; nothing of what [`parse`](crate::config::parse) lets through is one.
    pub(crate) fn of(entry: &Session, case_sensitive: bool) -> Result<Option<Self>, GlobError> {
        let servers = |rules: &[ServerRule]| -> Result<Vec<NameGlob>, GlobError> {
            rules.iter().map(|rule| rule.id.compile(case_sensitive)).collect()
        };
        let lists = Self {
            whose: match &entry.name {
                Some(name) => format!(" of the profile '{name}'"),
                None => " of the client's profile".to_owned(),
            },
            allowed_servers: servers(&entry.allowed_servers)?,
            denied_servers: servers(&entry.denied_servers)?,
            allowed_tools: tool_rules(&entry.allowed_tools, case_sensitive)?,
            denied_tools: tool_rules(&entry.denied_tools, case_sensitive)?,
        };
        Ok((!entry.has_no_lists()).then_some(lists))
    }
}
