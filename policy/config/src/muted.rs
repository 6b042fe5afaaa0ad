//! Detections that are recorded, and are no alerts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{Glob, Moment};

/// Most entries of `inspection.muted`.
pub const MAX_MUTED: usize = 256;

/// Detections that are recorded, and are no alerts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MutedDetections {
    /// The rules, by their ids, as `pattern` of a detection names them. Without it, every rule. Example: `learned_scorer`.
    #[serde(default)]
    pub rule: Option<Glob>,
    /// The servers, by their ids. Without it, every server. Example: `server-git`.
    #[serde(default)]
    pub server: Option<Glob>,
    /// The tools, by their names. Without it, every tool, and all that is no tool, such as instructions. Example: `search_*`.
    #[serde(default)]
    pub tool: Option<Glob>,
    /// The time at which the entry ends: a date, which is midnight in UTC, or a time. Without it, the entry does not end.
    /// Example: `2027-01-31`.
    #[serde(default)]
    pub until: Option<Moment>,
    /// The reason, for people; events have it.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// Ids that a glob stands for which leaves hardly any rule out.
const RULES: [&str; 6] =
    ["learned_scorer", "inspection-budget", "shadow_tool", "pseudo-tag", "cross_server_order", "x9"];
/// Ids of servers, or names of tools, that a glob stands for which leaves hardly any out.
const NAMES: [&str; 12] = [
    "a",
    "z",
    "A",
    "Z",
    "0",
    "9",
    "_",
    "-",
    "server-git",
    "read_file",
    "io.github.example/files",
    "\u{5de5}\u{5177}",
];

/// Whether a glob stands for every rule, or for all but a few.
pub fn is_every_rule(glob: Option<&Glob>) -> bool {
    is_all(glob, &RULES)
}

/// Whether a mute is for every rule of every server: nothing would be an alert.
pub fn is_too_broad(muted: &MutedDetections) -> bool {
    let MutedDetections { rule, server, tool, .. } = muted;
    is_every_rule(rule.as_ref()) && is_all(server.as_ref(), &NAMES) && is_all(tool.as_ref(), &NAMES)
}

fn is_all(glob: Option<&Glob>, names: &[&str]) -> bool {
    let Some(glob) = glob else { return true };
    glob.compile(true).is_ok_and(|glob| names.iter().all(|name| glob.matches(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutes_of_everything_are_too_broad() {
        let glob = |text: &str| (!text.is_empty()).then(|| text.parse::<Glob>().unwrap());
        for (rule, server, tool, expected) in [
            ("", "", "", true),
            ("*", "", "", true),
            ("?*", "*", "**", true),
            ("", "*", "", true),
            ("", "", "*", true),
            ("*[a-z]*", "", "", true),
            ("{*_*,*}", "{a,*}", "", true),
            ("*", "server-*", "", false),
            ("", "server-git", "", false),
            ("", "", "read_file", false),
            ("", "", "read_*", false),
            ("*_*", "*", "*", false),
            ("learned_scorer", "", "", false),
            ("[!l]*", "", "", false),
        ] {
            let [rule, server, tool] = [rule, server, tool].map(glob);
            let muted = MutedDetections { rule, server, tool, until: None, reason: "r".into() };
            assert_eq!(is_too_broad(&muted), expected, "{muted:?}");
        }
    }
}
