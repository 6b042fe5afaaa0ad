//! What the sentences of a description say a tool does. "Deletes a page" and "can delete pages" are acts; "Lists deleted
//! pages", "Tells whether an update is available" and "does not write" are none.
//!
//! This is no parser of English: a verb counts by its form, the words next to it, and what stands in front in the same
//! sentence. In doubt an act counts, unless the sentence began with a verb of reading.

use super::advice::{Actor, actors};
use super::lists::Others;
use super::tokens::{Token, for_each_sentence};
use super::words::{Form, Word, word};
use super::{Acts, lists, phrases};
use crate::terms::ToolCategory;

const DETERMINERS: &[&str] = &[
    "a",
    "an",
    "the",
    "its",
    "his",
    "her",
    "their",
    "our",
    "your",
    "my",
    "last",
    "latest",
    "previous",
    "next",
    "each",
    "every",
    "no",
    "any",
    "some",
    "one",
    "of",
    "recent",
    "pending",
    "available",
    "new",
    "old",
    "first",
    "second",
    "current",
    "given",
    "specified",
    "these",
    "those",
    "such",
    "all",
    "more",
    "many",
    "most",
    "scheduled",
];
/// What an object begins with: "updates the page".
const OBJECTS: &[&str] = &[
    "a", "an", "the", "it", "its", "them", "their", "this", "that", "these", "those", "all", "each", "every",
    "any", "one", "your", "to", "into", "on",
];
const AUXILIARIES: &[&str] = &["is", "are", "be", "gets", "get"];
/// What stands in front of a verb of the main clause.
const SUBJECTS: &[&str] = &[
    "it",
    "tool",
    "this",
    "server",
    "function",
    "also",
    "then",
    "automatically",
    "optionally",
    "can",
    "will",
    "may",
    "must",
    "should",
    "would",
    "could",
    "you",
    "please",
    "immediately",
    "permanently",
    "and",
    "or",
];
/// What parts a clause about something else from that about the tool.
const SUBORDINATE: &[&str] = &[
    "that", "which", "who", "whose", "whether", "if", "when", "where", "how", "what", "why", "since",
    "unless",
];
/// What makes "to delete" somebody else's act: "how to delete".
const NOT_ITS_OWN: &[&str] = &[
    "how",
    "what",
    "where",
    "when",
    "needed",
    "required",
    "allowed",
    "able",
    "ready",
    "access",
    "permission",
    "whom",
];
/// What points at another tool, where a name follows.
const REFERENCES: &[&str] =
    &["use", "using", "call", "calling", "see", "prefer", "with", "via", "like", "unlike"];
const NEGATIONS: &[&str] = &[
    "not", "never", "cannot", "doesn", "don", "isn", "aren", "won", "wouldn", "shouldn", "couldn", "nor",
    "neither", "nothing", "nobody",
];
/// Verbs that say what they do by their object: "performs a search", "executes a SELECT query".
const LIGHT: &[&str] = &["perform", "performs", "run", "runs", "execute", "executes"];
/// Objects that are read, and those that are if one of [`OF_READING`] stands in front.
const READINGS: &[&str] = &["search", "searches", "lookup", "lookups"];
const STATEMENTS: &[&str] = &["query", "queries", "statement", "statements"];
const OF_READING: &[&str] = &["select", "only", "readonly", "find", "search", "read"];
/// What asks about an act: "how it would run", "what an update would change".
const QUESTIONS: &[&str] = &["how", "what", "whether", "why", "where", "who", "whom"];
/// The modals of what is not done.
const HYPOTHETICAL: &[&str] = &["would", "could", "might"];
const MODALS: &[&str] = &["can", "could", "may", "might", "will", "would", "should", "must"];
/// What shows that a noun follows, and what may stand behind one.
const IN_FRONT_OF_NOUNS: &[&str] =
    &["a", "an", "the", "of", "from", "in", "for", "with", "by", "your", "this", "each", "any", "per"];
const BEHIND_NOUNS: &[&str] = &[
    ",",
    "or",
    "by",
    "of",
    "in",
    "from",
    "with",
    "for",
    "using",
    "via",
    "that",
    "is",
    "id",
    "ids",
    "name",
    "thread",
    "threads",
    "history",
    "channel",
    "conversation",
    "chat",
    "number",
    "address",
    "link",
];
/// How many words a light verb's object may have.
const MAX_OBJECT: usize = 5;
/// What is no reader: "streams it to a webhook".
const DESTINATIONS: &[&str] = &["webhook", "webhooks"];
/// Behind these things are named, not acts: "by date, update or label", "including comment and tag".
const LISTINGS: &[&str] = &["by", "including", "includes", "include", "e"];
/// What names the way something goes: "over the network".
const WAYS: &[&str] = &["over", "via", "through"];
const AGAINST: &[&str] = &["but", "however", "instead", "although", "yet"];

