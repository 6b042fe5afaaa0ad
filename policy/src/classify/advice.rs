//! Advice in a description: when a tool is to be used, which is not what it does. "Call it before you send an email" sends
//! nothing; "Use it to send an email" sends.
//!
//! Advice on what comes before or after a call says nothing of the tool. Advice on the wish behind a call ("when you want to
//! send an email") tells what the tool does only where nothing else tells it.

use super::tokens::Token;
use super::words::{Form, word};

/// Whose act a word of a sentence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Actor {
    /// The tool's.
    Tool,
    /// The user's, who may want the tool to do it.
    Wish,
    /// The user's, by other means.
    User,
}

/// What is used where its user does something else with it: "the result can be used to send a letter".
const OUTPUTS: &[&str] = &[
    "result",
    "results",
    "output",
    "value",
    "values",
    "id",
    "ids",
    "response",
    "information",
    "data",
    "list",
    "answer",
    "identifier",
    "token",
    "address",
    "url",
    "content",
];
/// Modals behind a person: "so that you can send it".
const ABLE: &[&str] = &["can", "could", "may", "might", "will", "would", "must", "should"];
/// Verbs of using a tool, in orders to a model.
const USES: &[&str] = &[
    "use", "call", "run", "invoke", "execute", "try", "prefer", "consult", "do", "trigger", "check", "read",
    "review",
];
/// Those that a tool does itself with what it has made, in the middle of a sentence: "builds it, and run it first".
const RUNS: &[&str] = &["run", "invoke", "execute", "try", "do", "check", "read", "review"];
/// The same as [`USES`] in "it must be called".
const USED: &[&str] = &["used", "called", "run", "invoked", "executed", "tried", "preferred", "consulted"];
/// What stands for the tool itself, alone or in front of one of [`TOOLS`].
const SELF: &[&str] = &["it", "this", "that", "me", "the"];
const TOOLS: &[&str] = &["tool", "function", "action", "method", "operation", "one", "skill"];
/// What tells how good a tool is for something.
const WORTH: &[&str] = &[
    "useful",
    "helpful",
    "handy",
    "ideal",
    "suitable",
    "suited",
    "recommended",
    "convenient",
    "good",
    "great",
    "perfect",
    "best",
    "important",
    "practical",
    "relevant",
    "preferable",
    "valuable",
    "helps",
];
/// What tells that something else is done with the result.
const NEEDED: &[&str] =
    &["needed", "required", "necessary", "mandatory", "essential", "prerequisite", "precondition"];
/// What may stand in front of all those.
const AHEAD: &[&str] = &[
    "please",
    "always",
    "only",
    "first",
    "also",
    "then",
    "you",
    "it",
    "this",
    "tool",
    "function",
    "the",
    "a",
    "an",
    "must",
    "should",
    "can",
    "may",
    "could",
    "might",
    "need",
    "needs",
    "has",
    "have",
    "to",
    "be",
    "is",
    "are",
    "very",
    "most",
    "more",
    "especially",
    "particularly",
    "typically",
    "usually",
    "commonly",
    "mainly",
    "mostly",
    "normally",
    "generally",
    "often",
    "sure",
    "make",
    "remember",
    "ensure",
    "note",
    "tip",
    "hint",
    "important",
    "strongly",
    "highly",
    "absolutely",
    "intended",
    "meant",
    "designed",
    "step",
    "start",
    "choice",
    "will",
    "ll",
];
/// What a clause begins with that says before or after what a tool is used, or instead of what.
const BESIDE: &[&str] = &[
    "before",
    "after",
    "until",
    "till",
    "once",
    "prior",
    "over",
    "instead",
    "rather",
    "than",
    "unless",
    "while",
    "during",
    "alongside",
    "ahead",
    "without",
];
/// What a clause begins with that says for which wish.
const WISHES: &[&str] = &["when", "whenever", "if", "where", "wherever", "case"];
/// The same behind [`WORTH`].
const FOR: &[&str] = &["for", "to", "in", "as", "with"];
/// What follows "call it", besides the words above and the end.
const BEHIND: &[&str] = &[
    "first",
    "only",
    "again",
    "to",
    "for",
    "with",
    "and",
    "or",
    ",",
    "immediately",
    "always",
    "every",
    "at",
    "sparingly",
    "often",
    "in",
    "as",
    "",
];
/// Who else acts.
const PERSONS: &[&str] = &[
    "you",
    "user",
    "users",
    "someone",
    "somebody",
    "anyone",
    "agent",
    "agents",
    "client",
    "clients",
    "model",
    "assistant",
    "caller",
    "callers",
    "human",
    "people",
    "we",
];
const WANTS: &[&str] = &[
    "want", "wants", "need", "needs", "wish", "wishes", "plan", "plans", "intend", "intends", "ask", "asks",
];
/// What brings the tool back as the one that acts, in front of a verb of its own.
const AGAIN: &[&str] = &["it", "this", "tool", "server", "function"];
const BUT: &[&str] = &["but", "however", "although", "yet", "then"];
const MODALS: &[&str] = &["will", "can", "may", "also", "automatically", "then", "immediately", "silently"];

