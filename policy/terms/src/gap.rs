//! Why bytes of a stream were not captured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why bytes are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GapCause {
    /// The ring between the kernel and the agent was full.
    RingFull,
    /// `splice(2)` moved them.
    Splice,
    /// `vmsplice(2)` moved them.
    Vmsplice,
    /// `tee(2)` copied them.
    Tee,
    /// `sendfile(2)` moved them.
    Sendfile,
    /// io_uring moved them through a registered buffer.
    IoUringFixed,
    /// The memory they were in could not be read.
    Unreadable,
    /// The server took more than was seen going in, or wrote more than was seen coming out and does not wait to be
    /// read: nobody knows how they got there.
    Unseen,
    /// The server wrote them, and at the end of the connection nobody was seen to have read them: they were thrown
    /// away with it, or taken in a way that cannot be seen.
    Unread,
    /// What is captured of a candidate whose first request has not been seen, or begins with what no message does, is
    /// bounded. They were beyond.
    CandidateBudget,
    /// The bound on what waits to be whole (unfinished frames, records that wait for an earlier one) was reached.
    Memory,
    /// The user had more waiting for the agent than there was free capacity: the user's share was used up.
    UserShare,
    /// A frame is longer than `capture.max_message_bytes`.
    TooLong,
    /// They were in the pipe before the agent (or the candidate) was.
    StartedLate,
    /// The beginning of a message of which the rest had not come when the agent ended; the one after it goes on behind them
    /// (`enforcement.persist`). Or the agent had captured them, and had no time left to read them.
    AgentEnded,
}
