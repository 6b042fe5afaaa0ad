//! What the words of a name say.

use super::words::{Form, Word, word};
use super::{Acts, for_each_word, phrases};
use crate::terms::ToolCategory::{Read, Send, Unknown};

/// Most words of a name that are compared with each other.
const MAX_PARTS: usize = 16;
/// Verbs of reading that are nouns in front of others: a `list_update` updates a list, and a `get_update` gets an update.
const NOUNS_IN_FRONT: [&str; 1] = ["list"];
/// Words that put two verbs beside each other.
const CONJUNCTIONS: [&str; 4] = ["and", "or", "then", "n"];

/// Verbs that send to another place or only to a file here.
const VAGUE: [&str; 2] = ["export", "sync"];

/// Short forms of verbs in names; in sentences some are words of other languages.
const SHORT: [(&str, &str); 3] = [("del", "delete"), ("upd", "update"), ("cp", "copy")];
/// What verbs stand in front of as parts of its name: `get_write_permissions`, `list_delete_events`.
const NAMED_AFTER_VERBS: &str =
    "permission permissions access rights status state event events policy policies conflict conflicts";

/// Whether a name has words of sending, and all of them may mean a file on this host as well.
pub(super) fn is_vague(name: &str) -> bool {
    let (mut vague, mut sends) = (false, false);
    for_each_word(name, |text| {
        let is_vague = VAGUE.iter().any(|verb| text.starts_with(verb));
        vague |= is_vague;
        sends |= !is_vague && word(text).is_some_and(|word| word.category == Send);
    });
    vague && !sends
}

/// The acts of a name.
pub(super) fn acts(name: &str) -> Acts {
    // `mcp__files__read_file`: what a client makes of a tool of the server `files`.
    let name = match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((_, tool)) if !tool.is_empty() => tool,
        _ => name,
    };
    // `files.read`: the namespace says where, what is behind it says what.
    let inside = name.rsplit(['.', '/', ':']).next().unwrap_or(name);
    let acts = acts_of_words(inside);
    if acts.is_unknown() && inside.len() < name.len() { acts_of_words(name) } else { acts }
}

/// One word of a name, and what its neighbours say of it.
#[derive(Clone, Copy)]
struct Part {
    word: Word,
    is_first: bool,
    is_last: bool,
    /// Whether it stands behind the first word, and that is also a noun.
    follows_noun: bool,
    follows_conjunction: bool,
    /// Whether what follows is called after it: see [`NAMED_AFTER_VERBS`].
    names_a_thing: bool,
}

impl Part {
    /// Whether it says what the tool does, whatever the other words say.
    fn is_verb(&self) -> bool {
        match self.word.form {
            Form::Base | Form::BaseAndParticiple => {
                self.is_first || self.follows_conjunction || !self.word.is_noun && !self.names_a_thing
            }
            // `deletes_page`
            Form::Third | Form::Ing => self.is_first && self.word.acts(),
            Form::Participle => false,
        }
    }
}

fn acts_of_words(name: &str) -> Acts {
    let (mut parts, mut known, mut rest) = ([None; MAX_PARTS], 0_usize, Acts::default());
    let (mut count, mut follows_conjunction, mut follows_noun) = (0_usize, false, false);
    let mut is_behind_known = false;
    for_each_word(name, |text| {
        if let Some(Some(last)) = known.checked_sub(1).and_then(|last| parts.get_mut(last)) {
            let last: &mut Part = last;
            last.is_last = false;
            if std::mem::take(&mut is_behind_known) {
                last.names_a_thing = NAMED_AFTER_VERBS.split_ascii_whitespace().any(|name| name == text);
            }
        }
        let text = SHORT.iter().find(|(short, _)| *short == text).map_or(text, |(_, verb)| verb);
        is_behind_known = false;
        if let Some(word) = word(text).filter(|word| word.is_in_names) {
            let is_first = count == 0;
            match parts.get_mut(known) {
                Some(slot) => {
                    *slot = Some(Part {
                        word,
                        is_first,
                        is_last: true,
                        follows_noun,
                        follows_conjunction,
                        names_a_thing: false,
                    });
                    known += 1;
                    is_behind_known = true;
                }
                // No name is so long by accident: whatever is behind it counts.
                None => rest.add(word),
            }
        }
        follows_conjunction = CONJUNCTIONS.contains(&text);
        follows_noun = count == 0 && NOUNS_IN_FRONT.contains(&text);
        count += 1;
    });
    rest.merge(combine(&parts, phrase(name)));
    rest
}

/// What a verb of a name says with its object: `press_key`, `place_stock_order`.
fn phrase(name: &str) -> Option<Word> {
    let mut is_one = false;
    for_each_word(name, |word| is_one |= phrases::is_verb(word));
    if !is_one {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    for_each_word(name, |word| words.push(word.to_owned()));
    let reads = |text: &String| word(text).is_some_and(|word| word.category == Read && word.is_in_names);
    let begins_with_reading = words.first().is_some_and(reads);
    (0..words.len().min(MAX_PARTS)).find_map(|at| {
        let (ahead, behind) = words.split_at_checked(at + 1)?;
        let follows_conjunction =
            at > 0 && ahead.get(at - 1).is_some_and(|word| CONJUNCTIONS.contains(&word.as_str()));
        if begins_with_reading && !follows_conjunction {
            return None;
        }
        let found = phrases::meaning(ahead.last()?, behind.iter().map(String::as_str))?;
        (found.is_base() || at == 0).then_some(found)
    })
}

fn combine(parts: &[Option<Part>], phrase: Option<Word>) -> Acts {
    let parts = || parts.iter().flatten();
    let mut acts = Acts::default();
    phrase.into_iter().for_each(|phrase| acts.add(phrase));
    let verbs = || parts().filter(|part| part.is_verb() && part.word.category != Unknown);
    verbs().for_each(|part| acts.add(part.word));
    let reads = verbs().any(|part| part.word.category == Read);
    if !acts.acts() {
        let says = |part: &&Part| {
            part.word.is_base()
                && part.word.acts()
                && if reads {
                    // `list_update`, where `list_updates` and `get_update` read.
                    part.follows_noun && part.is_last
                } else {
                    // `slack_post_message` posts; `user_email` and `feature_set` are things.
                    !part.is_last || !part.word.is_thing
                }
        };
        if let Some(part) = parts().find(says) {
            acts.add(part.word);
        }
    }
    // What a reader reads of is no side effect: `list_payments`, `get_network_status`.
    if !reads || acts.acts() {
        parts().filter(|part| part.word.category == Unknown).for_each(|part| acts.add(part.word));
    }
    // `create_refund` pays.
    if acts.acts() {
        let pays = |part: &&Part| part.word.side_effect == Some("payments") && part.word.is_base();
        parts().filter(pays).for_each(|part| acts.add_side_effect(part.word));
    }
    acts
}
