//! Patterns into states, and states into a table.
//!
//! Of every subject a dense automaton is made in which all patterns run at once, and walked through: of each state is kept
//! where each class of bytes leads, and what is said of a string that ends there. Then states of all subjects that cannot be
//! told apart become one (Moore's algorithm), so that servers with the same rules share them.

use std::collections::HashMap;

use mcpwarden_gate::{CLASSES_RESERVED, ENTRIES, Head, KEY_METHOD, KEY_NAME, METHOD_TOOL};
use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};

use super::GateError;
use crate::ids::ServerId;

/// Largest automaton of one subject, and the memory in which it is made. Bytes.
const DFA_BYTES: usize = 8 << 20;
/// Most states before they are made fewer.
const MOST_STATES: usize = 100_000;
/// The state from which nothing leads to a key, a method or an outcome: the first.
const NOWHERE: u32 = 0;

/// What is said of a string that ends in a state.
type Ends = [u16; CLASSES_RESERVED as usize];

/// A state, before there are classes for all.
struct State {
    /// By class of its own automaton.
    next: Vec<u32>,
    /// Which automaton that is.
    of: usize,
    ends: Ends,
    /// Whether no string of UTF-8 ends here.
    stray: bool,
}

/// Automata that become a table.
pub(super) struct Builder {
    states: Vec<State>,
    /// Of each automaton, the class of each byte, by the order in which bytes have them; and its states.
    automata: Vec<([u8; 256], std::ops::Range<usize>)>,
    fixed: [u32; 3],
}

/// A finished table: its head, its transitions, how many states, and where each subject's names begin.
type Finished = (Box<Head>, Box<[u16; ENTRIES]>, usize, Vec<u16>);

impl Builder {
    /// With the keys and methods that every table has, before all else: their states must have the same numbers in each.
    /// Keys are those in any case: some readers of JSON do not tell (`encoding/json` of Go, by simple folding).
    pub(super) fn new() -> Result<Self, GateError> {
        let dead = State { next: vec![NOWHERE], of: 0, ends: Ends::default(), stray: false };
        let mut builder = Self { states: vec![dead], automata: vec![([0; 256], 0..1)], fixed: [0; 3] };
        let nobody = ServerId("*".into());
        let words: [(&[&str], u16); 3] = [
            (&["(?i)method", "(?i)params"], KEY_METHOD),
            (&["(?i)name", "(?i)uri"], KEY_NAME),
            (&["tools/call", "prompts/get", "resources/read"], METHOD_TOOL),
        ];
        for (at, (words, first)) in words.into_iter().enumerate() {
            let patterns: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let number = |matched: &[usize], _: &str| {
                matched.first().map_or(0, |index| first + u16::try_from(*index).unwrap_or(0))
            };
            let start = builder.walk(&nobody, &patterns, false, number)?;
            if let Some(slot) = builder.fixed.get_mut(at) {
                *slot = start;
            }
        }
        Ok(builder)
    }

    /// Adds an automaton of these patterns. `say` is asked once for every set of them that some string matches, with such a
    /// string, and gives what is said of all those strings.
    ///
    /// # Errors
    /// It is too large.
    pub(super) fn add(
        &mut self,
        server: &ServerId,
        patterns: &[String],
        say: impl FnMut(&[usize], &str) -> u16,
    ) -> Result<u32, GateError> {
        // The first pattern is that of all strings, so that others are known for none.
        let mut all = vec!["(?s).*".to_owned()];
        all.extend_from_slice(patterns);
        self.walk(server, &all, true, say)
    }

