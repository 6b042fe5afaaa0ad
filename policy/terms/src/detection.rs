//! What the detector says of a text: part of the events about tools, calls and results.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How bad a detection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth a look when there is time.
    Low,
    /// Suspicious.
    Medium,
    /// Likely an attack.
    High,
    /// An attack.
    Critical,
}

impl Severity {
    /// Its name, as in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// What kind of attack a rule looks for. Each can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Reading keys, tokens and passwords, or the files that hold them.
    CredentialTheft,
    /// Sending data somewhere it was not meant to go.
    Exfiltration,
    /// Text that speaks to the model behind the user's back.
    HiddenInstructions,
    /// Commands for a shell, spelt out for the model to run.
    ShellInjection,
    /// Paths that lead out of where a tool belongs, or into the system.
    PathTraversal,
    /// Characters that people do not see and models read.
    UnicodeSmuggling,
    /// Text in an encoding that the model is expected to undo.
    EncodedPayload,
    /// One tool steering the use of another.
    ToolRedirection,
    /// Parameters, or their values, that are not what the tool needs.
    ParameterTampering,
    /// A tool advertising itself over others.
    PreferenceManipulation,
    /// A name that another server's tool has already.
    Shadowing,
    /// A name that is nearly another's.
    NameSimilarity,
    /// A pattern of the user's own.
    Custom,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::CredentialTheft,
        Self::Exfiltration,
        Self::HiddenInstructions,
        Self::ShellInjection,
        Self::PathTraversal,
        Self::UnicodeSmuggling,
        Self::EncodedPayload,
        Self::ToolRedirection,
        Self::ParameterTampering,
        Self::PreferenceManipulation,
        Self::Shadowing,
        Self::NameSimilarity,
        Self::Custom,
    ];
}

/// In which form of the text the rule matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As it was sent.
    Raw,
    /// Compatibility forms, look-alike letters and invisible characters resolved.
    Normal,
    /// A name, read as the words in it.
    Words,
    /// The texts of neighbouring fields, read as one.
    Joined,
    /// Unicode tag characters, read as the letters they stand for.
    TagCharacters,
    /// Variation selectors, read as the bytes they stand for.
    VariationSelectors,
    /// Text shown backwards, read forwards.
    Reversed,
    /// Letters set apart by blanks or marks, closed up.
    Spaced,
    /// Digits and signs that stand for letters.
    Leetspeak,
    /// The alphabet turned by 13.
    Rot13,
    /// Base64, decoded.
    Base64,
    /// Hexadecimal digits, decoded.
    Hex,
    /// Percent, entity or backslash escapes, decoded.
    Escapes,
    /// Emphasis and inline tags left out.
    Markup,
}

/// One place where a rule matched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Match {
    /// The text there, as it was sent (bounded; of a secret only its beginning).
    pub text: String,
    /// Where it begins in the field's text as it was sent. Bytes of UTF-8.
    pub position: u64,
    /// The text around it (bounded; secrets and other long tokens masked).
    pub context: String,
}

/// What one rule found in one field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detection {
    /// Id of the rule.
    pub pattern: String,
    /// What kind of attack the rule looks for.
    pub category: Category,
    /// How bad it is, by `score`.
    pub severity: Severity,
    /// The field, as a JSON Pointer (RFC 6901) into the definition, result or arguments (bounded).
    pub field: String,
    /// Where it matched, in order (bounded).
    pub matches: Vec<Match>,
    /// The weights of all rules that matched in the same two sentences, added up. From 25 low, 50 medium,
    /// 100 high, 200 critical.
    pub score: u32,
    /// In which form of the text it matched.
    pub form: Form,
    /// The id of the mute that applies: the detection is recorded, and is no alert. Absent where none applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted_by: Option<Arc<str>>,
}

impl Detection {
    /// The worst of those that are not muted.
    pub fn worst(found: &[Self]) -> Option<Severity> {
        found.iter().filter(|detection| !detection.is_muted()).map(|detection| detection.severity).max()
    }

    /// Whether a mute applies to it.
    pub fn is_muted(&self) -> bool {
        self.muted_by.is_some()
    }

    /// The rules that found these, each once, in alphabetical order.
    pub fn rules<'a>(found: impl IntoIterator<Item = &'a Self>) -> Vec<&'a str> {
        let mut rules: Vec<&str> = found.into_iter().map(|detection| detection.pattern.as_str()).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}
