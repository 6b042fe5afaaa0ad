//! A table for the tests of the reader.

use std::boxed::Box;
use std::vec;

use super::*;
use crate::table::{
    ARGUMENT_TEXT, CLASSES_RESERVED, ENTRIES, Head, KEY_ARGUMENTS, KEY_ARGUMENTS_LIKE, KEY_METHOD, KEY_NAME,
    KEY_PARAMS, KEY_URI, METHOD_PROMPT, METHOD_RESOURCE, METHOD_TOOL, METHODS, SUBJECTS,
};

/// A table of whole words: a trie, each byte a class of its own.
pub(super) struct Words {
    pub(super) head: Head,
    next: Box<[u16; ENTRIES]>,
    states: u16,
}

const CLASSES: u16 = 129 + CLASSES_RESERVED;

impl Words {
    pub(super) fn new(words: &[(&str, u16, u16)]) -> Self {
        let next = vec![0; ENTRIES].into_boxed_slice().try_into().unwrap();
        let mut class_of = [CLASSES_RESERVED as u8; 256];
        for (byte, class) in (0_u8..128).zip(CLASSES_RESERVED as u8..) {
            class_of[byte as usize] = class;
        }
        class_of[ARGUMENT_TEXT as usize] = (CLASSES - 1) as u8;
        let (keys, param_keys, methods) = (1, 2, 3);
        let mut subject =
            Subject { name: 4, uri: 5, long: [LONG; METHODS], broken: BROKEN, ..Subject::default() };
        let mut subjects = [subject; SUBJECTS];
        subjects[0].arguments = 6;
        subject.any = [SWITCHED_OFF; METHODS];
        subjects[1] = subject;
        subjects[2] = Subject { name: 4, uri: 5, ..Subject::default() };
        let head = Head {
            generation: 1,
            classes: CLASSES,
            keys,
            param_keys,
            methods,
            class_of,
            subjects,
            ..Head::EMPTY
        };
        let mut all = Self { head, next, states: 7 };
        all.add_arguments();
        // In every case in real tables.
        for (word, number) in
            [("method", KEY_METHOD), ("METHOD", KEY_METHOD), ("params", KEY_PARAMS), ("Params", KEY_PARAMS)]
        {
            all.add(keys, word, number, 0);
        }
        for (word, number) in [
            ("name", KEY_NAME),
            ("nAme", KEY_NAME),
            ("uri", KEY_URI),
            ("arguments", KEY_ARGUMENTS),
            ("Arguments", KEY_ARGUMENTS_LIKE),
        ] {
            all.add(param_keys, word, number, 0);
        }
        for (word, number) in
            [("tools/call", METHOD_TOOL), ("prompts/get", METHOD_PROMPT), ("resources/read", METHOD_RESOURCE)]
        {
            all.add(methods, word, number, 0);
        }
        for (word, tool, prompt) in words {
            all.add(4, word, *tool, *prompt);
        }
        all.add(5, "file:///etc/shadow", DENIED, 0);
        all
    }

    /// Two arguments, each with a prefix that its text may have, and the choices that go by these.
    fn add_arguments(&mut self) {
        for (key, prefix, bit) in [("path", "/etc/", 1), ("mode", "x", 2)] {
            let end = self.add(6, key, bit, 0);
            let other = self.state(0, bit);
            self.fill(other, other);
            let first = self.state(0, bit);
            self.next[end as usize * CLASSES as usize + CLASSES as usize - 1] = first;
            let mut state = first;
            for byte in prefix.bytes() {
                let next = self.state(0, bit);
                self.fill(state, other);
                self.next[state as usize * CLASSES as usize + self.head.class_of[byte as usize] as usize] =
                    next;
                state = next;
            }
            self.fill(state, state);
            self.next[state as usize * CLASSES as usize] = bit;
        }
        for (number, (bits, outcome)) in [(1, BY_PATH), (2, BY_MODE)].into_iter().enumerate() {
            let choice = &mut self.head.choices[number];
            (choice.conditions[0].bits, choice.denying) = (bits, 1);
            (choice.undecided, choice.at_last) = (UNTOLD, UNTOLD);
            choice.outcomes.iter_mut().skip(1).step_by(2).for_each(|slot| *slot = outcome);
        }
    }