    fn walk(
        &mut self,
        server: &ServerId,
        patterns: &[String],
        names: bool,
        mut say: impl FnMut(&[usize], &str) -> u16,
    ) -> Result<u32, GateError> {
        let too_large = |source| GateError::Automaton {
            server: server.clone(),
            patterns: patterns.len() - usize::from(names),
            bytes: DFA_BYTES,
            source: Box::new(source),
        };
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .accelerate(false)
            .dfa_size_limit(Some(DFA_BYTES))
            .determinize_size_limit(Some(DFA_BYTES));
        let dfa = dense::Builder::new().configure(config).build_many(patterns).map_err(too_large)?;
        let (of, offset) = (self.automata.len(), self.states.len());
        let own = dfa.byte_classes();
        let mut class_of = [0; 256];
        for (byte, class) in (0_u8..=255).zip(&mut class_of) {
            *class = own.get(byte);
        }
        // The first byte of each class; there are as many classes as the last byte's says.
        let mut firsts: Vec<u8> = Vec::new();
        for byte in 0_u8..=255 {
            if usize::from(own.get(byte)) == firsts.len() {
                firsts.push(byte);
            }
        }
        let anchored = start::Config::new().anchored(Anchored::Yes);
        // No look-around stands at the start of these patterns but that it is the start, which every reader is at.
        let Ok(start) = dfa.start_state(&anchored) else { return Ok(NOWHERE) };
        let mut numbers: HashMap<StateID, u32> = HashMap::from([(start, 0)]);
        // Of each state, the automaton's own, and how a string gets there: from which, by which byte.
        let mut found: Vec<(StateID, u32, u8)> = vec![(start, 0, 0)];
        let mut said: HashMap<Vec<usize>, u16> = HashMap::new();
        let mut at = 0;
        while let Some(&(state, ..)) = found.get(at) {
            let mut next = Vec::with_capacity(firsts.len());
            for &byte in &firsts {
                let to = dfa.next_state(state, byte);
                let new = u32::try_from(found.len()).unwrap_or(u32::MAX);
                let number = *numbers.entry(to).or_insert_with(|| {
                    found.push((to, u32::try_from(at).unwrap_or(u32::MAX), byte));
                    new
                });
                next.push(number.saturating_add(u32::try_from(offset).unwrap_or(u32::MAX)));
            }
            let end = dfa.next_eoi_state(state);
            let mut matched: Vec<usize> = if dfa.is_match_state(end) {
                (0..dfa.match_len(end)).map(|index| dfa.match_pattern(end, index).as_usize()).collect()
            } else {
                Vec::new()
            };
            matched.sort_unstable();
            // Strings that are no UTF-8 match nothing, not even the pattern of all.
            let stray = names && matched.first() != Some(&0);
            let outcome = if stray || !names && matched.is_empty() {
                0
            } else if let Some(outcome) = said.get(&matched) {
                *outcome
            } else {
                let text = witness(&found, at);
                let own: Vec<usize> =
                    matched.iter().filter_map(|index| index.checked_sub(usize::from(names))).collect();
                let outcome = say(&own, &text);
                said.insert(matched, outcome);
                outcome
            };
            self.states.push(State { next, of, ends: [outcome, 0], stray });
            if self.states.len() > MOST_STATES {
                return Err(GateError::States { most: MOST_STATES });
            }
            at += 1;
        }
        self.automata.push((class_of, offset..self.states.len()));
        Ok(u32::try_from(offset).unwrap_or(u32::MAX))
    }

    fn of_start(&mut self, start: u32) -> &mut [State] {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let range = self.automata.iter().find(|(_, states)| states.start == start);
        let range = range.map_or(0..0, |(_, states)| states.clone());
        self.states.get_mut(range).unwrap_or_default()
    }

    /// The worst that the automaton with this start says.
    pub(super) fn worst(&mut self, start: u32) -> u16 {
        self.of_start(start).iter().map(|state| state.ends[0]).max().unwrap_or(0)
    }

    /// Has the automaton with this start say this of strings that are no UTF-8.
    pub(super) fn stray(&mut self, start: u32, outcome: u16) {
        for state in self.of_start(start).iter_mut().filter(|state| state.stray) {
            state.ends = [outcome, 0];
        }
    }