/// How a sentence begins that gives advice.
#[derive(Clone, Copy, PartialEq)]
enum Lead {
    Use,
    Worth,
    Needed,
}

/// Whose act each word of a sentence is.
pub(super) fn actors(tokens: &[Token]) -> Vec<Actor> {
    let text = |at: usize| tokens.get(at).map_or("", Token::text);
    let (lead, begin) = match lead(tokens) {
        Some((lead, begin)) => (Some(lead), begin),
        None => (None, 0),
    };
    // "Call" of "Call it first" is no act of the tool.
    let mut all = vec![Actor::User; begin.min(tokens.len())];
    let is_of_another = begin > 0 && matches!(tokens.get(begin - 1), Some(Token::Name));
    let (mut actor, mut is_fronted, mut by_you, mut of_person) = (Actor::Tool, false, false, false);
    if is_of_another {
        // "Use send_letter to send it."
        actor = Actor::Wish;
    } else if (text(0) == "to" || text(0) == "in" && text(1) == "order" && text(2) == "to")
        && let Some(comma) = (0..tokens.len()).find(|at| text(*at) == ",")
        && let Some((_, length)) = self::lead(tokens.get(comma + 1..).unwrap_or_default())
        && (comma + 1..comma + 2 + length).any(|at| text(at) == "first")
    {
        // "To send a letter, call this first."
        all.resize(comma + 1, Actor::User);
        all.extend(actors(tokens.get(comma + 1..).unwrap_or_default()));
        return all;
    }
    let names_another = (1..tokens.len()).any(|at| {
        matches!(tokens.get(at), Some(Token::Name)) && matches!(text(at - 1), "with" | "using" | "via" | "by")
    });
    // "Before calling this, open a session."
    let is_prerequisite = matches!(text(0), "before" | "after")
        && matches!(text(1), "using" | "calling" | "running" | "invoking")
        && SELF.contains(&text(2));
    let has_comma = (0..tokens.len()).any(|at| text(at) == ",");
    for at in begin..tokens.len() {
        let (this, before) = (text(at), at.checked_sub(1).map_or("", text));
        let is_article = |at: usize| matches!(text(at), "the" | "a" | "an" | "your");
        let is_verb = |at: usize| word(text(at)).is_some_and(|word| word.is_base() && word.acts());
        // "Use it first, then send the letter."
        let is_next_order = lead == Some(Lead::Use) && this == "then" && is_verb(at + 1);
        if actor != Actor::Tool {
            let goes_on = |at: usize| is_third(text(at)) || MODALS.contains(&text(at));
            // "Before you create, update or delete a page, call it."
            let ends_front = is_fronted
                && before == ","
                && !(at >= 2 && is_verb(at - 2) && !(at >= 3 && is_article(at - 3)));
            let is_passive = matches!(this, "is" | "are") && is_done(text(at + 1));
            let is_own = AGAIN.contains(&this) && goes_on(at + 1) && !PERSONS.contains(&text(at + 1))
                || by_you && (is_fronted || matches!(before, "," | "and")) && is_third(this)
                || of_person && is_passive;
            let is_order = is_verb(at) || matches!(this, "you" | "please" | "make" | "first" | "always");
            if ends_front && !(is_prerequisite && is_order) {
                all.extend(actors(tokens.get(at..).unwrap_or_default()));
                return all;
            }
            if is_own || BUT.contains(&this) && !is_next_order {
                actor = Actor::Tool;
            }
        } else if lead.is_none() && matches!(before, "," | "and" | "so" | "but") {
            // "Finds a page, and should be called first."
            let rest = tokens.get(at..).unwrap_or_default();
            let behind =
                self::lead(rest).filter(|_| !RUNS.contains(&this)).map(|(_, length)| text(at + length));
            if behind.is_some_and(|next| next == "first" || BESIDE.contains(&next) || WISHES.contains(&next))
            {
                all.extend(actors(rest));
                return all;
            }
        }
        let person = |at: usize| if is_article(at) { at + 1 } else { at };
        let is_person = PERSONS.contains(&text(person(at + 1)));
        let two_before = at.checked_sub(2).map_or("", text);
        // "So that you can send it", "you must create it", "you can delete it with delete_page".
        let is_able = ABLE.contains(&this)
            && PERSONS.contains(&before)
            && (matches!(two_before, "that" | "so" | "which" | "whom" | "what")
                || before == "you" && (matches!(this, "must" | "should") || names_another));
        let is_output_used = this == "used"
            && matches!(before, "be" | "is" | "are")
            && (0..at).any(|at| OUTPUTS.contains(&text(at)));
        let begins = if is_able || is_output_used {
            Some(Actor::Wish)
        } else if BESIDE.contains(&this) && (lead.is_some() || is_person) {
            Some(Actor::User)
        } else if WISHES.contains(&this) && (lead.is_some() || is_person)
            || WANTS.contains(&this)
                && (PERSONS.contains(&before) || ABLE.contains(&before) && PERSONS.contains(&two_before))
                && text(at + 1) == "to"
            || lead == Some(Lead::Worth) && FOR.contains(&this)
        {
            Some(if lead == Some(Lead::Needed) { Actor::User } else { Actor::Wish })
        } else if lead == Some(Lead::Use) && this == "to" && text(at + 1).ends_with("ing")
            || is_next_order
            || at == 0 && is_prerequisite
            || at == 0 && matches!(this, "before" | "after" | "prior" | "instead") && !has_comma
            || lead == Some(Lead::Needed) && (FOR.contains(&this) || this == "by")
        {
            Some(Actor::User)
        } else {
            None
        };
        if let Some(begins) = begins.filter(|_| actor != Actor::User) {
            is_fronted = at == 0 || is_fronted && actor != Actor::Tool;
            (actor, of_person) = (begins, is_person);
            // "when you …" has no verb with an s, and "before creating" has none at all.
            by_you = !is_person || text(at + 1) == "you";
        }
        all.push(actor);
    }
    all
}

