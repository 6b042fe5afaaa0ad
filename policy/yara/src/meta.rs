//! The metadata of a rule. Published sets of rules for MCP name the same things differently: each of their names is read.

use std::collections::BTreeSet;

use mcpwarden_detect::Scope;
use mcpwarden_terms::{Category, Severity};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};
use yara_x::{MetaValue, Metadata};

/// What is read of it.
#[derive(Debug, PartialEq)]
pub(super) struct Meta {
    pub(super) title: String,
    pub(super) category: Category,
    pub(super) severity: Severity,
    pub(super) scopes: BTreeSet<Scope>,
}

/// Longest description. Characters.
const MAX_TITLE: usize = 200;

/// Names of severities beside our own.
const SEVERITIES: [(&str, Severity); 8] = [
    ("critical", Severity::Critical),
    ("high", Severity::High),
    ("medium", Severity::Medium),
    ("moderate", Severity::Medium),
    ("warning", Severity::Medium),
    ("low", Severity::Low),
    ("info", Severity::Low),
    ("informational", Severity::Low),
];

/// Words in the names of categories that published sets use, the telling ones first.
const CATEGORIES: [(&str, Category); 33] = [
    ("credential", Category::CredentialTheft),
    ("secret", Category::CredentialTheft),
    ("harvesting", Category::CredentialTheft),
    ("exfiltration", Category::Exfiltration),
    ("data leak", Category::Exfiltration),
    ("leakage", Category::Exfiltration),
    ("path traversal", Category::PathTraversal),
    ("directory traversal", Category::PathTraversal),
    ("file access", Category::PathTraversal),
    ("shadowing", Category::Shadowing),
    ("typosquat", Category::NameSimilarity),
    ("impersonation", Category::NameSimilarity),
    ("redirection", Category::ToolRedirection),
    ("cross tool", Category::ToolRedirection),
    ("preference", Category::PreferenceManipulation),
    ("parameter", Category::ParameterTampering),
    ("schema", Category::ParameterTampering),
    ("unicode", Category::UnicodeSmuggling),
    ("smuggling", Category::UnicodeSmuggling),
    ("invisible", Category::UnicodeSmuggling),
    ("encoded", Category::EncodedPayload),
    ("encoding", Category::EncodedPayload),
    ("obfuscation", Category::EncodedPayload),
    ("command", Category::ShellInjection),
    ("shell", Category::ShellInjection),
    ("code execution", Category::ShellInjection),
    ("script", Category::ShellInjection),
    ("system manipulation", Category::ShellInjection),
    ("poisoning", Category::HiddenInstructions),
    ("prompt", Category::HiddenInstructions),
    ("jailbreak", Category::HiddenInstructions),
    ("coercive", Category::HiddenInstructions),
    ("instruction", Category::HiddenInstructions),
];

/// Words for what a rule looks at.
const SCOPES: [(&str, &[Scope]); 19] = [
    ("all", &[Scope::Definition, Scope::Result, Scope::Argument]),
    ("any", &[Scope::Definition, Scope::Result, Scope::Argument]),
    ("definition", &[Scope::Definition]),
    ("definitions", &[Scope::Definition]),
    ("description", &[Scope::Definition]),
    ("tool", &[Scope::Definition]),
    ("tools", &[Scope::Definition]),
    ("prompt", &[Scope::Definition]),
    ("prompts", &[Scope::Definition]),
    ("instructions", &[Scope::Definition]),
    ("result", &[Scope::Result]),
    ("results", &[Scope::Result]),
    ("output", &[Scope::Result]),
    ("response", &[Scope::Result]),
    ("responses", &[Scope::Result]),
    ("resource", &[Scope::Result]),
    ("argument", &[Scope::Argument]),
    ("arguments", &[Scope::Argument]),
    ("input", &[Scope::Argument]),
];

