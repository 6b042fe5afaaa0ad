//! What the gate knows: its tables, and what was read of each channel.
//!
//! Everything that is read of a write lies in the channel's entry of [`GATED`]: the verifier knows nothing of the numbers
//! in a map's value, and so goes through a byte's step once, whatever came before.

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST},
    macros::map,
    maps::{Array, HashMap},
};
use mcpwarden_abi::{
    ConnectionId, Counter, Endpoint, GATE_ENDPOINTS_MOST, GATE_HTTP, GATE_LINES, GATED_WORDS, GateMember,
    GateSettings, GateTexts, SOCKET,
};
use mcpwarden_gate::{Chunk, ENTRIES, Head, HttpRequests, Marks, Number, Rewrite, Scan, Subject};

use crate::{
    source::{Source, User},
    tables,
};

/// How the gate is set.
#[map(name = "GATE_SETTINGS")]
pub static SETTINGS: Array<GateSettings> = Array::with_max_entries(1, 0);

/// What is said of all, of each table.
#[map(name = "GATE_HEADS")]
pub static HEADS: Array<Head> = Array::with_max_entries(2, 0);

/// The automaton of each table.
#[map(name = "GATE_NEXT")]
pub static NEXT: Array<[u16; ENTRIES]> = Array::with_max_entries(2, 0);

/// What is said of calls that are denied, of each table.
#[map(name = "GATE_TEXTS")]
pub static TEXTS: Array<GateTexts> = Array::with_max_entries(2, 0);

/// Which connections are judged, and as what. User space alone writes it.
#[map(name = "GATE_MEMBERS")]
pub static MEMBERS: HashMap<ConnectionId, GateMember> = HashMap::with_max_entries(8_192, BPF_F_NO_PREALLOC);

/// What connections are of which user space has said nothing yet, by where they lead.
/// User space alone writes it.
#[map(name = "GATE_ENDPOINTS")]
pub static ENDPOINTS: HashMap<Endpoint, GateMember> =
    HashMap::with_max_entries(GATE_ENDPOINTS_MOST, BPF_F_NO_PREALLOC);

/// What was read of each channel; made with its first write. User space takes out those of connections that are gone.
#[map(name = "GATED")]
pub static GATED: HashMap<ConnectionId, Gated> = HashMap::with_max_entries(8_192, BPF_F_NO_PREALLOC);

/// Most messages that are overwritten in one write: of one with more that are denied, all is refused. A power of two; the verifier
/// would take any, and each takes 16 bytes for each channel.
pub const OVERWRITES: usize = 64;
/// Most calls of a write that are known again when it is written anew. A power of two.
pub const CHARGED: usize = 8;

/// What is known of a channel.
#[repr(C)]
pub struct Gated {
    /// Which thread writes, in the lower half, and since when, in the upper one: taken and given back in one operation. 0 where
    /// no write is on its way.
    pub owner: Number,
    /// Which thread did last; 0: none did.
    pub last: u32,
    /// Which had it for too long, and lost it to one that wrote nothing since; 0: none.
    pub displaced: u32,
    /// Where in the stream its write begins; once it has returned, where the next one does. What capture knows is behind that for
    /// as long as its program for the same write has not run.
    pub position: u64,
    /// Of how many bytes it is, where that is known; 0 once it has returned.
    pub length: u64,
    /// What was read of all that was written.
    pub before: Scan,
    /// The same with the write that is on its way.
    pub after: Scan,
    /// Where in a request the next byte is, of a connection that speaks HTTP.
    pub http_before: HttpRequests,
    /// The same with the write that is on its way.
    pub http_after: HttpRequests,
    /// Whether something was written that nobody read, and nothing ended a line since, or began a request.
    pub lost: u32,
    /// The same with the write that is on its way.
    pub lost_after: u32,
    /// Whether that was read to its end.
    pub is_read: u32,
    /// Always 0.
    pub zero: u32,
    /// Whose calls these are, as it was when the write began: user space can change or remove what is in its table.
    pub member: GateMember,
    pub rewriting: Rewriting,
    pub reading: Reading,
}

/// What of a message is to be rewritten, and by what.
#[repr(C)]
pub struct Rewriting {
    /// The first byte, and the one behind the last.
    pub from: User,
    pub to: User,
    /// Where the next bytes lie that its end is looked for in, and where they end.
    pub next: User,
    pub end: User,
    pub rewrite: Rewrite,
    /// How long the text is.
    pub length: u32,
    /// Which text of which half of the tables, and which of its forms.
    pub half: u8,
    pub text: u8,
    pub form: u8,
    /// Whether arguments are among what is rewritten.
    pub has_arguments: u8,
}

/// An entry as it is put into the table. All zeros.
static FRESH: [u64; GATED_WORDS] = [0; GATED_WORDS];
const _: () = assert!(size_of::<Gated>() == 8 * GATED_WORDS);

