//! The gate: everything that can be said of a call before it is made, as one table that the kernel half looks up while a
//! client writes. (Requirements: docs/internals/gate.md.)
//!
//! What decides is not written a second time. A policy speaks of names through globs, and of known tools by their names:
//! these are run as one automaton, so that all names which lead to the same patterns are alike to the policy, and the
//! guards themselves are asked about one of them ([`GateCompiler::compile`]). So their order, exceptions and defaults are the
//! engine's by construction. What goes by the calls before it (rates, rules across servers) the kernel half remembers itself
//! ([`mcpwarden_gate::Call`]); the table says what it must know for that. What guards
//! say only by the words of a name that nobody listed is [`GateVerdict::Undecided`].
//!
//! | module | job |
//! |---|---|
//! | `compiler` | a policy and the connections that there are into a table, with what is remembered of the one before |
//! | `ask` | what the guards say of each set of patterns |
//! | `alphabet` | what the texts of arguments tell, as bits |
//! | `ask::choose` | what goes by arguments: conditions over these bits, and what the guards say with each set of them |
//! | `part` | the patterns of one kind of connection into states, the fewest that there can be |
//! | `automaton` | those of all kinds into a table |
//! | `history` | the rules that go by the calls before, as numbers |
//! | `read` | bytes through the table, as the kernel half reads them |

mod alphabet;
mod ask;
mod automaton;
mod compiler;
mod history;
mod part;
mod read;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use mcpwarden_gate::{DENY, ENTRIES, Head, Limit, METHODS, OUTCOME_NUMBERS, SUBJECTS, UNDECIDED, View};

use sha2::{Digest as _, Sha256};

use crate::config::Config;
use crate::glob::GlobError;
use crate::guard::{CallBlock, Listing, Profile, StandingDenial, ToolFacts};
use crate::terms::{GuardKind, Identity, ServerId, SessionId, Timestamp, ToolCategory, Trust};

pub use compiler::GateCompiler;
pub use read::{GateHttpReader, GateReader, GateSaid, GateUnread};

/// Most kinds of connections that a table tells apart.
pub const MOST_SUBJECTS: usize = SUBJECTS - 1;
/// The number of all kinds beyond that: whatever they ask for is undecided.
pub const NO_SUBJECT: u32 = SUBJECTS as u32 - 1;

/// A kind of connection: all that is known of its server and its client before anything is called.
#[derive(Clone, Debug, PartialEq)]
pub struct GateSubject {
    /// Which server.
    pub server: ServerId,
    /// What its programs are called besides: see [`Facts::also`](crate::guard::Facts::also).
    pub also: Vec<ServerId>,
    /// Whether it is declared.
    pub identity: Identity,
    /// Whether its declaration says that it may be used.
    pub enabled: bool,
    /// How far it is trusted.
    pub trust: Trust,
    /// Whether its tools are known.
    pub listing: Listing,
    /// What its client may do.
    pub profile: Profile,
    /// Its tools, by name: those that it lists, and those that are remembered.
    pub tools: BTreeMap<Arc<str>, ToolFacts>,
    /// What an operator blocks of it, for as long as it does.
    pub block: Option<CallBlock>,
    /// What guards that others wrote deny of the server and the session.
    pub standing: Vec<Arc<StandingDenial>>,
}

impl GateSubject {
    /// What the server is called, and what else.
    pub(crate) fn called(&self) -> (&ServerId, &[ServerId]) {
        (&self.server, &self.also)
    }

    /// All names of the server.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.server).chain(&self.also).map(|id| &*id.0)
    }

    /// The same while all that is asked of it is blocked: whatever its tools are.
    pub fn blocked(&self, block: &CallBlock) -> Self {
        let block = Some(CallBlock { callee: block.callee.clone(), until: None, reason: None });
        Self { tools: BTreeMap::new(), block, ..self.clone() }
    }

    /// Servers of which nothing is known but their names: those that are declared, and one that is not. A policy that is too
    /// large for these is so for every host.
    pub fn of(config: &Config) -> Vec<Self> {
        let named = |id: &str, identity| Self {
            server: ServerId(id.into()),
            also: Vec::new(),
            identity,
            enabled: true,
            trust: Trust::default(),
            listing: Listing::Unknown,
            profile: Profile::default(),
            tools: BTreeMap::new(),
            block: None,
            standing: Vec::new(),
        };
        let declared = config.servers.iter().take(MOST_SUBJECTS - 1);
        let declared = declared.map(|server| named(&server.id, Identity::Declared));
        declared.chain([named("server", Identity::Derived)]).collect()
    }
}

/// Whose calls are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateCaller {
    /// By the rules across servers: within a session.
    pub session: SessionId,
    /// And within that by server.
    pub server: ServerId,
    /// By rates: of a user's server, in all sessions.
    pub uid: Option<u32>,
}

impl GateCaller {
    /// The number of a user's server, the same whenever it comes. (Two that had the same number would share their tokens.)
    pub fn bucket(&self) -> u64 {
        let mut hash = Sha256::new();
        hash.update([u8::from(self.uid.is_some())]);
        hash.update(self.uid.unwrap_or_default().to_le_bytes());
        hash.update(self.server.0.as_bytes());
        hash.finalize().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }
}