/// Reads it. Of a rule that does not say so, the severity is medium, the category `custom`, and it looks at everything.
///
/// # Errors
/// What is wrong with it, and what is expected: a severity or a scope that is none.
pub(super) fn read(metadata: Metadata<'_, '_>) -> Result<Meta, (String, &'static str)> {
    let (mut title, mut severity, mut category, mut kind) = (String::new(), None, None, None);
    let mut scopes = BTreeSet::new();
    for (key, value) in metadata {
        let MetaValue::String(value) = value else { continue };
        match key.to_ascii_lowercase().as_str() {
            "description" => title = value.chars().take(MAX_TITLE).collect(),
            "severity" => severity = Some(severity_of(value)?),
            "category" => category = Some(value),
            "threat_type" | "attack_type" | "threat" => kind = Some(value),
            "scope" => scopes.extend(scopes_of(value)?),
            _ => {}
        }
    }
    let category = [category, kind].into_iter().flatten().map(category_of);
    let category = category.reduce(|first, next| if first == Category::Custom { next } else { first });
    if scopes.is_empty() {
        scopes = [Scope::Definition, Scope::Result, Scope::Argument].into();
    }
    Ok(Meta {
        title,
        category: category.unwrap_or(Category::Custom),
        severity: severity.unwrap_or(Severity::Medium),
        scopes,
    })
}

fn severity_of(value: &str) -> Result<Severity, (String, &'static str)> {
    let word = value.trim().to_ascii_lowercase();
    let found = SEVERITIES.iter().find(|(name, _)| *name == word).map(|(_, severity)| *severity);
    found.ok_or_else(|| (format!("severity {value:?}"), "low, medium, high or critical"))
}

/// The category that a name means; [`Category::Custom`] where none is known.
fn category_of(value: &str) -> Category {
    let words = value.to_ascii_lowercase().replace(['_', '-', '/'], " ");
    let name = words.trim().replace(' ', "_");
    let own: StrDeserializer<'_, Error> = name.as_str().into_deserializer();
    let known = || CATEGORIES.iter().find(|(part, _)| words.contains(part)).map(|(_, category)| *category);
    Category::deserialize(own).ok().or_else(known).unwrap_or(Category::Custom)
}

fn scopes_of(value: &str) -> Result<Vec<Scope>, (String, &'static str)> {
    let words = value.split(|byte: char| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut found = Vec::new();
    for word in words {
        let lower = word.to_ascii_lowercase();
        match SCOPES.iter().find(|(name, _)| *name == lower) {
            Some((_, scopes)) => found.extend_from_slice(scopes),
            None => {
                return Err((format!("scope {word:?}"), "definition, result, argument, or several of them"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_published_sets_are_read() {
        for (name, expected) in [
            ("exfiltration", Category::Exfiltration),
            ("data_exfiltration", Category::Exfiltration),
            ("TOOL POISONING", Category::HiddenInstructions),
            ("Prompt Injection", Category::HiddenInstructions),
            ("command-injection", Category::ShellInjection),
            ("CREDENTIAL HARVESTING", Category::CredentialTheft),
            ("tool_shadowing", Category::Shadowing),
            ("path-traversal", Category::PathTraversal),
            ("unicode_smuggling", Category::UnicodeSmuggling),
            ("something else", Category::Custom),
            ("", Category::Custom),
        ] {
            assert_eq!(category_of(name), expected, "{name}");
        }
        for (name, expected) in
            [("HIGH", Some(Severity::High)), (" Info ", Some(Severity::Low)), ("10", None), ("", None)]
        {
            assert_eq!(severity_of(name).ok(), expected, "{name}");
        }
        for (name, expected) in [
            ("tools, results", Some(&[Scope::Definition, Scope::Result][..])),
            ("description|arguments", Some(&[Scope::Definition, Scope::Argument])),
            ("", Some(&[])),
            ("everywhere", None),
        ] {
            assert_eq!(scopes_of(name).ok().as_deref(), expected, "{name}");
        }
    }
}
