//! How a write is read before it is written, and what is found in it.

use aya_ebpf::helpers::generated::bpf_loop;
use core::ffi::c_void;
use mcpwarden_abi::{
    GATE_BECAUSE_CALLS, GATE_BECAUSE_FORGOTTEN, GATE_BECAUSE_LONG, GATE_BECAUSE_TABLE,
    GATE_BECAUSE_UNREADABLE, GATE_NEUTRALIZE, GateMember, GateSettings,
};
use mcpwarden_gate::{
    BY_FORGOTTEN, BY_NOTHING, BY_WHAT_IT_MAY_DO, Call, DENY, ENTRIES, Head, Marks, NOWHERE, Subject,
    UNDECIDED, View,
};

use super::{Gated, history};
use crate::source::{Source, User, read, read_bytes};

/// Most bytes that are overwritten in one write: of one with more that is denied, all is refused.
pub const SPOILS: usize = 4;
/// Most calls of a write that are known again when it is written anew. A power of two.
const CHARGED: usize = 8;
/// How much of a buffer is read at once. Bytes; a power of two.
const CHUNK: usize = 256;
/// `UIO_MAXIOV` (`linux/uio.h`)
const MOST_BUFFERS: u32 = 1024;

/// How far a write is read, and what was found.
#[repr(C)]
pub struct Reading {
    /// Where the next byte lies.
    address: User,
    /// What is left of the buffer at hand.
    left: u64,
    /// The next buffer of a vector.
    index: u64,
    source: Source,
    /// Where the last letter of a name lies, and of a method: those of `marks`.
    name_at: User,
    method_at: User,
    /// The next byte's place in the write: how many were read.
    pub place: u32,
    /// No more than so many bytes are read.
    limit: u32,
    marks: Marks,
    /// The next byte of `chunk`, and how many it has.
    at: u32,
    end: u32,
    /// Whether all was read; else `because` says why not.
    pub complete: u32,
    pub because: u32,
    /// How the gate is set.
    mode: u32,
    refuse_undecided: u32,
    /// What the write is to be refused for.
    pub refuse: Why,
    /// What nobody can tell, and is let through.
    pub undecided: Why,
    /// How many calls there are.
    calls: u32,
    /// So many of them were judged before, and not written: which, by the hashes of their tools, from this place on in a ring.
    charged: u32,
    charged_from: u32,
    charged_of: [u32; CHARGED],
    /// How many of `spoil` there are.
    pub spoils: u32,
    /// Whether calls are judged; else they were, and are only read again. (Not a pointer that may be none: the verifier
    /// forgets numbers on the stack that it has not looked at, and so what it is.)
    judges: u32,
    /// What was said of the last byte.
    said: Told,
    pub spoil: [Spoil; SPOILS],
    chunk: [u64; CHUNK / 8],
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
    const NOT: Self = Self { outcome: 0, because: 0, is_given: 0 };

    #[inline(always)]
    pub fn new(outcome: u16, because: u8) -> Self {
        Self { outcome, because, is_given: 1 }
    }
}

/// What is said of a message, until it is judged.
#[repr(C)]
#[derive(Clone, Copy)]
struct Told {
    outcome: u16,
    is_call: u8,
    /// 0: it was.
    is_new: u8,
    place: u32,
}

impl Told {
    const NOTHING: Self = Self { outcome: 0, is_call: 0, is_new: 0, place: 0 };
}

/// A byte to overwrite.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Spoil {
    pub address: User,
    pub place: u32,
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

impl Reading {
    /// Nothing is read yet.
    #[inline(always)]
    pub fn begin(&mut self, source: Source, length: u64, limit: u32, judges: bool) {
        self.source = source;
        self.judges = judges as u32;
        (self.address, self.left) = if source.buffers == 0 { (source.address, length) } else { (0, 0) };
        self.index = 0;
        (self.name_at, self.method_at) = (0, 0);
        (self.place, self.limit) = (0, limit);
        self.marks = Marks::NONE;
        (self.at, self.end) = (0, 0);
        (self.complete, self.because) = (0, GATE_BECAUSE_LONG as u32);
        (self.refuse, self.undecided) = (Why::NOT, Why::NOT);
        (self.calls, self.spoils) = (0, 0);
        self.said = Told::NOTHING;
    }

