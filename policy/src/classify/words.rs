//! The words that classify a tool: verbs of reading, writing, sending and computing, each in all its forms.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::terms::{RiskLevel, ToolCategory};
use ToolCategory::{Compute, Read, Send, Unknown, Write};

/// A group of verbs: their category, their side effect, whether each is as often a noun or an adjective (`update`,
/// `post`), and the verbs.
type Verbs = (ToolCategory, Option<&'static str>, bool, &'static str);

/// The first verbs of a category are those of the requirements; the others are those of published servers. (`transition`:
/// `jira_transition_issue` of sooperset/mcp-atlassian; `speak`: servers for text to speech.)
const VERBS: &[Verbs] = &[
    (
        Read,
        None,
        false,
        "read get list find search lookup view show describe browse retrieve inspect check compare explain summarize \
         count locate detect identify enumerate analyze analyse estimate calculate validate verify examine whoami peek \
         decode encode parse translate convert resolve look scan preview diff outline screenshot snapshot",
    ),
    (Read, None, true, "query"),
    // `ping`: `ping_host` of servers for networks, and the health checks of many others
    (Read, Some("network.http"), false, "fetch download navigate visit crawl scrape ping"),
    (
        Write,
        Some("fs.write"),
        false,
        "write create put insert add append save rename modify upsert replace undo redo toggle enable disable \
         activate deactivate assign unassign approve reject accept decline deny revoke unlock pin unpin unarchive \
         reopen subscribe unsubscribe unregister mute unmute unblock adjust alter rewrite overwrite prepend \
         rotate generate configure provision allocate attach detach unlink unmount \
         mkdir mv chmod chown apply rebase revert cancel enroll mutate migrate paste inject ingest initialize snooze \
         acknowledge compose fill",
    ),
    (
        Write,
        Some("fs.write"),
        true,
        "set edit update move patch close copy clone duplicate change commit merge archive schedule book order mark \
         flag star vote label store record register grant lock link mount touch stash tag checkout branch fork load \
         import restore swap release reset block ban join leave comment log turn backup reserve draft click kick \
         increment decrement install upgrade rollback transition",
    ),
    (
        Write,
        Some("fs.delete"),
        false,
        "delete remove destroy truncate purge erase wipe rm rmdir unset prune uninstall discard evict",
    ),
    (Write, Some("fs.delete"), true, "drop clear flush trash empty"),
    (Write, Some("payments"), false, "pay buy reimburse"),
    (Write, Some("payments"), true, "purchase charge withdraw deposit donate refund"),
    (
        Send,
        Some("network.http"),
        false,
        "send notify publish submit announce deliver dispatch emit transmit remind synchronize respond escalate speak",
    ),
    (
        Send,
        Some("network.http"),
        true,
        "post tweet http upload email push forward reply share broadcast message mail dm page contact alert transfer sms fax \
         relay invite sync export handoff",
    ),
    (
        Compute,
        Some("system.exec"),
        false,
        "exec eval execute invoke bash spawn evaluate launch kill terminate reboot compile perform suspend restart",
    ),
    (Compute, Some("system.exec"), true, "run call shell start stop trigger build deploy python resume"),
];
/// Verbs of reading in sentences alone: as names they say too little.
const SENTENCE_VERBS: &str = "return provide contain display output";
/// Nouns that name a thing at the end of a name: `user_email`, `feature_set`, where an `image_upload` uploads.
const THINGS: &str = "email http set call post query share reply message mail contact page alert log record comment \
                      label tag branch order mark flag star vote link change commit schedule book grant stash release \
                      charge purchase deposit sms fax dm run shell build python store lock register block patch";
/// Words that name a side effect and no act.
const TRAITS: [(&str, &str); 3] =
    [("network", "network.http"), ("payment", "payments"), ("command", "system.exec")];
/// Participles that follow no rule.
const PARTICIPLES: [(&str, &str); 9] = [
    ("written", "write"),
    ("overwritten", "overwrite"),
    ("rewritten", "rewrite"),
    ("sent", "send"),
    ("paid", "pay"),
    ("bought", "buy"),
    ("undone", "undo"),
    ("built", "build"),
    ("withdrawn", "withdraw"),
];
/// Verbs that are their own participles: "the flag is set".
const SAME_PARTICIPLE: [&str; 4] = ["put", "set", "run", "reset"];

/// Words by the risk that they stand for.
const RISK_WORDS: [(RiskLevel, &[&str]); 4] = [
    (RiskLevel::Critical, &["delete", "drop", "destroy", "payment"]),
    (RiskLevel::High, &["write", "update", "modify", "create"]),
    (RiskLevel::Medium, &["network", "fetch", "http", "api"]),
    (RiskLevel::Low, &["read", "get", "list", "search", "echo"]),
];

/// The side effects that the classifier assigns, each once.
pub(super) const TAGS: [&str; 5] = ["fs.write", "fs.delete", "network.http", "payments", "system.exec"];