/// The acts of a description, and what its users may want with the tool, which counts where nothing else tells what it does.
/// One reads only if its first word does.
pub(super) fn acts(description: &str) -> (Acts, Acts) {
    let (mut acts, mut wishes) = (Acts::default(), Acts::default());
    let mut is_first = true;
    // Whether what was said before reads, and of what.
    let mut front = None;
    for_each_sentence(description, |tokens, is_behind| {
        let front = std::mem::replace(&mut front, lists::Front::of(tokens)).filter(|_| is_behind);
        if front.is_some_and(|front| front.is_told_by(tokens)) {
            return;
        }
        let actors = actors(tokens);
        // "Use this before you send a letter. Finds an address.", "Use this to find an address."
        if is_first && let Some(begin) = actors.iter().position(|actor| *actor == Actor::Tool) {
            is_first = false;
            let is_order = begin > 0 && matches!(tokens[begin].text(), "to" | ",");
            let first = meaning(tokens, begin + usize::from(is_order));
            if let Some(word) = first.filter(|word| word.category == ToolCategory::Read)
                && word.form != Form::Participle
            {
                acts.add(word);
            }
        }
        read_sentence(tokens, &actors, &mut acts, &mut wishes);
    });
    (acts, wishes)
}

/// How far a negation reaches.
#[derive(Clone, Copy, PartialEq)]
enum Negation {
    None,
    /// "without", "no": up to the next comma or `and`.
    Near,
    /// "does not": all verbs without `s`, and those with it up to the next comma or `and`.
    Far,
    /// "does not", behind a comma or `and`.
    FarBroken,
    /// "never": all verbs up to the next `and`.
    Never,
}

/// What stood in front in a sentence.
struct Before {
    negation: Negation,
    is_subordinate: bool,
    /// Whether the first verb is one of reading, and the form of the first verb.
    reads: bool,
    first: Option<Form>,
    /// Whether the sentence points at another tool.
    is_reference: bool,
    /// Whether what follows is asked about.
    is_question: bool,
    /// Whether what follows would be done, and is not: "the statements that a migration would run".
    is_hypothetical: bool,
    /// Whether what follows says by what is read, or of what: "by name, update or label".
    is_listing: bool,
    /// Whether what follows is what others do: "who may read, write or share it".
    others: Others,
}

fn read_sentence(tokens: &[Token], actors: &[Actor], acts: &mut Acts, wishes: &mut Acts) {
    let text = |at: usize| tokens.get(at).map_or("", Token::text);
    let is_reference = (0..tokens.len())
        .any(|at| matches!(tokens[at], Token::Name) && at > 0 && REFERENCES.contains(&text(at - 1)));
    let mut before = Before {
        negation: Negation::None,
        is_subordinate: false,
        reads: false,
        first: None,
        is_reference,
        is_question: false,
        is_hypothetical: false,
        is_listing: false,
        others: Others::None,
    };
    for ((at, token), actor) in tokens.iter().enumerate().zip(actors) {
        let Token::Word { text: this, .. } = token else {
            if matches!(token, Token::Comma) {
                before.comma();
            }
            continue;
        };
        before.pass(this, text(at + 1));
        let word = meaning(tokens, at);
        let in_front = if at > 0 { text(at - 1) } else { "" };
        let is_of_others = before.reads && before.others.takes((this, in_front, text(at + 1)), word);
        let is_own = *actor == Actor::Tool;
        if this == "to" && is_own && before.negation == Negation::None && !before.is_subordinate {
            let to = if DETERMINERS.contains(&text(at + 1)) { at + 2 } else { at + 1 };
            acts.merge(sent_to(text(to)));
        }
        let Some(word) = word.filter(|_| !is_of_others) else { continue };
        let near =
            [if at > 1 { text(at - 2) } else { "" }, if at > 0 { text(at - 1) } else { "" }, text(at + 1)];
        let is_way = near[..2].iter().any(|word| WAYS.contains(word));
        if is_way && is_own && word.side_effect == Some("network.http") && before.negation == Negation::None {
            acts.add_side_effect(word);
        }
        let is_noun = before.is_noun(word, near) || is_another_noun(tokens, at, word);
        if !is_own {
            if *actor == Actor::Wish && word.acts() && !is_noun && !before.is_negated(word.form) {
                wishes.add(word);
            }
        } else if !is_another_noun(tokens, at, word) && before.counts(word, near) {
            match word.category {
                ToolCategory::Read => acts.add_side_effect(word),
                _ => acts.add(word),
            }
        }
        if before.first.is_none() && word.category != ToolCategory::Unknown && !is_noun && is_own {
            before.first = Some(word.form);
            before.reads = word.category == ToolCategory::Read;
        }
    }
}