    /// How what is found is to be judged.
    #[inline(always)]
    pub fn set(&mut self, settings: &GateSettings) {
        (self.mode, self.refuse_undecided) = (settings.mode, settings.refuse_undecided);
    }

    /// Whether the call at hand is one that was not judged before; it is from now on.
    #[inline(always)]
    fn is_first(&mut self, tool: u64) -> bool {
        let (index, tool) = (self.calls, (tool ^ tool >> 32) as u32);
        if index >= CHARGED as u32 {
            return true;
        }
        let slot = self.charged_from.wrapping_add(index) as usize & (CHARGED - 1);
        if index < self.charged && self.charged_of[slot] == tool {
            return false;
        }
        self.charged_of[slot] = tool;
        // What was behind it is another write's.
        self.charged = index + 1;
        true
    }

    /// No call waits to be written again.
    #[inline(always)]
    pub fn uncharge(&mut self) {
        self.charged = 0;
    }

    /// Those that were read now were written.
    #[inline(always)]
    pub fn charge_less(&mut self) {
        self.charged = self.charged.saturating_sub(self.calls);
        self.charged_from = self.charged_from.wrapping_add(self.calls);
    }

    /// So many bytes at hand were read; remembers where the last lies, if it is one that can be spoilt.
    #[inline(always)]
    fn go_on(&mut self, bytes: u32) {
        let (place, address) = (self.place + bytes - 1, self.address + bytes as u64 - 1);
        if self.marks.name == place {
            self.name_at = address;
        }
        if self.marks.method == place {
            self.method_at = address;
        }
        self.at += bytes;
        self.address += bytes as u64;
        self.left -= bytes as u64;
        self.place += bytes;
    }

    /// A message must not be written, or nobody can tell.
    #[inline(always)]
    fn note(&mut self, is_denied: bool, place: u32, why: Why) {
        if !is_denied && self.refuse_undecided == 0 {
            self.undecided = why;
            return;
        }
        if self.mode == GATE_NEUTRALIZE && place != NOWHERE {
            let count = self.spoils as usize;
            if count > 0 && self.spoil[(count - 1) & (SPOILS - 1)].place == place {
                return;
            }
            if count < SPOILS {
                let address = if place == self.marks.name { self.name_at } else { self.method_at };
                self.spoil[count & (SPOILS - 1)] = Spoil { address, place, why };
                self.spoils += 1;
                return;
            }
        }
        if self.refuse.is_given == 0 {
            self.refuse = why;
        }
    }
}

impl Walk {
    #[inline(always)]
    pub fn run(&self, limit: u32) {
        // What is said of a byte takes a step of its own.
        let steps = limit.saturating_mul(2).saturating_add(MOST_BUFFERS).saturating_add(4);
        // SAFETY: the callback's signature is the one bpf_loop wants, and `self` outlives the call.
        unsafe {
            bpf_loop(steps, step as *mut c_void, (&raw const *self).cast_mut().cast(), 0);
        }
    }
}

