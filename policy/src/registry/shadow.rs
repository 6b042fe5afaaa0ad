//! What it means that two servers of a session offer names that can be taken for one another.
//!
//! The finding is about the later one. Who is first is told by when a pin was first seen, not by who listed first
//! in this session: clients start their servers at once, and a look-alike must not win by being quick.
//!
//! | tools | both declared | otherwise |
//! |---|---|---|
//! | the same name | low: two servers that offer `search` are no attack | high |
//! | another case or other separators | low | high |
//! | letters that look alike | high | critical |
//! | a letter doubled or left out, or two swapped | medium | medium |
//! | nearly the same otherwise | low | low; medium where only the first is declared |
//!
//! Where the finding is high or critical, the later tool shadows the first one. Of two declared servers with one plain
//! name, neither does.
//!
//! | servers | both declared | otherwise |
//! |---|---|---|
//! | the same but for `mcp`, `server`, case, separators; nearly the same | low | medium; high where only the first is declared |
//! | a letter doubled or left out, or two swapped | medium | medium; high where only the first is declared |
//! | letters that look alike | high | high |
//!
//! What is found stands in `mcp_tool_seen` and `mcp_server_started`, whatever its severity; from
//! `inspection.alert_threshold` on it is an `mcp_detection` besides. `inspection.similarity_threshold` says what is
//! nearly the same.

use super::names::Likeness;
use crate::detect::score_of;
use crate::terms::{Category, Detection, Form, Identity, Match, ServerId, Severity};

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side<'a> {
    pub(super) server: &'a ServerId,
    pub(super) identity: Identity,
    pub(super) name: &'a str,
}

/// What is said of a tool whose name is another server's.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// For the event, and for the tool's detections.
    pub detection: Detection,
    /// The server that was first with the name. `None` where two declared servers share a plain name, or the names
    /// are only nearly the same.
    pub shadows: Option<ServerId>,
}

fn both_declared(first: Side<'_>, later: Side<'_>) -> bool {
    first.identity == Identity::Declared && later.identity == Identity::Declared
}

fn only_first_declared(first: Side<'_>, later: Side<'_>) -> bool {
    first.identity == Identity::Declared && later.identity == Identity::Derived
}

/// The finding about the tool `later`.
pub(super) fn of_tool(first: Side<'_>, later: Side<'_>, likeness: Likeness) -> Finding {
    let declared = both_declared(first, later);
    let (rule, severity) = match likeness {
        Likeness::Same if declared => ("shadow_tool", Severity::Low),
        Likeness::Same => ("shadow_tool", Severity::High),
        Likeness::Spelling if declared => ("shadow_tool_spelling", Severity::Low),
        Likeness::Spelling => ("shadow_tool_spelling", Severity::High),
        Likeness::Confusable if declared => ("shadow_tool_confusable", Severity::High),
        Likeness::Confusable => ("shadow_tool_confusable", Severity::Critical),
        Likeness::Typo => ("similar_tool", Severity::Medium),
        Likeness::Similar if only_first_declared(first, later) => ("similar_tool", Severity::Medium),
        Likeness::Similar => ("similar_tool", Severity::Low),
    };
    let context =
        format!("{} of {}; {} is first with {}", later.name, later.server, first.server, first.name);
    Finding {
        detection: detection(rule, severity, likeness, "/name", later.name, context),
        shadows: (severity >= Severity::High).then(|| first.server.clone()),
    }
}

/// The detection about the server `later`; the names are those of the servers.
pub(super) fn of_server(first: Side<'_>, later: Side<'_>, likeness: Likeness) -> Detection {
    let severity = match likeness {
        Likeness::Confusable => Severity::High,
        Likeness::Typo if both_declared(first, later) => Severity::Medium,
        _ if both_declared(first, later) => Severity::Low,
        _ if only_first_declared(first, later) => Severity::High,
        _ => Severity::Medium,
    };
    let context = format!("{}; {} is first", later.server, first.server);
    detection("similar_server", severity, likeness, "/server_id", &later.server.0, context)
}

fn detection(
    rule: &str,
    severity: Severity,
    likeness: Likeness,
    field: &str,
    text: &str,
    context: String,
) -> Detection {
    let shadowing = rule.starts_with("shadow");
    Detection {
        pattern: rule.to_owned(),
        category: if shadowing { Category::Shadowing } else { Category::NameSimilarity },
        severity,
        field: field.to_owned(),
        matches: vec![Match { text: text.to_owned(), position: 0, context }],
        score: score_of(severity),
        form: match likeness {
            Likeness::Same | Likeness::Typo | Likeness::Similar => Form::Raw,
            Likeness::Spelling => Form::Words,
            Likeness::Confusable => Form::Normal,
        },
        muted_by: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shadowing_severities_match_table() {
        use Identity::{Declared, Derived};
        use Likeness::{Confusable, Same, Similar, Spelling, Typo};
        use Severity::{Critical, High, Low, Medium};
        let cases = [
            (Same, Declared, Declared, Low, Low),
            (Same, Declared, Derived, High, High),
            (Same, Derived, Declared, High, Medium),
            (Same, Derived, Derived, High, Medium),
            (Spelling, Declared, Declared, Low, Low),
            (Spelling, Declared, Derived, High, High),
            (Spelling, Derived, Derived, High, Medium),
            (Confusable, Declared, Declared, High, High),
            (Confusable, Derived, Derived, Critical, High),
            (Typo, Declared, Declared, Medium, Medium),
            (Typo, Declared, Derived, Medium, High),
            (Typo, Derived, Derived, Medium, Medium),
            (Similar, Declared, Declared, Low, Low),
            (Similar, Declared, Derived, Medium, High),
            (Similar, Derived, Derived, Low, Medium),
        ];
        let (a, b) = (ServerId("a".into()), ServerId("b".into()));
        for (likeness, first, later, of_tools, of_servers) in cases {
            let first = Side { server: &a, identity: first, name: "x" };
            let later = Side { server: &b, identity: later, name: "y" };
            let finding = of_tool(first, later, likeness);
            assert_eq!(finding.detection.severity, of_tools, "{likeness:?} {first:?} {later:?}");
            assert_eq!(finding.shadows.as_ref(), (of_tools >= High).then_some(&a));
            assert_eq!(
                of_server(first, later, likeness).severity,
                of_servers,
                "{likeness:?} {first:?} {later:?}"
            );
        }
    }
}
