//! One automaton: patterns that run at once, walked through, with what is said of a string that ends in each state.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;
use mcpwarden_gate::CLASSES_RESERVED;
use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};
use regex_automata::{Anchored, MatchKind};

use super::GateError;
use crate::terms::ServerId;

/// Largest automaton of one subject, and the memory in which it is made. Bytes.
const DFA_BYTES: usize = 8 << 20;
/// Most states before they are made fewer.
pub(super) const MOST_STATES: usize = 100_000;

/// What is said of a string that ends in a state.
pub(super) type Ends = [u16; CLASSES_RESERVED as usize];

/// An automaton whose first state is where strings begin.
pub(super) struct Part {
    /// The class of each byte; classes are numbered by their first bytes.
    pub(super) class_of: [u8; 256],
    /// How many classes there are.
    pub(super) width: usize,
    /// Of each state, by class: which comes next. One row behind the other.
    pub(super) next: Vec<u32>,
    /// Of each state.
    pub(super) ends: Vec<Ends>,
    /// States in which no string of UTF-8 ends.
    stray: Vec<usize>,
}

impl Part {
    /// An automaton of names by these patterns. `say` is asked once for every set of them that some name matches, with such a
    /// name, and gives what is said of all those names.
    ///
    /// # Errors
    /// It is too large.
    pub(super) fn of_names(
        server: &ServerId,
        patterns: &[String],
        say: impl FnMut(&[usize], &str) -> u16,
    ) -> Result<Self, GateError> {
        // The first pattern is that of all strings, so that others are known for none.
        let mut all = vec!["(?s).*".to_owned()];
        all.extend_from_slice(patterns);
        let mut say = say;
        walk(server, &all, patterns.len(), |matched, name| {
            // Strings that are no UTF-8 match nothing, not even the pattern of all.
            let (0, own) = matched.split_first().map(|(first, own)| (*first, own))? else { return None };
            let own: Vec<usize> = own.iter().map(|index| index - 1).collect();
            Some([say(&own, &String::from_utf8_lossy(name)), 0])
        })
    }

    /// An automaton of these words, which are numbered from `first` on: that is what is said of them.
    ///
    /// # Errors
    /// None that is known of.
    pub(super) fn of_words(words: &[&str], first: u16) -> Result<Self, GateError> {
        let patterns: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let nobody = ServerId("*".into());
        walk(&nobody, &patterns, words.len(), |matched, _| {
            let number = matched.first().map_or(0, |index| first + u16::try_from(*index).unwrap_or(0));
            Some([number, 0])
        })
    }

    /// An automaton of arguments by these patterns of bytes. `say` is asked once for every set of them that some bytes match, with
    /// such bytes.
    ///
    /// # Errors
    /// It is too large.
    pub(super) fn of_arguments(
        server: &ServerId,
        patterns: &[String],
        say: impl FnMut(&[usize], &[u8]) -> Option<Ends>,
    ) -> Result<Self, GateError> {
        walk(server, patterns, patterns.len(), say)
    }

    /// How many states it has.
    pub(super) fn size(&self) -> usize {
        self.ends.len()
    }

    /// The worst that it says.
    pub(super) fn worst(&self) -> u16 {
        self.ends.iter().map(|ends| ends[0]).max().unwrap_or(0)
    }

    /// Has it say this of strings that are no UTF-8.
    pub(super) fn stray(&mut self, outcome: u16) {
        for state in std::mem::take(&mut self.stray) {
            if let Some(ends) = self.ends.get_mut(state) {
                *ends = [outcome, 0];
            }
        }
    }

    /// Makes its states as few as there can be.
    pub(super) fn fewer(self) -> Self {
        let Self { class_of, width, next, ends, .. } = self;
        // Numbered as they come, so that the first stays the first.
        let block = blocks(ends.iter(), &next, width);
        let mut part = Self { class_of, width, next: Vec::new(), ends: Vec::new(), stray: Vec::new() };
        for ((own, row), ends) in block.iter().zip(next.chunks(width.max(1))).zip(ends) {
            if usize::try_from(*own).is_ok_and(|own| own == part.ends.len()) {
                part.next.extend(row.iter().map(|to| block_of(&block, *to)));
                part.ends.push(ends);
            }
        }
        part
    }
}

