//! The gate: what user space tells it, and the record of what it did to a write.

/// How the gate is set: the one value of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateSettings {
    /// Which of the two tables counts.
    pub half: u32,
    /// `GATE_OFF`, [`GATE_NEUTRALIZE`] or [`GATE_DENY`].
    pub mode: u32,
    /// Whether a write is refused of which nobody can tell what it asks for.
    pub refuse_undecided: u32,
    /// How much of one write is read. Bytes.
    pub window: u32,
}

/// Nothing is judged.
pub const GATE_OFF: u32 = 0;
/// One byte of what is denied is overwritten, so that its server refuses it; where that cannot be, the write is refused.
pub const GATE_NEUTRALIZE: u32 = 1;
/// A write in which something is denied is refused.
pub const GATE_DENY: u32 = 2;
/// Most that a window can be. Bytes.
pub const GATE_WINDOW_MOST: u32 = 65_536;

/// Servers at an address or a name that are known when a connection to them is made.
pub const GATE_ENDPOINTS_MOST: u32 = 1_024;

/// What a connection is. One that is not known is not judged.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateMember {
    /// Which subject, by table.
    pub subjects: [u32; 2],
    /// Which session it belongs to; 0: none, and the rules across servers do not count.
    pub session: u32,
    /// Which server of that session it goes to.
    pub server: u32,
    /// Whose bucket calls take their tokens from: a number for each user's server.
    pub bucket: u64,
    /// Which subject while it is blocked by hand, by table.
    pub blocked: [u32; 2],
    /// Until when that is; nanoseconds since boot.
    pub blocked_until_ns: u64,
    /// How its messages are framed: [`GATE_LINES`] or [`GATE_HTTP`].
    pub framing: u32,
    /// Always 0.
    pub zero: u32,
}

/// Messages are lines.
pub const GATE_LINES: u32 = 0;
/// Messages are bodies of HTTP/1.1 requests.
pub const GATE_HTTP: u32 = 1;

/// Which bucket tokens are taken from.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateBucket {
    /// [`GateMember::bucket`]
    pub server: u64,
    /// The hash of a tool's name; 0 for the server's own.
    pub tool: u64,
}

/// Which calls are counted together: of one server of one session.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateCaller {
    /// [`GateMember::session`]
    pub session: u32,
    /// [`GateMember::server`]
    pub server: u32,
}

/// What a table says of a connection that it does not know.
pub const GATE_NOBODY: u32 = u32::MAX;

/// What is written in place of the byte that is overwritten: a letter of no name, and of every JSON string.
pub const NEUTRAL_BYTE: u8 = 0x7F;

/// The gate did something to a write, or could not tell: [`GateInfo`] follows. `offset` is where in the stream: of the
/// byte that was overwritten, else of the write.
pub const RECORD_GATE: u8 = 8;
/// Bytes of a write that is refused follow; they are no part of the stream. Its [`RECORD_GATE`] comes behind the last of
/// them.
pub const RECORD_REFUSED: u8 = 9;
/// The gate rewrites bytes of a write: [`GATE_TEXT_BYTES`] of which the first `value` are the text that takes the place of a
/// name, and then the bytes of the client from `offset` of the stream on. Its [`RECORD_GATE`] comes behind it.
pub const RECORD_REWRITTEN: u8 = 10;

/// Follows the header of a [`RECORD_GATE`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateInfo {
    /// Of how many bytes the write was; of a vector whose end lies beyond the window, how many were read.
    pub bytes: u64,
    /// The table that judged.
    pub generation: u32,
    /// What the table says.
    pub outcome: u16,
    /// One of the `GATE_PASSED`, … constants.
    pub action: u8,
    /// One of the `GATE_BECAUSE_…` constants.
    pub because: u8,
    /// The byte that was overwritten.
    pub original: u8,
    /// Whether more than that was: the name, and the arguments, by a text. A [`RECORD_REWRITTEN`] came before.
    pub is_rewritten: u8,
    /// Always 0.
    pub zero: [u8; 6],
}

