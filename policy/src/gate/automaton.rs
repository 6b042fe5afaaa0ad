//! Automata into a table.
//!
//! Automata of all subjects stand side by side. States that cannot be told apart become one, so that servers with the same rules
//! share them, and bytes that no state tells apart one class.

use std::collections::HashMap;
use std::ops::Range;

use mcpwarden_gate::{CLASSES_RESERVED, ENTRIES, Head, KEY_METHOD, KEY_NAME, METHOD_TOOL};

use super::GateError;
use super::part::{Ends, MOST_STATES, Part, block_of, blocks};

/// The state from which nothing leads to a key, a method or an outcome: the first.
const NOWHERE: u32 = 0;

/// Automata that become a table.
pub(super) struct Builder<'a> {
    /// With the number of its first state.
    parts: Vec<(u32, &'a Part)>,
    /// How many states there are.
    states: usize,
    fixed: [u32; 3],
}

/// A finished table: its head, its transitions, how many states, and where each subject's names begin.
type Finished = (Box<Head>, Box<[u16; ENTRIES]>, usize, Vec<u16>);

/// The keys and methods that every table has. Keys are those in any case: some readers of JSON do not tell
/// (`encoding/json` of Go, by simple folding).
///
/// # Errors
/// None that is known of.
pub(super) fn fixed() -> Result<[Part; 3], GateError> {
    Ok([
        Part::of_words(&["(?i)method", "(?i)params"], KEY_METHOD)?,
        Part::of_words(&["(?i)name", "(?i)uri", "arguments", "(?i)arguments"], KEY_NAME)?,
        Part::of_words(&["tools/call", "prompts/get", "resources/read"], METHOD_TOOL)?,
    ])
}

impl<'a> Builder<'a> {
    /// With keys and methods before all else: their states must have the same numbers in each table.
    pub(super) fn new(fixed: &'a [Part; 3]) -> Self {
        // State 0 is nowhere.
        let mut builder = Self { parts: Vec::new(), states: 1, fixed: [0; 3] };
        builder.fixed = fixed.each_ref().map(|part| builder.add(part));
        builder
    }

    /// Adds an automaton; where it begins.
    pub(super) fn add(&mut self, part: &'a Part) -> u32 {
        let start = u32::try_from(self.states).unwrap_or(u32::MAX);
        self.parts.push((start, part));
        self.states += part.ends.len();
        start
    }

    /// Makes the states fewer and lays them out; `starts`: where subjects' names begin.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn finish(self, starts: impl Iterator<Item = u32>) -> Result<Finished, GateError> {
        if self.states > MOST_STATES {
            return Err(GateError::States { most: MOST_STATES });
        }
        let (firsts, class_of) = self.classes();
        let table = self.states(&firsts);
        // Numbered as they are reached, keys and methods first.
        let starts: Vec<u32> = starts.collect();
        let mut order = Order::default();
        let dead = order.number(&table, NOWHERE);
        let fixed = self.fixed.map(|start| order.number(&table, start));
        let starts: Vec<u16> = starts.into_iter().map(|start| order.number(&table, start)).collect();
        debug_assert_eq!(dead, 0);
        let (columns, class_of) = order.columns(&table, class_of);
        let states = order.first.len();
        let classes = columns.len() + usize::from(CLASSES_RESERVED);
        let needed = states.saturating_mul(classes);
        let (Ok(width), true) = (u8::try_from(classes - 1), needed <= ENTRIES && states <= 1 << 16) else {
            return Err(GateError::Entries { needed, states, classes });
        };
        let mut next = vec![0_u16; ENTRIES];
        for (state, row) in order.first.iter().zip(next.chunks_mut(classes)) {
            let (own, ends) = (table.row(*state), table.ends(*state));
            let targets = columns.iter().map(|column| {
                let to = own.get(*column).map(|to| block_of(&table.block, *to));
                to.and_then(|block| order.numbers.get(&block)).copied().unwrap_or(0)
            });
            row.iter_mut().zip(ends.into_iter().chain(targets)).for_each(|(slot, cell)| *slot = cell);
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
            let own = |(_, part): &(u32, &Part)| part.class_of.get(usize::from(byte)).copied();
            let key: Vec<u8> = self.parts.iter().map(|part| own(part).unwrap_or_default()).collect();
            *class = *numbers.entry(key).or_insert_with(|| {
                firsts.push(byte);
                u8::try_from(firsts.len() - 1).unwrap_or(u8::MAX)
            });
        }
        (firsts, class_of)
    }

    /// All states, with these classes, given by one byte each.
    fn states(&self, firsts: &[u8]) -> States {
        let width = firsts.len();
        let mut next = vec![NOWHERE; width];
        let mut ends = vec![Ends::default()];
        for (start, part) in &self.parts {
            let own: Vec<usize> = firsts
                .iter()
                .map(|byte| part.class_of.get(usize::from(*byte)).copied().unwrap_or_default().into())
                .collect();
            for row in part.next.chunks(part.width.max(1)) {
                let to = |class: &usize| row.get(*class).map_or(NOWHERE, |to| to.saturating_add(*start));
                next.extend(own.iter().map(to));
            }
            ends.extend_from_slice(&part.ends);
        }
        // Keys and methods stay by themselves, so that their numbers do not depend on names.
        let fixed: Range<usize> = 0..self.parts.get(3).map_or(self.states, |(start, _)| *start as usize);
        let block =
            blocks(ends.iter().enumerate().map(|(at, ends)| (fixed.contains(&at), ends)), &next, width);
        States { width, next, ends, block }
    }
}

/// The states of all automata.
struct States {
    /// How many classes of bytes there are.
    width: usize,
    /// Of each state, by class.
    next: Vec<u32>,
    ends: Vec<Ends>,
    /// Of each state, which others it cannot be told from.
    block: Vec<u32>,
}

impl States {
    fn row(&self, state: u32) -> &[u32] {
        let start = usize::try_from(state).unwrap_or(usize::MAX).saturating_mul(self.width);
        self.next.get(start..start.saturating_add(self.width)).unwrap_or_default()
    }

    fn ends(&self, state: u32) -> Ends {
        usize::try_from(state).ok().and_then(|state| self.ends.get(state)).copied().unwrap_or_default()
    }
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
    fn number(&mut self, states: &States, start: u32) -> u16 {
        let mut at = self.first.len();
        self.give(block_of(&states.block, start), start);
        while let Some(&state) = self.first.get(at) {
            for to in states.row(state) {
                self.give(block_of(&states.block, *to), *to);
            }
            at += 1;
        }
        self.numbers.get(&block_of(&states.block, start)).copied().unwrap_or(0)
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
    fn columns(&self, states: &States, class_of: [u8; 256]) -> (Vec<usize>, [u8; 256]) {
        let column = |class: usize| -> Vec<u32> {
            let rows = self.first.iter().map(|state| states.row(*state));
            rows.map(|row| row.get(class).map_or(0, |to| block_of(&states.block, *to))).collect()
        };
        let mut numbers: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut columns = Vec::new();
        let of: Vec<usize> = (0..states.width)
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
