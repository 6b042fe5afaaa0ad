//! Frames as they were seen.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::guard::Verdict;
use crate::http::HttpMeta;
use crate::terms::{ConnectionId, Direction, Timestamp};

/// A frame: where it was seen, and what is known of it besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) connection: ConnectionId,
    pub(super) direction: Direction,
    pub(super) time: Timestamp,
    /// Its length.
    pub(super) bytes: u64,
    pub(super) now: Timestamp,
    /// What became of it, where the gate stopped it.
    pub(super) stop: Option<Stop>,
    /// The turn of the model that it belongs to, where a recording names it.
    pub(super) turn: Option<&'a str>,
    /// The JSON-RPC id of the request that it is or answers, as it is recorded, once it is at hand.
    pub(super) id: Option<&'a Value>,
    /// The id of the request that an answer is of in the end, if that is another: its first try, or the call that became a task.
    pub(super) began: Option<&'a Value>,
    /// Who takes it for what it is taken for here.
    pub(super) reading: Reading<'a>,
}

impl Seen<'_> {
    /// The same frame, as another reader takes it.
    pub(super) fn by_another(self) -> Self {
        Self { reading: Reading { is_other: true, respelled: None, ..self.reading }, ..self }
    }

    /// A frame of so many bytes, of which nothing else is known.
    pub(super) fn new(
        connection: ConnectionId,
        direction: Direction,
        bytes: u64,
        time: Timestamp,
        now: Timestamp,
    ) -> Self {
        let (stop, turn, id, began, reading) = (None, None, None, None, Reading::default());
        Self { connection, direction, time, bytes, now, stop, turn, id, began, reading }
    }
}

/// How a message is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading<'a> {
    /// Whether some readers do not take it at all.
    pub(super) is_irregular: bool,
    /// Whether another reader takes the same message for another one, which was taken before.
    pub(super) is_other: bool,
    /// The result, as it is for readers that do not regard case, where that is another one.
    pub(super) respelled: Option<&'a RawValue>,
    /// What its request was answered before.
    pub(super) earlier: Earlier,
    /// What the head of its request says, over HTTP.
    pub(super) http: Option<&'a HttpMeta>,
}

/// The answer before another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Earlier {
    /// There is none.
    #[default]
    None,
    /// Some clients take it and some do not.
    Uncertain,
    /// Every client has taken it.
    Taken,
}

/// What became of a frame that the gate stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    /// Nothing of it reached its server: nobody answers.
    pub(super) is_refused: bool,
    /// It is the only message of its frame.
    is_alone: bool,
}

impl Stop {
    /// The gate stopped this frame.
    pub(super) fn of(frame: &[u8], is_refused: bool) -> Self {
        Self { is_refused, is_alone: frame.first() != Some(&b'[') }
    }

    /// Whether the gate stopped a message of that frame, of which the guards say this. Of several that were neutralized one
    /// by one, those were that the guards deny, too.
    pub(super) fn stops(self, verdict: &Verdict) -> bool {
        self.is_refused || self.is_alone || verdict.denied.is_some()
    }
}