/// How far a write is read, and what was found.
#[repr(C)]
pub struct Reading {
    /// Where the first byte of `chunk` lies, or of what comes next.
    pub address: User,
    /// What the buffer at hand has from there on.
    pub left: u64,
    /// The next buffer of a vector.
    pub index: u64,
    pub source: Source,
    /// Where the last letter of a name lies, and of a method: those of `marks`, where they are not in `chunk`.
    pub name_at: User,
    pub method_at: User,
    /// The position of the first byte of `chunk` in the write: how many were read, once all were.
    pub position: u32,
    /// The same of the buffer at hand: its first byte.
    pub buffer_position: u32,
    /// No more than so many bytes are read.
    pub limit: u32,
    pub marks: Marks,
    /// The next byte of `chunk`, and how many it has.
    pub at: u32,
    pub end: u32,
    /// Whether all was read; else `because` says why not.
    pub complete: u32,
    pub because: u32,
    /// How the gate is set.
    pub mode: u32,
    pub refuse_undecided: u32,
    /// What the write is to be refused for.
    pub refuse: Why,
    /// What nobody can tell, and is let through.
    pub undecided: Why,
    /// How many calls there are.
    pub calls: u32,
    /// So many of them were judged before, and not written: which, by the hashes of their tools, from this position on in a ring.
    pub charged: u32,
    pub charged_from: u32,
    pub charged_of: [u32; CHARGED],
    /// How many of `overwrite` there are.
    pub overwrites: u32,
    /// Whether calls are judged; else they were, and are only read again. (Not a pointer that may be none: the verifier
    /// forgets numbers on the stack that it has not looked at, and so what it is.)
    pub judges: u32,
    /// Whether these are requests of HTTP/1.1.
    pub is_http: u32,
    /// Whether the bytes at hand belong to no body that is read.
    pub is_head: u32,
    /// What was said of the last byte.
    pub verdict: Verdict,
    pub overwrite: [Overwrite; OVERWRITES],
    pub chunk: Chunk,
}

/// Why something is done.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Why {
    pub outcome: u16,
    /// One of the `GATE_BECAUSE_…` constants.
    pub because: u8,
    /// 0: it is not.
    pub is_given: u8,
}

impl Why {
    pub const NOT: Self = Self { outcome: 0, because: 0, is_given: 0 };

    #[inline(always)]
    pub fn new(outcome: u16, because: u8) -> Self {
        Self { outcome, because, is_given: 1 }
    }
}

/// What is said of a message, until it is judged.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Verdict {
    pub outcome: u16,
    pub is_call: u8,
    /// 0: it was.
    pub is_new: u8,
    pub position: u32,
    /// What arguments tell, where they decide.
    pub bits: u16,
    pub unknown: u16,
}

impl Verdict {
    pub const NOTHING: Self = Self { outcome: 0, is_call: 0, is_new: 0, position: 0, bits: 0, unknown: 0 };
}

/// A byte to overwrite.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Overwrite {
    pub address: User,
    pub position: u32,
    pub why: Why,
}

/// What a step needs. Nothing of it changes from one to the next.
pub struct Walk {
    pub gated: *mut Gated,
    pub head: *const Head,
    pub next: *const [u16; ENTRIES],
    pub subject: *const Subject,
    /// Whose calls these are.
    pub member: *const GateMember,
    /// When.
    pub now: u64,
}

/// What a connection is in this half of the table, and whether that is since it is blocked by hand, which ends with nobody's help.
#[inline(always)]
pub fn subject_of(member: *const GateMember, half: u32, now: u64) -> (u32, bool) {
    let half = half as usize & 1;
    // SAFETY: a live map value, which user space may write at any time.
    unsafe {
        if now < core::ptr::read_volatile(&raw const (*member).blocked_until_ns) {
            (core::ptr::read_volatile(&raw const (*member).blocked[half]), true)
        } else {
            (core::ptr::read_volatile(&raw const (*member).subjects[half]), false)
        }
    }
}

/// What a connection is: as user space has said, or, until it does, by where it leads.
#[inline(always)]
pub fn member(id: ConnectionId, number: ConnectionId) -> Option<*const GateMember> {
    if let Some(member) = MEMBERS.get_ptr(number) {
        return Some(member);
    }
    if id & SOCKET == 0 {
        return None;
    }
    let socket = tables::socket(id)?;
    // SAFETY: a live map value.
    ENDPOINTS.get_ptr(unsafe { &(*socket).endpoint })
}

/// Whether a server is known where this leads that is spoken to in lines.
#[inline(always)]
pub fn is_server(endpoint: &Endpoint) -> bool {
    // SAFETY: a live map value.
    ENDPOINTS.get_ptr(endpoint).is_some_and(|member| unsafe { (*member).framing } == GATE_LINES)
}

/// What is known of a connection's channel.
#[inline(always)]
pub fn gated(id: ConnectionId) -> Option<*mut Gated> {
    if let Some(known) = GATED.get_ptr_mut(id) {
        return Some(known);
    }
    // SAFETY: all zeros are a channel of which nothing was read.
    let fresh = unsafe { &*(&raw const FRESH).cast::<Gated>() };
    if GATED.insert(id, fresh, BPF_NOEXIST as u64).is_err() {
        tables::count(Counter::GatedRefused, 1);
    }
    GATED.get_ptr_mut(id)
}

/// What is read next is read as what follows all that was written.
///
/// # Safety
/// A live map value, which this write has claimed.
#[inline(always)]
pub unsafe fn begin_after(gated: *mut Gated) {
    // SAFETY: the caller's.
    unsafe {
        (*gated).after = (*gated).before;
        (*gated).http_after = (*gated).http_before;
        if (*gated).member.framing == GATE_HTTP {
            (*gated).after.read_bodies();
        }
    }
}

/// A write went to its end: what was read of it counts.
///
/// # Safety
/// A live map value, which this write has claimed.
#[inline(always)]
pub unsafe fn written_whole(gated: *mut Gated) {
    // SAFETY: the caller's.
    unsafe {
        (*gated).before = (*gated).after;
        (*gated).http_before = (*gated).http_after;
        (*gated).lost = (*gated).lost_after;
        (*gated).reading.uncharge();
    }
}