/// One step of a walk: the next letters of a string, the next byte, or the next buffer. Returns 1 to end the loop.
unsafe extern "C" fn step(_index: u64, context: *mut c_void) -> i64 {
    // SAFETY: bpf_loop hands back the pointer that `run` gave it, and what it points at is live.
    let walk = unsafe { &*context.cast::<Walk>() };
    // SAFETY: a live map value, which this write has claimed.
    let (reading, after) = unsafe { (&mut (*walk.gated).reading, &mut (*walk.gated).after) };
    if reading.said.is_new != 0 {
        judge(walk, reading, after.name_hash());
        return 0;
    }
    if reading.left == 0 {
        if reading.index >= reading.source.buffers {
            reading.complete = 1;
            return 1;
        }
        let Some((address, length)) = reading.source.at(reading.index) else {
            reading.because = GATE_BECAUSE_UNREADABLE as u32;
            return 1;
        };
        reading.index += 1;
        (reading.address, reading.left) = (address, length);
        (reading.at, reading.end) = (0, 0);
        return 0;
    }
    if reading.at >= reading.end {
        let ahead = (reading.limit - reading.place) as u64;
        let most = if ahead < CHUNK as u64 { ahead } else { CHUNK as u64 };
        let bytes = if reading.left < most { reading.left } else { most };
        if bytes == 0 {
            return 1;
        }
        if !read_bytes((&raw mut reading.chunk).cast::<[u8; CHUNK]>(), bytes, reading.address) {
            reading.because = GATE_BECAUSE_UNREADABLE as u32;
            return 1;
        }
        (reading.at, reading.end) = (0, bytes as u32);
    }
    // SAFETY: live map values.
    let (view, subject) = unsafe { (View { head: &*walk.head, next: &*walk.next }, &*walk.subject) };
    let letters =
        after.letters(&view, &mut reading.marks, &reading.chunk, reading.at, reading.end, reading.place);
    if letters > 0 {
        // What follows takes a step of its own: the verifier would go through it once for every number of letters.
        reading.go_on(letters);
        return 0;
    }
    let word = reading.chunk[(reading.at >> 3) as usize & (CHUNK / 8 - 1)];
    let byte = (word >> ((reading.at & 7) << 3)) as u8;
    let said = after.step(&view, subject, &mut reading.marks, byte, reading.place);
    if said.is_call || said.outcome & (DENY | UNDECIDED) != 0 {
        reading.said =
            Told { outcome: said.outcome, is_call: said.is_call as u8, is_new: 1, place: said.place };
    }
    reading.go_on(1);
    0
}

/// Judges what was told of the last byte. In a step of its own, so that the verifier does not go through it once for every way
/// through a byte's.
#[inline(always)]
fn judge(walk: &Walk, reading: &mut Reading, tool: u64) {
    let said = reading.said;
    reading.said.is_new = 0;
    let mut by = BY_NOTHING;
    if said.is_call != 0 {
        if reading.judges != 0 {
            // SAFETY: a live map value.
            let server = unsafe { (*walk.member).server };
            let is_first = reading.is_first(tool);
            let (outcome, is_strict, now) = (said.outcome, reading.refuse_undecided != 0, walk.now);
            by = history::judge(walk, &Call { outcome, tool, server, is_first, is_strict, now });
        }
        reading.calls += 1;
    }
    if said.outcome & (DENY | UNDECIDED) != 0 {
        let is_denied = said.outcome & DENY != 0;
        reading.note(is_denied, said.place, Why::new(said.outcome, GATE_BECAUSE_TABLE));
    }
    if by != BY_NOTHING && said.outcome & DENY == 0 {
        let is_denied = by != BY_WHAT_IT_MAY_DO && by != BY_FORGOTTEN;
        let because = if by == BY_FORGOTTEN { GATE_BECAUSE_FORGOTTEN } else { GATE_BECAUSE_CALLS + by };
        reading.note(is_denied, said.place, Why::new(said.outcome, because));
    }
}

/// Whether the last byte is a line feed.
#[inline(always)]
pub fn ends_a_line(source: &Source, length: u64) -> bool {
    let last = if source.buffers == 0 {
        source.address.wrapping_add(length)
    } else {
        match source.at(source.buffers - 1) {
            Some((address, length)) if length > 0 => address.wrapping_add(length),
            _ => return false,
        }
    };
    read::<u8>(last.wrapping_sub(1)) == Some(b'\n')
}
