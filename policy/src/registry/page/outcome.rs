//! What a page has, and what is said of it.

use crate::definition::Diff;
use crate::detect::OrderedNames;
use crate::registry::shadow::Finding;
use crate::registry::store::{Item, StoreError};
use crate::terms::{ConnectionId, ItemKind, PinState, Severity};

/// One entry of a list.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Its name; empty for instructions.
    pub name: &'a str,
    /// The definition, as it was sent.
    pub json: &'a str,
    /// The hash of that: see [`crate::definition::json_digest`].
    pub hash: &'a [u8; 32],
    /// The hash that earlier versions of this program had of it, where that is another one: see
    /// [`crate::definition::former_digest`].
    pub former: Option<&'a [u8; 32]>,
    /// The worst that was found in it.
    pub max_severity: Option<Severity>,
    /// The names that its orders give.
    pub ordered: &'a OrderedNames,
}

/// One answer to a request for a list. Instructions are a list of one, or of none, on a page that is first and last.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// What is listed.
    pub kind: ItemKind,
    /// Whether a list begins with it: the request had no `cursor`.
    pub first: bool,
    /// Whether the list ends with it: the answer has no `nextCursor`.
    pub last: bool,
    /// Whether it is another answer for a list that was taken before: nobody knows which of them the client takes, so that what
    /// either has counts. It neither begins nor ends a list.
    pub beside: bool,
    /// What is on it, in order.
    pub offers: &'a [Offer<'a>],
}

/// What a page shows of one item.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The connection that offers it: another one than the page's where [`ChangeKind::Shadowing`], and it may be where
    /// [`ChangeKind::Ordering`].
    pub connection: ConnectionId,
    /// What it is about.
    pub item: Item,
    /// Hash of its definition; that seen last where it was removed.
    pub hash: String,
    /// What is to be said.
    pub kind: ChangeKind,
    /// How it stands to its pin now.
    pub pin: PinState,
    /// What its name has against it, where that was not said on this connection. Most have nothing, and a list is long.
    pub finding: Option<Box<Finding>>,
    /// Whether the same list has another definition of its name: nobody knows which of them the client takes.
    pub contradicts: bool,
    /// Whether somebody approved this definition.
    pub approved: bool,
    /// Whether somebody said that it must not be used.
    pub denied: bool,
    /// Whether there is no pin that it could be compared with, nor room for one: nobody knows whether it has changed. Or its name
    /// is not compared with those of the session's other servers: nobody knows whether it shadows one.
    pub is_uncompared: bool,
}

/// What happened to an item.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeKind {
    /// It was never seen before, by anyone with these pins.
    New,
    /// It was, and what there is to say was said. `pin` of the [`Change`] tells whether it is as it should be.
    Seen,
    /// Its definition is another one than the pinned one, for the first time; where nothing is pinned, than the one
    /// before.
    Changed {
        /// Hash of that one.
        previous_hash: String,
        /// What is different.
        diff: Diff,
    },
    /// Its definition is the pinned one again, after a changed one; once for each of those.
    Restored {
        /// Hash of that one.
        previous_hash: String,
    },
    /// A whole list lacks it, and so does what any other connection to the same server read since this one began.
    Removed,
    /// A server whose pin is older has come with its name.
    Shadowing,
    /// It orders something about the tool of another server.
    Ordering,
}

/// What follows from a page.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    /// One for each item, in the order of the page; those that were removed after it, by name.
    pub changes: Vec<Change>,
    /// Items that are not compared with pins since there were too many.
    pub refused: usize,
    /// The version that listed some of these items last, where it is another one than this.
    pub previous_version: Option<String>,
    /// The store failed. What is in `changes` holds; what the store did not take is handed in again with the next
    /// page. Where pins could not be read, every item is unpinned until they can.
    pub error: Option<StoreError>,
}

impl Outcome {
    /// The pins that were made are kept nowhere.
    pub(super) fn forget_new(&mut self) {
        for change in self.changes.iter_mut().filter(|change| change.kind == ChangeKind::New) {
            (change.kind, change.pin, change.is_uncompared) = (ChangeKind::Seen, PinState::Unpinned, true);
            self.refused += 1;
        }
    }

    pub(in crate::registry) fn note<T>(&mut self, answer: Result<T, StoreError>) -> Option<T> {
        answer.map_err(|error| self.error.get_or_insert(error).clone()).ok()
    }
}
