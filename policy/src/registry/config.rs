//! What the registry is told at start, what it counts, and how it refuses.

use std::collections::{BTreeMap, BTreeSet};

use super::store::StoreError;
use crate::terms::{Category, Detection};
use mcpwarden_terms::counters;

/// Pins of one server, by default: as long may a list be of which every definition is compared.
pub const ITEMS_PER_SERVER: usize = 4_096;

/// Bounds of everything that servers can make grow. What is refused is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryLimits {
    /// Connections known at once.
    pub connections: usize,
    /// Pins of one server, tools that it removed included: they are never forgotten for newer ones, or a server could
    /// lose its own pins.
    pub items_per_server: usize,
    /// Pins of all servers that are connected, items of all connections, and names of all sessions, together. One
    /// takes a few hundred bytes, and 2 KiB at worst.
    pub entries: usize,
    /// Those of one user's servers, so that nobody can have others' servers go without pins.
    pub entries_per_user: usize,
    /// Servers of one session that are told apart.
    pub servers_per_session: usize,
    /// Longest definition that is kept for diffs. Bytes.
    pub definition_bytes: usize,
}

impl Default for RegistryLimits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            items_per_server: ITEMS_PER_SERVER,
            entries: 100_000,
            entries_per_user: 50_000,
            servers_per_session: 256,
            definition_bytes: 256 * 1024,
        }
    }
}

/// What the registry is told at start.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistrySettings {
    /// Whether a definition is pinned when it is first seen (`registry.pin_on_first_use`). Else each is compared with
    /// the one before, until somebody approves one.
    pub pin_on_first_use: bool,
    /// Whether a changed definition is an alert (`registry.alert_on_change`). It is said in any case.
    pub alert_on_change: bool,
    /// Whether pins outlive the agent (`registry.persistent`), where there is a store that can keep them.
    pub persistent: bool,
    /// From which similarity on names are near-duplicates (`inspection.similarity_threshold`): the share of letters that
    /// are the same, 0.5 to 1; 1 means that nearly the same is not the same.
    pub similarity_threshold: f64,
    /// Categories of findings that are switched off (`inspection.builtin`): nothing is said of them. Who was first with a name
    /// is known all the same.
    pub switched_off: BTreeSet<Category>,
    /// Bounds.
    pub limits: RegistryLimits,
}

impl RegistrySettings {
    /// Whether what is found about names is of a category that is not switched off.
    pub(super) fn looks_for(&self, found: &Detection) -> bool {
        !self.switched_off.contains(&found.category)
    }
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            pin_on_first_use: true,
            alert_on_change: true,
            persistent: true,
            similarity_threshold: 0.85,
            switched_off: BTreeSet::new(),
            limits: RegistryLimits::default(),
        }
    }
}

/// How much is kept, in entries (see [`RegistryLimits`]), of each user and of all.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) all: usize,
    users: BTreeMap<Option<u32>, usize>,
}

impl Kept {
    /// Whether so many more of a user's fit. Nothing more always does.
    pub(super) fn fit(&self, user: Option<u32>, more: usize, limits: &RegistryLimits) -> bool {
        let of_user = self.users.get(&user).copied().unwrap_or(0);
        more == 0 || (self.all + more <= limits.entries && of_user + more <= limits.entries_per_user)
    }

    /// So many more of a user's are kept.
    pub(super) fn add(&mut self, user: Option<u32>, more: usize) {
        self.all += more;
        *self.users.entry(user).or_default() += more;
    }

    /// So many fewer.
    pub(super) fn remove(&mut self, user: Option<u32>, fewer: usize) {
        self.all = self.all.saturating_sub(fewer);
        if let Some(entries) = self.users.get_mut(&user) {
            *entries = entries.saturating_sub(fewer);
            if *entries == 0 {
                self.users.remove(&user);
            }
        }
    }
}

/// The registry could not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// As many connections as may be are known.
    #[error("the registry knows {0} connections, and no more fit: their tools are not compared with pins")]
    Connections(usize),
    /// Nobody ever offered this.
    #[error("{server} never offered {name}")]
    Unknown {
        /// The server.
        server: String,
        /// The tool, or whatever it is.
        name: String,
    },
    /// Several servers have this name, and it was not said which of them is meant.
    #[error("{server} is several servers, of which one is to be named: {}", .identities.join(", "))]
    Ambiguous {
        /// The server.
        server: String,
        /// Whose they are: user id and program.
        identities: Vec<String>,
    },
    /// The definition with this hash was not seen: what is to be approved is not what is offered.
    #[error("{name} of {server} was never seen with the hash {hash}; it was last seen with {current}")]
    OtherHash {
        /// The server.
        server: String,
        /// The tool, or whatever it is.
        name: String,
        /// The hash that was to be approved.
        hash: String,
        /// The hash that it was last seen with.
        current: String,
    },
    /// A limited approval would change nothing.
    #[error(
        "{name} of {server} is approved without limits; `mcpwarden approvals deny` or `pins reset` ends that"
    )]
    Approved {
        /// The server.
        server: String,
        /// The tool.
        name: String,
    },
    /// There are too many limited approvals of one tool.
    #[error(
        "{name} of {server} has {most} limited approvals, and no more fit; `mcpwarden approvals deny` ends them"
    )]
    Limited {
        /// The server.
        server: String,
        /// The tool.
        name: String,
        /// As many as may be.
        most: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

counters! { RegistryCounters {
    /// Pages of lists taken.
    pages,
    /// Pages of connections that are not known.
    unknown_pages,
    /// Pages that continue a list whose beginning was not seen: nothing is taken to be removed for them.
    loose_pages,
    /// Notifications that a list changed.
    list_changes,
    /// Definitions other than the pinned ones.
    changed,
    /// Items that a server no longer lists.
    removed,
    /// Items that were in one list twice with different definitions.
    contradictions,
    /// Connections refused since there were too many.
    connections_refused,
    /// Programs of an upgraded server of which it was not looked up since when they had its tools: there were too many.
    programs_not_read,
    /// Items that are not compared with pins since there were too many.
    items_refused,
    /// Items of lists that are compared and not remembered since there were too many.
    entries_refused,
    /// Times that a server's pins were read for one page, and not kept in memory, since there were too many.
    pins_borrowed,
    /// Names that are not compared with others' since there were too many.
    names_refused,
    /// Comparisons of a name with nearly the same ones left out since there were too many.
    names_not_compared,
    /// Tools whose definitions order something about a tool of another server of the session.
    orders_across_servers,
    /// Names in orders of definitions that are not looked up among other servers' tools since there were too many.
    ordered_names_dropped,
    /// Servers that are not told apart in a session since there were too many: their names are not compared.
    servers_refused,
    /// Definitions that are not kept for diffs since they are too long.
    definitions_not_kept,
    /// Failures of the store.
    store_errors,
}}
