//! How a write is read before it is written, and what is found in it.

use aya_ebpf::helpers::generated::bpf_loop;
use core::ffi::c_void;
use mcpwarden_abi::{
    GATE_BECAUSE_CALLS, GATE_BECAUSE_CODED, GATE_BECAUSE_FORGOTTEN, GATE_BECAUSE_HTTP, GATE_BECAUSE_LONG,
    GATE_BECAUSE_TABLE, GATE_BECAUSE_UNREADABLE, GATE_NEUTRALIZE, GateSettings,
};
use mcpwarden_gate::{
    BY_FORGOTTEN, BY_NOTHING, BY_WHAT_IT_MAY_DO, CHUNK_BYTES, CODED, Call, DENY, Decision, END, FAULT,
    HttpRequests, Marks, NOWHERE, Scan, UNDECIDED, View,
};

use super::{
    history,
    state::{CHARGED, OVERWRITES, Overwrite, Reading, Verdict, Walk, Why},
};
use crate::source::{Source, User, read, read_bytes};

/// `UIO_MAXIOV` (`linux/uio.h`)
const MOST_BUFFERS: u32 = 1024;

impl Reading {
    /// Nothing is read yet. The last: whether calls are judged, and whether they are in requests of HTTP.
    #[inline(always)]
    pub fn begin(&mut self, source: Source, length: u64, limit: u32, (judges, is_http): (bool, bool)) {
        self.source = source;
        self.judges = judges as u32;
        (self.is_http, self.is_head) = (is_http as u32, 0);
        (self.address, self.left) = if source.buffers == 0 { (source.address, length) } else { (0, 0) };
        self.index = 0;
        (self.name_at, self.method_at) = (0, 0);
        (self.position, self.buffer_position, self.limit) = (0, 0, limit);
        self.marks = Marks::NONE;
        (self.at, self.end) = (0, 0);
        (self.complete, self.because) = (0, GATE_BECAUSE_LONG as u32);
        (self.refuse, self.undecided) = (Why::NOT, Why::NOT);
        (self.calls, self.overwrites) = (0, 0);
        self.verdict = Verdict::NOTHING;
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

    /// All bytes at hand were read; remembers where those lie that can be neutralized.
    #[inline(always)]
    fn advance(&mut self) {
        let bytes = self.end;
        if self.marks.name.wrapping_sub(self.position) < bytes {
            self.name_at = self.address_of(self.marks.name);
        }
        if self.marks.method.wrapping_sub(self.position) < bytes {
            self.method_at = self.address_of(self.marks.method);
        }
        self.address += bytes as u64;
        self.left -= bytes as u64;
        self.position += bytes;
        (self.at, self.end) = (0, 0);
    }

    /// Where a byte lies whose position is that of a mark.
    #[inline(always)]
    fn address_of(&self, position: u32) -> User {
        let behind = position.wrapping_sub(self.position);
        if behind < self.end {
            self.address + behind as u64
        } else if position == self.marks.name {
            self.name_at
        } else {
            self.method_at
        }
    }

    /// Remembers what was said of what was read last, until it is judged.
    #[inline(always)]
    fn found(&mut self, said: &Decision) {
        if said.is_call || said.outcome & (DENY | UNDECIDED) != 0 {
            self.verdict = Verdict {
                outcome: said.outcome,
                is_call: said.is_call as u8,
                is_new: 1,
                position: said.place,
                bits: said.bits,
                unknown: said.unknown,
            };
        }
    }

    /// A message must not be written, or nobody can tell.
    #[inline(always)]
    fn note(&mut self, is_denied: bool, position: u32, why: Why) {
        if !is_denied && self.refuse_undecided == 0 {
            self.undecided = why;
            return;
        }
        if self.mode == GATE_NEUTRALIZE && position != NOWHERE {
            let count = self.overwrites as usize;
            if count > 0 && self.overwrite[(count - 1) & (OVERWRITES - 1)].position == position {
                return;
            }
            if count < OVERWRITES {
                let address = self.address_of(position);
                self.overwrite[count & (OVERWRITES - 1)] = Overwrite { address, position, why };
                self.overwrites += 1;
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
        // What is said of a byte takes a step of its own, and so does each buffer, and each chunk of one.
        let steps = limit.saturating_mul(2).saturating_add(limit / 64);
        let steps = steps.saturating_add(2 * MOST_BUFFERS).saturating_add(8);
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
    let (reading, after, http) =
        unsafe { (&mut (*walk.gated).reading, &mut (*walk.gated).after, &mut (*walk.gated).http_after) };
    if reading.verdict.is_new != 0 {
        let verdict = reading.verdict;
        let Verdict { outcome, position: place, bits, unknown, .. } = verdict;
        let said = Decision { outcome, place, is_call: verdict.is_call != 0, bits, unknown };
        // SAFETY: live map values.
        let view = unsafe { View { head: &*walk.head, next: &*walk.next } };
        let said = after.resolve(&view, said);
        judge(walk, reading, after.name_hash(), &said);
        return 0;
    }
    if reading.at >= reading.end {
        if reading.is_http != 0
            && reading.is_head == 0
            && http.is_in_body()
            && http.pass_body(reading.end as u64)
        {
            end_request(reading, after);
        }
        let filled = fill(reading);
        if filled != FILLED {
            return filled;
        }
        if reading.is_http != 0 {
            begin_piece(reading, http);
        }
        after.expect(reading.end);
        if reading.is_http != 0 {
            return 0;
        }
    }
    if reading.is_head != 0 {
        return read_head(reading, after, http);
    }
    let at = reading.at;
    // SAFETY: live map values.
    let (view, subject) = unsafe { (View { head: &*walk.head, next: &*walk.next }, &*walk.subject) };
    let place = reading.position + at;
    let (to, said) = after.tokens(&view, subject, &mut reading.marks, &reading.chunk, at, place);
    if to != at {
        // What follows takes a step of its own: the verifier would go through it once for each way to here.
        reading.at = to;
        reading.found(&said);
        return 0;
    }
    let byte = reading.chunk.byte(at);
    let said = after.step(&view, subject, &mut reading.marks, byte, place);
    reading.at = at + 1;
    reading.found(&said);
    0
}

/// The bytes at hand are those of a body, or of what is around it.
#[inline(always)]
fn begin_piece(reading: &mut Reading, http: &mut HttpRequests) {
    let body = http.body_ahead(reading.chunk.byte(0));
    reading.is_head = (body == 0) as u32;
    if body != 0 && body < reading.end as u64 {
        reading.end = body as u32;
        reading.chunk.end_at(body as u32);
    }
}

/// Reads the next byte of what is around bodies. As [`step`].
#[inline(always)]
fn read_head(reading: &mut Reading, after: &mut Scan, http: &mut HttpRequests) -> i64 {
    let at = reading.at;
    let is = http.step(reading.chunk.byte(at));
    reading.at = at + 1;
    if is & FAULT != 0 {
        reading.because = GATE_BECAUSE_HTTP as u32;
        return 1;
    }
    if is & CODED != 0 {
        reading.note(false, NOWHERE, Why::new(0, GATE_BECAUSE_CODED));
    } else if http.is_in_body() {
        // What follows is read as what it is.
        reading.end = at + 1;
    }
    if is & END != 0 {
        end_request(reading, after);
    }
    0
}

/// A request has ended: its body was one message, or several in one list, whatever it lacks.
#[inline(always)]
fn end_request(reading: &mut Reading, after: &mut Scan) {
    after.reset();
    reading.marks = Marks::NONE;
}

/// What [`fill`] returns where there is something to be read.
const FILLED: i64 = 2;

/// Takes the next bytes of a write, or turns to its next buffer: else what [`step`] is to return.
#[inline(always)]
fn fill(reading: &mut Reading) -> i64 {
    reading.advance();
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
        reading.buffer_position = reading.position;
        return 0;
    }
    let ahead = (reading.limit - reading.position) as u64;
    let most = if ahead < CHUNK_BYTES as u64 { ahead } else { CHUNK_BYTES as u64 };
    let bytes = if reading.left < most { reading.left } else { most };
    if bytes == 0 {
        return 1;
    }
    if !read_bytes(reading.chunk.bytes(), bytes, reading.address) {
        reading.because = GATE_BECAUSE_UNREADABLE as u32;
        return 1;
    }
    reading.end = bytes as u32;
    reading.chunk.end_at(bytes as u32);
    FILLED
}

/// Judges what the table says of the last byte. In a step of its own, so that the verifier does not go through it once for every way
/// through a byte's.
#[inline(always)]
fn judge(walk: &Walk, reading: &mut Reading, tool: u64, said: &Decision) {
    reading.verdict.is_new = 0;
    let mut by = BY_NOTHING;
    if said.is_call {
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
