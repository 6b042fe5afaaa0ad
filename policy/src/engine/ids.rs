//! Numbers under which parts of the engine keep what others refer to. Each is given once.

/// A held message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct HeldId(pub(super) u64);

/// A request that went over several connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LinkId(pub(super) u64);

/// A request for the approval of a tool, by the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ApprovalId(pub(super) u64);