    /// Makes the states fewer and lays them out; `starts`: where subjects' names begin.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn finish(self, starts: impl Iterator<Item = u32>) -> Result<Finished, GateError> {
        let (classes, class_of) = self.classes();
        let rows = self.rows(&classes);
        let block = self.blocks(&rows);
        // Numbered as they are reached, keys and methods first.
        let starts: Vec<u32> = starts.collect();
        let mut order = Order::default();
        let dead = order.number(&block, &rows, NOWHERE);
        let fixed = self.fixed.map(|start| order.number(&block, &rows, start));
        let starts: Vec<u16> = starts.into_iter().map(|start| order.number(&block, &rows, start)).collect();
        debug_assert_eq!(dead, 0);
        let (columns, class_of) = order.columns(&rows, &block, class_of);
        let states = order.first.len();
        let classes = columns.len() + usize::from(CLASSES_RESERVED);
        let needed = states.saturating_mul(classes);
        let (Ok(width), true) = (u8::try_from(classes - 1), needed <= ENTRIES && states <= 1 << 16) else {
            return Err(GateError::Entries { needed, states, classes });
        };
        let mut next = vec![0_u16; ENTRIES];
        for (first, row) in order.first.iter().zip(next.chunks_mut(classes)) {
            let first = usize::try_from(*first).unwrap_or(usize::MAX);
            let (Some(state), Some(own)) = (self.states.get(first), rows.get(first)) else { continue };
            let targets = columns.iter().map(|column| {
                let to = own.get(*column).and_then(|to| block.get(usize::try_from(*to).ok()?));
                to.and_then(|block| order.numbers.get(block)).copied().unwrap_or(0)
            });
            let cells = state.ends.into_iter().chain(targets);
            row.iter_mut().zip(cells).for_each(|(slot, cell)| *slot = cell);
        }
        let next: Box<[u16; ENTRIES]> = match next.into_boxed_slice().try_into() {
            Ok(next) => next,
            Err(_) => return Err(GateError::Entries { needed, states, classes }),
        };
        let [keys, param_keys, methods] = fixed;
        let classes = u16::from(width) + 1;
        let head = Head { classes, keys, param_keys, methods, class_of, ..Head::EMPTY };
        Ok((Box::new(head), next, states, starts))
    }

    /// Classes of bytes that no automaton tells apart, numbered by their first bytes: of each, one byte; and the class of
    /// each byte.
    fn classes(&self) -> (Vec<u8>, [u8; 256]) {
        let mut numbers: HashMap<Vec<u8>, u8> = HashMap::new();
        let (mut firsts, mut class_of) = (Vec::new(), [0; 256]);
        for (byte, class) in (0_u8..=255).zip(&mut class_of) {
            let key: Vec<u8> = self
                .automata
                .iter()
                .map(|(class_of, _)| class_of.get(usize::from(byte)).copied().unwrap_or_default())
                .collect();
            *class = *numbers.entry(key).or_insert_with(|| {
                firsts.push(byte);
                u8::try_from(firsts.len() - 1).unwrap_or(u8::MAX)
            });
        }
        (firsts, class_of)
    }

    /// Where each state leads by these classes, given by one byte each.
    fn rows(&self, firsts: &[u8]) -> Vec<Vec<u32>> {
        let row = |state: &State| {
            let own = self.automata.get(state.of);
            let to = |byte: &u8| {
                let class = own.and_then(|(class_of, _)| class_of.get(usize::from(*byte)));
                state.next.get(usize::from(*class?)).copied()
            };
            firsts.iter().map(|byte| to(byte).unwrap_or(NOWHERE)).collect()
        };
        self.states.iter().map(row).collect()
    }

    /// Which states cannot be told apart: of each, the number of its block.
    fn blocks(&self, rows: &[Vec<u32>]) -> Vec<u32> {
        // Keys and methods stay by themselves, so that their numbers do not depend on names.
        let fixed = self.automata.get(3).map_or(0, |(_, states)| states.end);
        let first: Vec<(bool, Ends)> =
            self.states.iter().enumerate().map(|(at, state)| (at < fixed, state.ends)).collect();
        let (mut block, mut count) = number(first.iter());
        loop {
            let sign = |(own, row): (&u32, &Vec<u32>)| {
                let to =
                    |to: &u32| usize::try_from(*to).ok().and_then(|to| block.get(to)).copied().unwrap_or(0);
                let mut sign = vec![*own];
                sign.extend(row.iter().map(to));
                sign
            };
            let signs: Vec<Vec<u32>> = block.iter().zip(rows).map(sign).collect();
            let (finer, more) = number(signs.iter());
            if more == count {
                return block;
            }
            (block, count) = (finer, more);
        }
    }
}