fn is_done(text: &str) -> bool {
    word(text).is_some_and(|word| word.form == Form::Participle && word.acts())
}

fn is_third(text: &str) -> bool {
    word(text).is_some_and(|word| word.form == Form::Third && word.acts())
}

/// How a sentence that gives advice begins, and how many words of it say no more than that.
fn lead(tokens: &[Token]) -> Option<(Lead, usize)> {
    let text = |at: usize| tokens.get(at).map_or("", Token::text);
    let (mut at, mut tells_of_itself, mut tells_you) = (0, false, false);
    loop {
        let this = text(at);
        if WORTH.contains(&this) && !AHEAD.contains(&text(at + 1)) && !USED.contains(&text(at + 1)) {
            return Some((Lead::Worth, at + 1));
        }
        if NEEDED.contains(&this) {
            return Some((Lead::Needed, at + 1));
        }
        // "For use before …"
        let is_for_use = this == "for" && text(at + 1) == "use";
        let is_ahead = AHEAD.contains(&this) || WORTH.contains(&this) || is_for_use;
        if matches!(this, "need" | "needs") && tells_you && SELF.contains(&text(at + 1)) {
            return Some((Lead::Needed, at + 2));
        }
        if !is_ahead {
            break;
        }
        tells_of_itself |= AGAIN.contains(&this);
        tells_you |= this == "you";
        at += 1;
    }
    let follows = |at: usize| {
        let next = text(at);
        BEHIND.contains(&next) || BESIDE.contains(&next) || WISHES.contains(&next) || next.ends_with("ly")
    };
    let is_worth = (0..at).any(|at| WORTH.contains(&text(at)));
    if is_worth && (BESIDE.contains(&text(at)) || WISHES.contains(&text(at)) || text(at) == "for") {
        return Some((Lead::Worth, at));
    }
    if USED.contains(&text(at)) && at > 0 && text(at) != "run" && follows(at + 1)
        || text(at) == "run" && text(at - at.min(1)) == "be" && follows(at + 1)
    {
        return Some((Lead::Use, at + 1));
    }
    if !USES.contains(&text(at)) || tells_of_itself && !tells_you && !is_worth {
        return None;
    }
    if matches!(tokens.get(at + 1), Some(Token::Name)) {
        return Some((Lead::Use, at + 2));
    }
    let behind = match (text(at + 1), text(at + 2)) {
        ("at", "the") if !RUNS.contains(&text(at)) => at + 1,
        (own, tool) if SELF.contains(&own) && TOOLS.contains(&tool) => at + 3,
        ("the", _) => return None,
        (own, _) if SELF.contains(&own) => at + 2,
        (next, _) if BESIDE.contains(&next) || WISHES.contains(&next) || next == "first" => at + 1,
        _ => return None,
    };
    follows(behind).then_some((Lead::Use, behind))
}