/// What a word of a sentence says, with what stands behind it.
fn meaning(tokens: &[Token], at: usize) -> Option<Word> {
    let Token::Word { text, is_joined: false } = tokens.get(at)? else { return None };
    let behind = tokens.get(at + 1..).unwrap_or_default();
    let known = match phrases::meaning(text, behind.iter().map(Token::text)) {
        Some(phrase) => phrase,
        None => word(text)?,
    };
    let reads = LIGHT.contains(&text.as_str()) && is_reading(behind);
    Some(if reads { Word { category: ToolCategory::Read, side_effect: None, ..known } } else { known })
}

/// Whether what a light verb does is reading, by the words behind it.
fn is_reading(behind: &[Token]) -> bool {
    let object = behind.iter().take(MAX_OBJECT).map(Token::text);
    let mut only_reads = false;
    for word in object.take_while(|word| *word != ",") {
        only_reads |= OF_READING.contains(&word);
        if READINGS.contains(&word) || only_reads && STATEMENTS.contains(&word) {
            return true;
        }
    }
    false
}

/// Whether a word that is also a noun is another of the things in front of it: "from the channel (or DM) by its id".
fn is_another_noun(tokens: &[Token], at: usize, word: Word) -> bool {
    let text = |at: usize| tokens.get(at).map_or("", Token::text);
    let next = text(at + 1);
    let mut from = at;
    if !word.is_noun || !word.is_base() || !(next.is_empty() || BEHIND_NOUNS.contains(&next)) {
        return false;
    }
    // "a channel, DM or thread"
    let is_in_list = at > 0 && (text(at - 1) == "or" || text(at - 1) == "," && next == "or");
    while from > 0 && matches!(text(from - 1), "," | "or") {
        from -= 1;
    }
    let mut phrase = (from.saturating_sub(MAX_OBJECT)..from).rev().map(text);
    let in_front = phrase.next().unwrap_or_default();
    is_in_list
        && super::words::word(in_front).is_none_or(|word| word.is_noun)
        && (IN_FRONT_OF_NOUNS.contains(&in_front)
            || phrase.take_while(|word| *word != "and").any(|word| IN_FRONT_OF_NOUNS.contains(&word)))
}

/// What it means that something goes there.
fn sent_to(destination: &str) -> Acts {
    let mut acts = Acts::default();
    if DESTINATIONS.contains(&destination)
        && let Some(send) = word("send")
    {
        acts.add(send);
    }
    acts
}

impl Before {
    fn comma(&mut self) {
        self.is_subordinate = false;
        self.is_question = false;
        self.negation = match self.negation {
            Negation::Far | Negation::FarBroken => Negation::FarBroken,
            Negation::Never => Negation::Never,
            Negation::Near | Negation::None => Negation::None,
        };
    }

    fn pass(&mut self, word: &str, next: &str) {
        if matches!(word, "and" | "or" | "then") {
            self.is_question = false;
        }
        if QUESTIONS.contains(&word) {
            self.is_question = true;
        }
        if HYPOTHETICAL.contains(&word) {
            self.is_hypothetical = self.reads || self.is_question;
        } else if word == "then" || MODALS.contains(&word) {
            self.is_hypothetical = false;
        }
        if LISTINGS.contains(&word) {
            self.is_listing = true;
        }
        if SUBORDINATE.contains(&word) {
            self.is_subordinate = true;
        } else if NEGATIONS.contains(&word) || word == "can" && next == "t" {
            let is_limit = matches!(next, "only" | "just" | "merely");
            // "Do not ask, delete it": what follows a comma is an order again.
            let far = match word {
                "don" => Negation::Near,
                "never" => Negation::Never,
                _ => Negation::Far,
            };
            self.negation = if is_limit { Negation::None } else { far };
        } else if matches!(word, "without" | "no") {
            self.negation = Negation::Near;
        } else if AGAINST.contains(&word) {
            self.negation = Negation::None;
        } else if matches!(word, "and" | "then") {
            match self.negation {
                Negation::None => {}
                Negation::Never => self.negation = Negation::FarBroken,
                _ => self.comma(),
            }
        }
    }

