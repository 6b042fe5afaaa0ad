//! Verbs in a row that are no acts of the tool: what something may be ("the status of a job: queued, running or deleted"), and what
//! others do ("who may read, write or share a folder").

use super::tokens::Token;
use super::words::{Form, Word, word};
use crate::terms::ToolCategory;

/// Things of which a list says which there are, by the verbs that they are called after: "triggers: insert, update, delete".
const KINDS: &[&str] = &[
    "trigger",
    "triggers",
    "event",
    "events",
    "hook",
    "hooks",
    "permission",
    "permissions",
    "privilege",
    "privileges",
    "right",
    "rights",
    "grant",
    "grants",
    "role",
    "roles",
    "scope",
    "scopes",
    "verb",
    "verbs",
    "kind",
    "kinds",
    "type",
    "types",
    "reason",
    "reasons",
];
/// Things of which a list says how they are: "the status of a job: queued, running, failed".
const STATES: &[&str] = &[
    "status",
    "statuses",
    "state",
    "states",
    "phase",
    "phases",
    "stage",
    "stages",
    "outcome",
    "outcomes",
    "condition",
    "conditions",
    "progress",
    "health",
    "lifecycle",
    "conclusion",
    "value",
    "values",
];
/// Words of an order, which no item of such a list has.
const OF_ORDERS: &[&str] = &[
    "it", "them", "the", "a", "an", "this", "that", "your", "all", "then", "also", "to", "will", "can", "you",
];
/// Most words of an item: "in progress".
const MAX_ITEM: usize = 3;
/// What begins a clause about somebody else, and what may stand in it beside its verbs.
const RELATIVES: &[&str] = &["who", "whom", "what", "which", "that"];
const MODALS: &[&str] = &["can", "could", "may", "might", "will", "would", "should", "must"];
const BETWEEN: &[&str] = &["and", "or", "also", "not", "only", "be", "either", "both", "even"];
/// What stands for the tool itself: what it does in such a clause it does.
const TOOLS: &[&str] = &["it", "tool", "server", "function", "this"];
/// What a tool's own act has behind it: "and deletes it".
const OWN_OBJECTS: &[&str] = &["it", "them", "this", "that"];

/// What a clause says in front of a colon: that it reads, or does nothing, and of what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    /// Whether it names one of [`KINDS`], and one of [`STATES`].
    has_kinds: bool,
    has_states: bool,
}

impl Front {
    /// `None` of what does not begin by reading, or does something else besides.
    pub(super) fn of(tokens: &[Token]) -> Option<Self> {
        let meaning = |token: &Token| word(token.text());
        let names = |things: &[&str]| tokens.iter().any(|token| things.contains(&token.text()));
        let has_states = names(STATES);
        // "Possible values: queued, running", and "Provides access to a table: insert, update", which offers what it lists.
        let reads = match tokens.first().and_then(meaning) {
            Some(first) => {
                first.category == ToolCategory::Read
                    && (first.is_in_names || tokens.first()?.text().starts_with("return"))
            }
            None => has_states && !tokens.iter().filter_map(meaning).any(|word| word.acts() && !word.is_noun),
        };
        let acts = tokens.windows(2).any(|pair| {
            let [before, token] = pair else { return false };
            let is_joined = matches!(before.text(), "," | "and" | "or");
            meaning(token).is_some_and(|word| {
                word.acts() && word.form != Form::Participle && (is_joined || !word.is_noun)
            })
        });
        (reads && !acts).then(|| Self { has_kinds: names(KINDS), has_states })
    }

    /// Whether these words are a list of what it reads: states, or, of [`KINDS`], acts.
    pub(super) fn is_told_by(self, tokens: &[Token]) -> bool {
        let is_end = |token: &Token| matches!(token, Token::Comma) || matches!(token.text(), "or" | "and");
        let items: Vec<&[Token]> = tokens.split(is_end).filter(|item| !item.is_empty()).collect();
        let acts =
            |token: &Token| word(token.text()).filter(|word| word.acts() && word.form != Form::Participle);
        // An act with its object is one: "sending mail".
        let is_item = |item: &&[Token]| {
            item.len() <= if item.iter().any(|token| acts(token).is_some()) { 1 } else { MAX_ITEM }
                && !item.iter().any(|token| OF_ORDERS.contains(&token.text()))
        };
        let is_state = |word: Word| matches!(word.form, Form::Ing | Form::BaseAndParticiple);
        let are_states = self.has_states && tokens.iter().filter_map(acts).all(is_state);
        items.len() > 1 && items.iter().all(is_item) && (are_states || self.has_kinds)
    }
}

/// Whether a clause about others goes on, and the form of its verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// There is none.
    None,
    /// It has begun, and has no verb yet.
    Begun,
    /// Its verbs are in the form of the infinitive, or not.
    Verbs { are_base: bool },
}

impl Others {
    /// Takes a word, which stands between two others. Whether it is a verb of such a clause.
    pub(super) fn takes(&mut self, (text, before, next): (&str, &str, &str), word: Option<Word>) -> bool {
        let is_joined = matches!(before, "," | "and" | "or");
        if RELATIVES.contains(&text) && !is_joined {
            *self = Self::Begun;
            return false;
        }
        if MODALS.contains(&text) {
            // "and will delete it" is the tool's again.
            *self = match self {
                Self::Begun if !is_joined => Self::Verbs { are_base: true },
                _ => Self::None,
            };
            return false;
        }
        if BETWEEN.contains(&text) {
            return false;
        }
        let verb = word.filter(|word| {
            word.category != ToolCategory::Unknown && !matches!(word.form, Form::Participle | Form::Ing)
        });
        let is_verbs_place = is_joined || MODALS.contains(&before) || BETWEEN.contains(&before);
        match (*self, verb) {
            (Self::None, _) => false,
            (Self::Begun, Some(verb)) if RELATIVES.contains(&before) => {
                *self = Self::Verbs { are_base: verb.is_base() };
                false
            }
            // "what users can create"
            (Self::Begun, None) if !TOOLS.contains(&text) => false,
            (Self::Verbs { .. }, None) if is_verbs_place => false,
            (Self::Verbs { are_base }, Some(verb)) if is_verbs_place => {
                let is_own = OWN_OBJECTS.contains(&next) && is_joined;
                verb.is_base() == are_base && !is_own
            }
            _ => {
                *self = Self::None;
                false
            }
        }
    }
}
