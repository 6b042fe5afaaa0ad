//! The automaton as both halves know it.

use crate::choice::{CHOICES, Choice};
use crate::outcome::OUTCOMES;

/// Transitions that a table has room for: a power of two, so that an index can be masked. 512 KiB of them.
pub const ENTRIES: usize = 1 << 18;
/// Subjects that a table has room for; a power of two as well.
pub const SUBJECTS: usize = 1 << 10;
/// Limits that a table has room for; a power of two. The first is none.
pub const LIMITS: usize = 256;

/// A key that means nothing here is 0, as what the automaton says of everything that it does not know.
pub const KEY_METHOD: u16 = 1;
/// `params`
pub const KEY_PARAMS: u16 = 2;
/// `params.name`
pub const KEY_NAME: u16 = 3;
/// `params.uri`
pub const KEY_URI: u16 = 4;
/// `params.arguments`
pub const KEY_ARGUMENTS: u16 = 5;
/// The same in another case, which some readers take for it.
pub const KEY_ARGUMENTS_LIKE: u16 = 6;

/// Stands between the key of an argument and its text in the automaton of arguments: a byte of no UTF-8.
pub const ARGUMENT_TEXT: u8 = 0xFF;

/// Any method that nobody names something with.
pub const METHOD_OTHER: u16 = 0;
/// `tools/call`
pub const METHOD_TOOL: u16 = 1;
/// `prompts/get`
pub const METHOD_PROMPT: u16 = 2;
/// `resources/read`
pub const METHOD_RESOURCE: u16 = 3;
/// How many methods there are; a power of two.
pub const METHODS: usize = 4;

/// In place of the class of a byte: what the automaton says of a string that ends here. Of a name, as that of a tool. Of an
/// argument's key, which bits its text tells; of its text, those that differ from those of an argument that is not there.
pub const CLASS_AS_TOOL: u16 = 0;
/// The same of a name, as that of a prompt. Of an argument's text, which bits it tells; of a key, none.
pub const CLASS_AS_PROMPT: u16 = 1;
/// Classes of bytes begin here.
pub const CLASSES_RESERVED: u16 = 2;

/// Set in [`Subject::across`]: what is called there is remembered, for the calls of others.
pub const ACROSS_REMEMBERED: u16 = 1;
/// Calls are judged by what was called elsewhere.
pub const ACROSS_JUDGED: u16 = 2;

/// A kind of connection, all of which are judged alike. Where its strings begin in the automaton, and what is said of
/// messages whatever their strings.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Where names of tools and prompts begin: a state.
    pub name: u16,
    /// Where URIs of resources begin.
    pub uri: u16,
    /// The outcome of every message with a method, by method.
    pub any: [u16; METHODS],
    /// The outcome where a name cannot be told, by the method that it is of: it is too long, the table changed before the message
    /// was known, or there are two.
    pub long: [u16; METHODS],
    /// The outcome of a line break within a message: who reads lines reads two messages, who does not reads one.
    pub broken: u16,
    /// How often its server may be called: one of [`Head::limits`].
    pub limit: u16,
    /// What the rules across servers are to it: [`ACROSS_REMEMBERED`], [`ACROSS_JUDGED`], or neither.
    pub across: u16,
    /// Where the keys of arguments begin; 0: no call there goes by its arguments.
    pub arguments: u16,
    /// The bits of a call without any.
    pub absent: u16,
}

/// `cross_server` of a configuration.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `read_then_send.window`; 0: the rule does not count. So with the others.
    pub read_then_send: u64,
    /// `burst.window`
    pub burst: u64,
    /// `burst.max_calls`; less than [`crate::CALLS`].
    pub burst_calls: u64,
    /// `cross_server_flow.window`, where turns do not count.
    pub flow: u64,
    /// `turn_gap`, where they do.
    pub turn_gap: u64,
    /// How long a call without an answer keeps its turn open.
    pub turn_open: u64,
}

/// A token bucket as its two numbers: how long a token takes to come, and how far the bucket may be from full when one is
/// taken. An interval of 0: there are no tokens.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limit {
    /// Nanoseconds from one token to the next.
    pub interval: u64,
    /// Nanoseconds until it is full, at most, for a token to be in it.
    pub slack: u64,
}