fn walk(
    server: &ServerId,
    patterns: &[String],
    own: usize,
    mut say: impl FnMut(&[usize], &[u8]) -> Option<Ends>,
) -> Result<Part, GateError> {
    let too_large = |source| GateError::Automaton {
        server: server.clone(),
        patterns: own,
        bytes: DFA_BYTES,
        source: Box::new(source),
    };
    let config = dense::Config::new()
        .start_kind(StartKind::Anchored)
        .match_kind(MatchKind::All)
        .accelerate(false)
        .dfa_size_limit(Some(DFA_BYTES))
        .determinize_size_limit(Some(DFA_BYTES));
    // Patterns of arguments are of bytes.
    let syntax = syntax::Config::new().utf8(false);
    let dfa =
        dense::Builder::new().configure(config).syntax(syntax).build_many(patterns).map_err(too_large)?;
    let classes = dfa.byte_classes();
    let mut class_of = [0; 256];
    for (byte, class) in (0_u8..=255).zip(&mut class_of) {
        *class = classes.get(byte);
    }
    // The first byte of each class; there are as many classes as the last byte's says.
    let mut firsts: Vec<u8> = Vec::new();
    for byte in 0_u8..=255 {
        if usize::from(classes.get(byte)) == firsts.len() {
            firsts.push(byte);
        }
    }
    let width = firsts.len();
    let mut part = Part { class_of, width, next: Vec::new(), ends: Vec::new(), stray: Vec::new() };
    let anchored = start::Config::new().anchored(Anchored::Yes);
    // No look-around stands at the start of these patterns but that it is the start, which every reader is at.
    let Ok(start) = dfa.start_state(&anchored) else {
        part.next = vec![0; width];
        part.ends = vec![Ends::default()];
        return Ok(part);
    };
    let mut numbers: HashMap<StateID, u32> = HashMap::from([(start, 0)]);
    // Of each state, the automaton's own, and how a string gets there: from which, by which byte.
    let mut found: Vec<(StateID, u32, u8)> = vec![(start, 0, 0)];
    let mut said: HashMap<Vec<usize>, Option<Ends>> = HashMap::new();
    let mut at = 0;
    while let Some(&(state, ..)) = found.get(at) {
        for &byte in &firsts {
            let to = dfa.next_state(state, byte);
            let new = u32::try_from(found.len()).unwrap_or(u32::MAX);
            let number = *numbers.entry(to).or_insert_with(|| {
                found.push((to, u32::try_from(at).unwrap_or(u32::MAX), byte));
                new
            });
            part.next.push(number);
        }
        let end = dfa.next_eoi_state(state);
        let mut matched: Vec<usize> = if dfa.is_match_state(end) {
            (0..dfa.match_len(end)).map(|index| dfa.match_pattern(end, index).as_usize()).collect()
        } else {
            Vec::new()
        };
        matched.sort_unstable();
        let ends = match said.get(&matched) {
            Some(ends) => *ends,
            None => {
                let ends = say(&matched, &witness(&found, at));
                said.insert(matched, ends);
                ends
            }
        };
        if ends.is_none() {
            part.stray.push(at);
        }
        part.ends.push(ends.unwrap_or_default());
        at += 1;
        if at > MOST_STATES {
            return Err(GateError::States { most: MOST_STATES });
        }
    }
    Ok(part)
}

/// Bytes that lead to the state at this place, by the shortest way that was found.
fn witness(found: &[(StateID, u32, u8)], mut at: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while at != 0
        && let Some((_, from, byte)) = found.get(at)
    {
        bytes.push(*byte);
        at = usize::try_from(*from).unwrap_or(0);
    }
    bytes.reverse();
    bytes
}

/// Which states cannot be told apart (Moore's algorithm): of each, the number of its block, as they come. `labels` tell states
/// apart by themselves; `next` has a row of `width` for each.
pub(super) fn blocks<T: Hash + Eq>(labels: impl Iterator<Item = T>, next: &[u32], width: usize) -> Vec<u32> {
    let (mut block, mut count) = number(labels);
    let length = width + 1;
    let mut signs = vec![0; block.len() * length];
    loop {
        for ((sign, own), row) in signs.chunks_mut(length).zip(&block).zip(next.chunks(width.max(1))) {
            let targets = row.iter().map(|to| block_of(&block, *to));
            sign.iter_mut().zip(std::iter::once(*own).chain(targets)).for_each(|(slot, to)| *slot = to);
        }
        let (finer, more) = number(signs.chunks(length));
        if more == count {
            return block;
        }
        (block, count) = (finer, more);
    }
}

/// The block of a state.
pub(super) fn block_of(block: &[u32], state: u32) -> u32 {
    usize::try_from(state).ok().and_then(|state| block.get(state)).copied().unwrap_or(0)
}

/// Numbers what is equal alike, from 0 as they come; and how many there are.
fn number<T: Hash + Eq>(all: impl Iterator<Item = T>) -> (Vec<u32>, u32) {
    let mut numbers: HashMap<T, u32, RandomState> = HashMap::default();
    let mut count = 0;
    let numbered = all.map(|one| {
        *numbers.entry(one).or_insert_with(|| {
            count += 1;
            count - 1
        })
    });
    (numbered.collect(), count)
}