/// Most bytes of a text that takes the place of a name.
pub const GATE_TEXT_BYTES: usize = 96;
/// How many forms a text has; a power of two.
pub const GATE_TEXT_FORMS: usize = 4;
/// How many texts there are; a power of two.
pub const GATE_TEXTS_MOST: usize = 64;
/// What follows the text where arguments are rewritten as well; blanks follow, to their end.
pub const GATE_TEXT_TAIL: [u8; 16] = *b"\",\"arguments\":{}";

/// Why a call was denied, for whoever called: letters of a JSON string that stand for themselves.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateText {
    /// How long each form is; 0: there is none.
    pub lengths: [u32; GATE_TEXT_FORMS],
    /// The forms, the longest first: the first takes effect that there is room for.
    pub forms: [[u8; GATE_TEXT_BYTES]; GATE_TEXT_FORMS],
}

impl GateText {
    /// None, so that one byte is overwritten.
    pub const NONE: Self =
        Self { lengths: [0; GATE_TEXT_FORMS], forms: [[0; GATE_TEXT_BYTES]; GATE_TEXT_FORMS] };
}

/// The texts of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateTexts {
    /// Which text, by the number of the outcome.
    pub of_outcome: [u8; GATE_OUTCOMES],
    /// Which text, by what the calls before say: one of the gate's `BY_…` constants.
    pub of_calls: [u8; 16],
    /// By number; the first is that of whatever is not told apart.
    pub texts: [GateText; GATE_TEXTS_MOST],
}

/// Outcomes that a table tells apart; a power of two.
pub const GATE_OUTCOMES: usize = 4_096;

/// Size of what the kernel half knows of a connection that is judged; of 8 bytes each.
pub const GATED_WORDS: usize = 222;

/// The write was let through, though nobody can tell what it asks for.
pub const GATE_PASSED: u8 = 0;
/// One byte of it was overwritten.
pub const GATE_NEUTRALIZED: u8 = 1;
/// It was refused.
pub const GATE_REFUSED: u8 = 2;
/// Bytes were written past every hook.
pub const GATE_UNSEEN: u8 = 3;

/// What the table says of it.
pub const GATE_BECAUSE_TABLE: u8 = 0;
/// It was longer than the window.
pub const GATE_BECAUSE_LONG: u8 = 1;
/// It followed one that was not read to its end, and nothing ended a line since.
pub const GATE_BECAUSE_LOST: u8 = 2;
/// Its bytes could not be read.
pub const GATE_BECAUSE_UNREADABLE: u8 = 3;
/// Its bytes are nowhere that the gate knows: io_uring, or a call that it does not know.
pub const GATE_BECAUSE_UNKNOWN: u8 = 4;
/// Another write on the same channel had not returned.
pub const GATE_BECAUSE_RACE: u8 = 5;
/// The table changed while it was read.
pub const GATE_BECAUSE_CHANGED: u8 = 6;
/// There is no room to remember calls.
pub const GATE_BECAUSE_FORGOTTEN: u8 = 7;
/// They never lay in the client's memory, or only by reference.
pub const GATE_BECAUSE_UNSEEN: u8 = 8;
/// They were written, and the kernel did not ask the gate: it left out the program, or the hook.
pub const GATE_BECAUSE_MISSED: u8 = 9;
/// Its HTTP cannot be read, or can be read in more than one way.
pub const GATE_BECAUSE_HTTP: u8 = 10;
/// It has a body in a coding (`Content-Encoding`).
pub const GATE_BECAUSE_CODED: u8 = 11;
/// With one of the gate's `BY_…` constants: the calls before it say so.
pub const GATE_BECAUSE_CALLS: u8 = 32;
/// Set beside any of these: the byte could not be overwritten.
pub const GATE_NOT_NEUTRALIZABLE: u8 = 128;