/// What an outcome means for the calls after it: of one that is let through.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// What the tool does: one of the `DOES_…` constants.
    pub does: u8,
    /// How often it may be called: one of [`Head::limits`].
    pub limit: u8,
}

/// All of a table but its transitions.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which table this is: each has another number.
    pub generation: u32,
    /// How many classes of bytes there are, those reserved included: the length of a state's row.
    pub classes: u16,
    /// Where the keys of a message begin. This and the next two are the same in every table, and so are the states that
    /// are reached from there: a key can begin under one table and end under another.
    pub keys: u16,
    /// Where the keys of `params` begin.
    pub param_keys: u16,
    /// Where methods begin.
    pub methods: u16,
    /// Always 0.
    pub zero: u32,
    /// The rules across servers.
    pub rules: Rules,
    /// How often may be called; the first is not looked at.
    pub limits: [Limit; LIMITS],
    /// By the number of the outcome.
    pub means: [Means; OUTCOMES],
    /// What goes by arguments.
    pub choices: [Choice; CHOICES],
    /// The class of each byte.
    pub class_of: [u8; 256],
    /// By number.
    pub subjects: [Subject; SUBJECTS],
}

impl Head {
    /// Of a table in which there is nothing.
    pub const EMPTY: Self = Self {
        generation: 0,
        classes: CLASSES_RESERVED,
        keys: 0,
        param_keys: 0,
        methods: 0,
        zero: 0,
        rules: Rules { read_then_send: 0, burst: 0, burst_calls: 0, flow: 0, turn_gap: 0, turn_open: 0 },
        limits: [Limit { interval: 0, slack: 0 }; LIMITS],
        means: [Means { does: 0, limit: 0 }; OUTCOMES],
        choices: [Choice::NONE; CHOICES],
        class_of: [0; 256],
        subjects: [Subject {
            name: 0,
            uri: 0,
            any: [0; METHODS],
            long: [0; METHODS],
            broken: 0,
            limit: 0,
            across: 0,
            arguments: 0,
            absent: 0,
        }; SUBJECTS],
    };
}

#[cfg(feature = "user")]
// SAFETY: `repr(C)`, only integers, no padding, every bit pattern valid.
unsafe impl aya::Pod for Head {}

/// A table, wherever it lies.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// What is said of all.
    pub head: &'a Head,
    /// The row of each state, one after the other: a state for each class of bytes, behind the outcomes at
    /// [`CLASS_AS_TOOL`] and [`CLASS_AS_PROMPT`].
    pub next: &'a [u16; ENTRIES],
}

impl View<'_> {
    /// The state behind `state` and a byte.
    #[inline(always)]
    pub fn next(&self, state: u16, byte: u8) -> u16 {
        self.at(state, u16::from(self.head.class_of[byte as usize]))
    }

    /// What is said of a string that ends in `state`: by [`CLASS_AS_TOOL`] or [`CLASS_AS_PROMPT`].
    #[inline(always)]
    pub fn end(&self, state: u16, class: u16) -> u16 {
        self.at(state, class)
    }

    #[inline(always)]
    fn at(&self, state: u16, class: u16) -> u16 {
        // Masked for the verifier, and for the compiler, which needs no check of bounds then.
        let index = state as usize * self.head.classes as usize + class as usize;
        self.next[index & (ENTRIES - 1)]
    }

    /// What an outcome means for the calls after it.
    #[inline(always)]
    pub fn means(&self, outcome: u16) -> Means {
        self.head.means[outcome as usize & (OUTCOMES - 1)]
    }

    /// A choice by its number.
    #[inline(always)]
    pub fn choice(&self, outcome: u16) -> &Choice {
        &self.head.choices[outcome as usize & (CHOICES - 1)]
    }

    /// A limit by its number.
    #[inline(always)]
    pub fn limit(&self, number: u16) -> Limit {
        self.head.limits[number as usize & (LIMITS - 1)]
    }

    /// A subject by its number.
    #[inline(always)]
    pub fn subject(&self, number: u32) -> &Subject {
        &self.head.subjects[number as usize & (SUBJECTS - 1)]
    }
}