/// What the gate does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GateVerdict {
    /// It passes.
    Allow,
    /// `enforcement.undecided` says what becomes of it.
    Undecided,
    /// It must not reach its server.
    Deny,
}

/// Why the gate says what it says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateOutcome {
    /// What becomes of the message.
    pub verdict: GateVerdict,
    /// Which guard says so; `None` where it is the form of the message.
    pub guard: Option<GuardKind>,
    /// For machines: the guard's code, such as `tool_denied`, or `undecidable_name`, `broken_line`, `unlisted_tool`.
    pub code: String,
    /// What the tool does, where that is known and something goes by it.
    pub category: ToolCategory,
    /// Whether it may do anything, since its server does not list it.
    pub may_do_anything: bool,
    /// How often it may be called.
    pub limit: Option<Limit>,
    /// Whether it is denied, and takes its tokens nonetheless: who counts them is asked before who denies it.
    pub pays: bool,
}

/// There is no table of a policy. The one before it stays.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Too many kinds of connections.
    #[error("the gate has room for {MOST_SUBJECTS} kinds of connections, and there are {0}")]
    Subjects(usize),
    /// Too large a table.
    #[error(
        "the gate's table has room for {ENTRIES} transitions, and the policy needs {needed}: {states} states of {classes} \
         classes of bytes; fewer or simpler globs make it smaller"
    )]
    Entries {
        /// How many there would be.
        needed: usize,
        /// In how many rows.
        states: usize,
        /// How long each is.
        classes: usize,
    },
    /// The automaton of one server's rules grows beyond all bounds before it could be made smaller.
    #[error(
        "the {patterns} globs and tools of server '{server}' need an automaton of more than {bytes} bytes: {source}"
    )]
    Automaton {
        /// Whose.
        server: ServerId,
        /// How many patterns it is of.
        patterns: usize,
        /// The bound. Bytes.
        bytes: usize,
        /// What the compiler says.
        source: Box<regex_automata::dfa::dense::BuildError>,
    },
    /// More states than are made smaller at once.
    #[error(
        "the gate's automaton has more than {most} states before it is made smaller; fewer or simpler globs help"
    )]
    States {
        /// The bound.
        most: usize,
    },
    /// Too many different outcomes.
    #[error("the gate can tell {OUTCOME_NUMBERS} outcomes apart, and there are {0}")]
    Outcomes(usize),
    /// Too many different rates.
    #[error("the gate can tell {most} rates apart, and there are more")]
    Limits {
        /// The bound.
        most: usize,
    },
    /// A burst of more calls than are remembered.
    #[error("the gate remembers {most} calls of a server, and `cross_server.burst.max_calls` is {calls}")]
    Burst {
        /// The bound.
        most: usize,
        /// What is configured.
        calls: u32,
    },
    /// There is nobody to ask: an engine without a judge.
    #[error("no guard judges calls")]
    NoGuards,
    /// A glob does not compile; nothing of what [`parse`](crate::config::parse) lets through is one.
    #[error(transparent)]
    Glob(#[from] GlobError),
}

/// A policy for some kinds of connections, compiled.
pub struct GateTable {
    head: Box<Head>,
    next: Box<[u16; ENTRIES]>,
    states: usize,
    outcomes: Vec<GateOutcome>,
    until: Option<Timestamp>,
    crowded: Vec<ServerId>,
}

impl fmt::Debug for GateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, outcomes, .. } = self;
        write!(f, "GateTable({states} states of {}, {} outcomes)", self.head.classes, outcomes.len())
    }
}

impl GateTable {
    /// The table, as the reader wants it.
    pub fn view(&self) -> View<'_> {
        View { head: &self.head, next: &self.next }
    }

    /// What an outcome of the reader means; `None`: it passes, and there is nothing to be said.
    pub fn outcome(&self, outcome: u16) -> Option<&GateOutcome> {
        self.outcomes.get(index_of(outcome)?)
    }

    /// The same in the order of their numbers.
    pub fn outcomes(&self) -> &[GateOutcome] {
        &self.outcomes
    }

    /// What all its outcomes mean, in the order of their numbers: [`index_of`].
    pub fn into_outcomes(self) -> Vec<GateOutcome> {
        self.outcomes
    }

    /// Until when it says what is right; then it is to be compiled again, even if nothing happens.
    pub fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Servers that list more tools than there is room for: what depends on the tool is undecided.
    pub fn crowded(&self) -> &[ServerId] {
        &self.crowded
    }

    /// How many transitions it has, of [`ENTRIES`].
    pub fn entries(&self) -> usize {
        self.states * usize::from(self.head.classes)
    }
}

/// Where the meaning of an outcome stands in [`GateTable::into_outcomes`]; `None`: there is nothing to be said.
pub fn index_of(outcome: u16) -> Option<usize> {
    usize::from(outcome & OUTCOME_NUMBERS).checked_sub(1)
}

/// The verdict in an outcome of the reader.
fn verdict(outcome: u16) -> GateVerdict {
    if outcome & DENY != 0 {
        GateVerdict::Deny
    } else if outcome & UNDECIDED != 0 {
        GateVerdict::Undecided
    } else {
        GateVerdict::Allow
    }
}

/// Of each method an outcome.
type Methods = [u16; METHODS];

#[cfg(test)]
mod tests;