    fn is_noun(&self, word: Word, [_, before, next]: [&str; 3]) -> bool {
        match word.form {
            Form::Participle => true,
            Form::Ing => DETERMINERS.contains(&before),
            Form::Base | Form::BaseAndParticiple => {
                // "Copy of the page"
                DETERMINERS.contains(&before)
                    || AUXILIARIES.contains(&before)
                    || before == "this"
                    || word.is_noun && next == "of"
            }
            Form::Third => {
                DETERMINERS.contains(&before)
                    || word.is_noun
                        && !before.is_empty()
                        && !SUBJECTS.contains(&before)
                        && !OBJECTS.contains(&next)
            }
        }
    }

    /// "is", "are"; but "get recently changed files" has no passive in it.
    fn is_auxiliary(&self, word: &str) -> bool {
        AUXILIARIES.contains(&word) && !(self.reads && matches!(word, "get" | "gets"))
    }

    fn is_negated(&self, form: Form) -> bool {
        match self.negation {
            Negation::None => false,
            Negation::Near | Negation::Far | Negation::Never => true,
            Negation::FarBroken => matches!(form, Form::Base | Form::BaseAndParticiple | Form::Ing),
        }
    }

    fn counts(&self, word: Word, near: [&str; 3]) -> bool {
        if self.is_negated(word.form) {
            return false;
        }
        let [second, before, next] = near;
        match word.category {
            // What is read of is no side effect.
            ToolCategory::Unknown => return !self.reads,
            ToolCategory::Read => return !self.is_noun(word, near),
            _ => {}
        }
        // "Shows the steps that a job will run", where what it will run it runs itself.
        if self.is_subordinate && self.reads && word.is_base() && MODALS.contains(&before) {
            let is_other =
                !SUBJECTS.contains(&second) && !matches!(second, "" | "," | "that" | "which" | "who");
            if is_other {
                return false;
            }
        }
        if self.is_hypothetical && word.is_base() && !OBJECTS.contains(&before) {
            return false;
        }
        // "Shows who may write", "explains how it would run".
        if self.is_question && self.reads && MODALS.contains(&before) {
            return false;
        }
        let is_passive = matches!(word.form, Form::Participle | Form::BaseAndParticiple)
            && (self.is_auxiliary(before) || before.ends_with("ly") && self.is_auxiliary(second));
        if is_passive {
            return !self.is_subordinate;
        }
        if word.form == Form::Participle || self.is_noun(word, near) {
            return false;
        }
        let is_front = before.is_empty();
        match word.form {
            Form::Base | Form::BaseAndParticiple if before == "to" => {
                !self.is_reference && !NOT_ITS_OWN.contains(&second)
            }
            Form::Base | Form::BaseAndParticiple if matches!(before, "and" | "or" | ",") => {
                // "Search by author, label or branch", but "search by name, and archive it".
                let is_last = matches!(next, "" | "," | "and" | "or");
                let is_named = self.reads && self.is_listing && word.is_noun && is_last;
                !is_named && (!self.reads || !word.is_noun || self.first == Some(Form::Base))
            }
            Form::Base | Form::BaseAndParticiple => {
                is_front || SUBJECTS.contains(&before) || !word.is_noun && !self.reads
            }
            Form::Third if matches!(before, "that" | "which" | "who") => !self.reads,
            Form::Third if matches!(before, "and" | "or" | ",") => {
                !word.is_noun || OBJECTS.contains(&next) || !self.reads && self.first.is_some()
            }
            Form::Third => is_front || SUBJECTS.contains(&before) || !word.is_noun || !self.reads,
            Form::Ing if self.is_reference => false,
            // "Gets a page, creating it where none is".
            Form::Ing if before == "," => !self.reads || OBJECTS.contains(&next),
            Form::Ing => {
                !self.reads || matches!(before, "by" | "and" | "then" | "while" | "before" | "after")
            }
            Form::Participle => false,
        }
    }
}
