//! The gate's reader: which method the bytes of a client ask for, and of which tool, prompt or resource.
//!
//! The kernel half runs it over the bytes of a write before they are written, and user space in tests, byte by byte the
//! same. It allocates nothing, it cannot panic, and all that it remembers is one plain struct, [`Scan`], which is kept per
//! channel: a message is one message however it is cut into writes. It is **not** a JSON parser: it never says that
//! something is wrong, and it knows of no values but a handful of strings. Whoever reads behind it does.
//!
//! Strings that matter (keys of a message and of its `params`, the method, a tool's name, a resource's URI) run through one
//! automaton, the [table](View), which user space compiles from the policy (`gate` in the crate `mcpwarden-policy`). What an
//! automaton says at a string's end is a key, a method, or an [outcome](DENY).
//!
//! What goes by a call's arguments is told by the texts of some of them, which the same automaton reads: [`Choice`].
//!
//! What is denied only after other calls (rates, rules across servers) is told by what is remembered of these: [`Call`].
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(core_intrinsics, asm_experimental_arch), allow(internal_features))]

mod atomic;
mod choice;
mod history;
mod http;
mod outcome;
mod rewrite;
mod scan;
mod table;

pub use atomic::Number;
pub use choice::{ALWAYS_UNKNOWN, CHOICES, CONDITIONS, Choice, Condition};
pub use history::{
    BY_BURST, BY_FLOW, BY_FORGOTTEN, BY_NOTHING, BY_RATE, BY_READ_THEN_SEND, BY_TOOL_RATE, BY_WHAT_IT_MAY_DO,
    CALLS, Call, Calls, DOES_ANYTHING, DOES_NOTHING, DOES_PAY, DOES_READ, DOES_SEND, DOES_WRITE, Memory,
    SERVERS, SEVERAL, Session, Turn,
};
pub use http::{BODY, CODED, END, FAULT, Fault, HEAD_BYTES, HttpRequests, NAMES};
pub use outcome::{CONDITIONAL, DENY, OUTCOME_NUMBERS, OUTCOMES, UNDECIDED};
pub use rewrite::{KEY_BYTES, NAME_BEFORE, REWRITE_BYTES, Reach, Rewrite, opening};
pub use scan::{CHUNK_BYTES, Chunk, Decision, LONG_NAME_BYTES, Marks, NOWHERE, Scan};
pub use table::{
    ACROSS_JUDGED, ACROSS_REMEMBERED, ARGUMENT_TEXT, CLASS_AS_PROMPT, CLASS_AS_TOOL, CLASSES_RESERVED,
    ENTRIES, Head, KEY_ARGUMENTS, KEY_ARGUMENTS_LIKE, KEY_METHOD, KEY_NAME, KEY_PARAMS, KEY_URI, LIMITS,
    Limit, METHOD_OTHER, METHOD_PROMPT, METHOD_RESOURCE, METHOD_TOOL, METHODS, Means, Rules, SUBJECTS,
    Subject, View,
};