/// Numbers what is equal alike, from 0; and how many there are.
fn number<'a, T: std::hash::Hash + Eq + 'a>(all: impl Iterator<Item = &'a T>) -> (Vec<u32>, u32) {
    let mut numbers: HashMap<&T, u32> = HashMap::new();
    let mut count = 0;
    let numbered = all.map(|one| {
        *numbers.entry(one).or_insert_with(|| {
            count += 1;
            count - 1
        })
    });
    (numbered.collect(), count)
}

/// A string that leads to the state at this place, by the shortest way that was found.
fn witness(found: &[(StateID, u32, u8)], mut at: usize) -> String {
    let mut bytes = Vec::new();
    while at != 0
        && let Some((_, from, byte)) = found.get(at)
    {
        bytes.push(*byte);
        at = usize::try_from(*from).unwrap_or(0);
    }
    bytes.reverse();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Blocks in the order in which they are reached.
#[derive(Default)]
struct Order {
    numbers: HashMap<u32, u16>,
    /// Of each number, one state of its block.
    first: Vec<u32>,
}

impl Order {
    /// The number of a state's block, and numbers for all that are reached from there.
    fn number(&mut self, block: &[u32], rows: &[Vec<u32>], start: u32) -> u16 {
        let block_of =
            |state: u32| usize::try_from(state).ok().and_then(|state| block.get(state)).copied().unwrap_or(0);
        let mut at = self.first.len();
        self.give(block_of(start), start);
        while let Some(&state) = self.first.get(at) {
            let row = usize::try_from(state).ok().and_then(|state| rows.get(state));
            for to in row.into_iter().flatten() {
                self.give(block_of(*to), *to);
            }
            at += 1;
        }
        self.numbers.get(&block_of(start)).copied().unwrap_or(0)
    }

    fn give(&mut self, block: u32, state: u32) {
        let next = self.first.len();
        self.numbers.entry(block).or_insert_with(|| {
            self.first.push(state);
            // Beyond that there is no room in a table, which is said once all are counted.
            u16::try_from(next).unwrap_or(u16::MAX)
        });
    }

    /// Classes that are still told apart: of each, a class of before; and the class of each byte, those reserved counted.
    fn columns(&self, rows: &[Vec<u32>], block: &[u32], class_of: [u8; 256]) -> (Vec<usize>, [u8; 256]) {
        let width = rows.first().map_or(0, Vec::len);
        let block_of =
            |state: u32| usize::try_from(state).ok().and_then(|state| block.get(state)).copied().unwrap_or(0);
        let column = |class: usize| -> Vec<u32> {
            let rows = self.first.iter().filter_map(|state| rows.get(usize::try_from(*state).ok()?));
            rows.map(|row| row.get(class).map_or(0, |to| block_of(*to))).collect()
        };
        let mut numbers: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut columns = Vec::new();
        let of: Vec<usize> = (0..width)
            .map(|class| {
                *numbers.entry(column(class)).or_insert_with(|| {
                    columns.push(class);
                    columns.len() - 1
                })
            })
            .collect();
        let reserved = usize::from(CLASSES_RESERVED);
        let class_of = class_of.map(|class| {
            let class = of.get(usize::from(class)).copied().unwrap_or(0);
            u8::try_from(class + reserved).unwrap_or(u8::MAX)
        });
        (columns, class_of)
    }
}