    /// A new state.
    fn state(&mut self, tool: u16, prompt: u16) -> u16 {
        let row = self.states as usize * CLASSES as usize;
        (self.next[row], self.next[row + 1]) = (tool, prompt);
        self.states += 1;
        self.states - 1
    }

    /// Leads from a state to another by every byte.
    fn fill(&mut self, state: u16, to: u16) {
        let row = state as usize * CLASSES as usize;
        self.next[row + CLASSES_RESERVED as usize..row + CLASSES as usize].fill(to);
    }

    fn add(&mut self, start: u16, word: &str, tool: u16, prompt: u16) -> u16 {
        let mut state = start;
        for byte in word.bytes() {
            let slot = state as usize * CLASSES as usize + self.head.class_of[byte as usize] as usize;
            if self.next[slot] == 0 {
                self.next[slot] = self.states;
                self.states += 1;
            }
            state = self.next[slot];
        }
        let row = state as usize * CLASSES as usize;
        self.next[row] = tool;
        self.next[row + 1] = prompt;
        state
    }

    pub(super) fn view(&self) -> View<'_> {
        View { head: &self.head, next: &self.next }
    }

    /// What is said of these writes: outcome, write and place of each. The same byte by byte and in chunks of any size.
    pub(super) fn read(&self, subject: u32, writes: &[&[u8]]) -> Vec<(u16, usize, u32)> {
        let (by_steps, scan) = self.read_by_steps(subject, writes);
        for size in [CHUNK_BYTES, 1, 7, 61] {
            let (by_tokens, after) = self.read_by_tokens(subject, writes, size);
            assert_eq!(by_tokens, by_steps, "{size}: {writes:?}");
            assert_eq!(remembered(&after), remembered(&scan), "{size}: {writes:?}");
        }
        by_steps
            .into_iter()
            .filter(|(said, _)| said.outcome != 0)
            .map(|(said, at)| (said.outcome, at, said.place))
            .collect()
    }

    fn read_by_steps(&self, subject: u32, writes: &[&[u8]]) -> (Vec<(Decision, usize)>, Scan) {
        let (view, mut scan, mut all) = (self.view(), Scan::default(), Vec::new());
        for (number, bytes) in writes.iter().enumerate() {
            let mut marks = Marks::NONE;
            scan.begin(&view, view.subject(subject));
            for (place, byte) in (0_u32..).zip(bytes.iter()) {
                let said = scan.step(&view, view.subject(subject), &mut marks, *byte, place);
                let said = scan.resolve(&view, said);
                if said.outcome != 0 || said.is_call {
                    all.push((said, number));
                }
            }
        }
        (all, scan)
    }

    /// As the kernel half does.
    fn read_by_tokens(&self, subject: u32, writes: &[&[u8]], size: usize) -> (Vec<(Decision, usize)>, Scan) {
        let (view, mut scan, mut all) = (self.view(), Scan::default(), Vec::new());
        let subject = view.subject(subject);
        // What was there before a chunk is no part of it.
        let mut chunk = Chunk::default();
        chunk.bytes().fill(b'x');
        for (number, bytes) in writes.iter().enumerate() {
            let (mut marks, mut place) = (Marks::NONE, 0);
            scan.begin(&view, subject);
            for bytes in bytes.chunks(size) {
                chunk.bytes()[..bytes.len()].copy_from_slice(bytes);
                let (mut at, end) = (0, bytes.len() as u32);
                chunk.end_at(end);
                while at < end {
                    let (to, said) = scan.tokens(&view, subject, &mut marks, &chunk, at, place + at);
                    assert!((at..=end).contains(&to), "{at} to {to} of {end}: {writes:?}");
                    let said = if to > at {
                        said
                    } else {
                        assert_eq!(said, SILENT);
                        scan.step(&view, subject, &mut marks, chunk.byte(at), place + at)
                    };
                    let said = scan.resolve(&view, said);
                    at = to.max(at + 1);
                    if said.outcome != 0 || said.is_call {
                        all.push((said, number));
                    }
                }
                place += end;
            }
        }
        (all, scan)
    }
}