/// Some of [`TAGS`], as bits: classifying a name allocates nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tags(u8);

impl Tags {
    pub(super) fn insert(&mut self, tag: &str) {
        if let Some(bit) = TAGS.iter().position(|known| *known == tag) {
            self.0 |= 1 << bit;
        }
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn iter(self) -> impl Iterator<Item = &'static str> {
        (0..).zip(TAGS).filter(move |(bit, _)| self.0 >> bit & 1 == 1).map(|(_, tag)| tag)
    }
}

/// The form of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `delete`
    Base,
    /// `deletes`
    Third,
    /// `deleting`
    Ing,
    /// `deleted`
    Participle,
    /// `set`: base and participle.
    BaseAndParticiple,
}

/// The meaning of a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    /// [`ToolCategory::Unknown`] of a word that names a side effect and no act.
    pub(super) category: ToolCategory,
    pub(super) side_effect: Option<&'static str>,
    pub(super) form: Form,
    /// Whether the word is as often a noun.
    pub(super) is_noun: bool,
    /// Whether it names a thing at the end of a name.
    pub(super) is_thing: bool,
    /// Whether the word classifies a name.
    pub(super) is_in_names: bool,
}

impl Word {
    /// Whether the word is a verb that writes, sends or computes.
    pub(super) fn acts(&self) -> bool {
        !matches!(self.category, Read | Unknown)
    }

    pub(super) fn is_base(&self) -> bool {
        matches!(self.form, Form::Base | Form::BaseAndParticiple)
    }
}

/// The meaning of a word in lower case.
pub(super) fn word(word: &str) -> Option<Word> {
    static WORDS: LazyLock<HashMap<String, Word>> = LazyLock::new(words);
    WORDS.get(word).copied()
}

/// The risk that a word in lower case stands for.
pub(super) fn risk(word: &str) -> Option<RiskLevel> {
    static RISKS: LazyLock<HashMap<String, RiskLevel>> = LazyLock::new(|| {
        let mut risks = HashMap::new();
        for (risk, words) in RISK_WORDS {
            for (form, _) in words.iter().flat_map(|word| forms(word)) {
                risks.entry(form).or_insert(risk);
            }
        }
        risks
    });
    RISKS.get(word).copied()
}

fn words() -> HashMap<String, Word> {
    let mut all: HashMap<String, Word> = HashMap::new();
    let groups = VERBS.iter().copied().map(|verbs| (verbs, true));
    for ((category, side_effect, is_noun, verbs), is_in_names) in
        groups.chain([((Read, None, false, SENTENCE_VERBS), false)])
    {
        for verb in verbs.split_whitespace() {
            for (text, form) in forms(verb) {
                all.entry(text).or_insert(Word {
                    category,
                    side_effect,
                    form,
                    is_noun,
                    is_thing: false,
                    is_in_names,
                });
            }
        }
    }
    for (participle, verb) in PARTICIPLES {
        if let Some(verb) = all.get(verb).copied() {
            all.insert(participle.to_owned(), Word { form: Form::Participle, ..verb });
        }
    }
    for verb in SAME_PARTICIPLE {
        if let Some(word) = all.get_mut(verb) {
            word.form = Form::BaseAndParticiple;
        }
    }
    for (name, tag) in TRAITS {
        let side_effect = Some(tag);
        for (text, form) in forms(name) {
            let nouns = Word {
                category: Unknown,
                side_effect,
                form,
                is_noun: true,
                is_thing: true,
                is_in_names: true,
            };
            all.entry(text).or_insert(nouns);
        }
    }
    for thing in THINGS.split_whitespace() {
        if let Some(word) = all.get_mut(thing) {
            word.is_thing = true;
        }
    }
    all
}

/// A word as it stands in a sentence about a tool: "Deletes a file", "for writing files".
pub(super) fn forms(word: &str) -> Vec<(String, Form)> {
    let stem = word.strip_suffix('e').unwrap_or(word);
    let last = &word[word.len() - 1..];
    let mut forms = vec![
        (word.to_owned(), Form::Base),
        (format!("{word}s"), Form::Third),
        (format!("{stem}ing"), Form::Ing),
        (format!("{stem}ed"), Form::Participle),
    ];
    match last {
        "y" => {
            let stem = &word[..word.len() - 1];
            forms.extend([(format!("{stem}ies"), Form::Third), (format!("{stem}ied"), Form::Participle)]);
        }
        "h" | "s" | "x" | "o" => forms.push((format!("{word}es"), Form::Third)),
        // "dropped", "running", "getting", "tagging", "cancelled"
        "p" | "n" | "t" | "g" | "b" | "d" | "l" | "r" => forms
            .extend([(format!("{word}{last}ing"), Form::Ing), (format!("{word}{last}ed"), Form::Participle)]),
        _ => {}
    }
    forms
}
