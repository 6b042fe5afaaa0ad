//! A denied call is rewritten in the memory of its client, so that the server's answer to it says why: another name, and no
//! arguments.
//!
//! All of it happens before the server can read, on bytes that the gate has read and judged. What is written has the length of
//! what was there, so that no framing changes.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_loop;
use mcpwarden_abi::{
    CLIENT_TO_SERVER, ConnectionId, GATE_BECAUSE_CALLS, GATE_BECAUSE_TABLE, GATE_OUTCOMES, GATE_TEXT_BYTES,
    GATE_TEXT_FORMS, GATE_TEXT_TAIL, GATE_TEXTS_MOST, GateTexts, RECORD_REWRITTEN, RING_HEADER, RecordHeader,
};
use mcpwarden_gate::{
    CHUNK_BYTES, KEY_BYTES, NAME_BEFORE, NOWHERE, OUTCOME_NUMBERS, OUTCOMES, REWRITE_BYTES, Reach, Rewrite,
    opening,
};

use super::{
    memory::write_bytes,
    state::{GATED, Gated, OVERWRITES, Overwrite, Rewriting, SETTINGS, TEXTS, Why},
};
use crate::{
    kernel::{at_most, copy_bytes},
    ring::{RING, header},
    share,
    source::{User, read, read_bytes},
};

/// The number of `bpf_probe_read_kernel`.
const PROBE_READ_KERNEL: u32 = 113;

/// Nothing was written: there is no room in the ring, or the memory cannot be written to.
const NOTHING: i64 = -1;
/// Some of it was written, and then the memory was gone: the write must not go on.
pub const HALF_DONE: i64 = -2;

/// A record is of this size, or of the one below. Bytes of the client.
const SMALL: usize = 512;

const _: () = assert!(OUTCOMES == GATE_OUTCOMES);

/// The record as it lies in the ring.
#[repr(C)]
struct RewrittenRecord<const N: usize> {
    header: RecordHeader,
    text: [u8; GATE_TEXT_BYTES],
    bytes: [u8; N],
}

/// What follows the text, for helpers that read [`GATE_TEXT_TAIL`].
static TAIL: [u8; 16] = GATE_TEXT_TAIL;
/// What follows that.
static BLANKS: [u8; REWRITE_BYTES] = [b' '; REWRITE_BYTES];

/// Looks for what is to be rewritten of the message whose overwrite has this index: [`Rewriting`] says then what, and by which text.
/// False where it cannot be, or there is no room for any.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn plan_rewrite(number: ConnectionId, index: u64) -> i32 {
    let Some(gated) = GATED.get_ptr_mut(number) else { return 0 };
    let Some(settings) = SETTINGS.get_ptr(0) else { return 0 };
    // SAFETY: a live map value.
    let half = unsafe { core::ptr::read_volatile(&raw const (*settings).half) } & 1;
    let Some(texts) = TEXTS.get_ptr(half) else { return 0 };
    // SAFETY: a live map value, which this write has claimed.
    let (reading, rewriting) = unsafe { (&mut (*gated).reading, &mut (*gated).rewriting) };
    let Overwrite { address, why, position } =
        reading.overwrite[at_most(index, OVERWRITES as u64 - 1) as usize];
    // Of several buffers it is known where the last one lies.
    if position < reading.buffer_position {
        return 0;
    }
    let end = reading.address;
    let begin = end - (reading.position - reading.buffer_position) as u64;
    let before = at_most(address - begin, (NAME_BEFORE + KEY_BYTES) as u64);
    if !read_bytes(reading.chunk.bytes(), before + 1, address - before) {
        return 0;
    }
    reading.chunk.end_at(before as u32 + 1);
    let opening = opening(&reading.chunk, before as u32);
    if opening == NOWHERE {
        return 0;
    }
    rewriting.from = address - before + opening as u64;
    rewriting.next = address + 1;
    let most = rewriting.from + REWRITE_BYTES as u64;
    rewriting.end = if end < most { end } else { most };
    rewriting.rewrite = Rewrite::default();
    (reading.at, reading.end) = (0, 0);
    let mut search = Search { gated, reach: Reach::More as u32 };
    // SAFETY: the callback's signature is the one bpf_loop wants, and `search` outlives the call.
    unsafe {
        bpf_loop(STEPS, step as *mut c_void, (&raw mut search).cast(), 0);
    }
    if search.reach != Reach::Arguments as u32 {
        if search.reach != Reach::Name as u32 {
            return 0;
        }
        rewriting.to = address + 1;
    }
    rewriting.has_arguments = (search.reach == Reach::Arguments as u32) as u8;
    rewriting.half = half as u8;
    let tail = if rewriting.has_arguments != 0 { TAIL.len() as u64 } else { 0 };
    choose(texts, why, rewriting, (rewriting.to - rewriting.from).saturating_sub(tail)) as i32
}

/// Each chunk takes a step to be read, and each byte.
const STEPS: u32 = REWRITE_BYTES as u32 + REWRITE_BYTES as u32 / CHUNK_BYTES as u32 + 2;

/// What a step of the search needs, and what it finds.
struct Search {
    gated: *mut Gated,
    reach: u32,
}

/// One step of the search for the end of what is rewritten: the next byte, or the next bytes. Returns 1 to end the loop.
unsafe extern "C" fn step(_index: u64, context: *mut c_void) -> i64 {
    // SAFETY: bpf_loop hands back the pointer that `explain` gave it, and what it points at is live and claimed.
    let (search, reading, rewriting) = unsafe {
        let search = &mut *context.cast::<Search>();
        (&mut *context.cast::<Search>(), &mut (*search.gated).reading, &mut (*search.gated).rewriting)
    };
    if reading.at >= reading.end {
        let left = rewriting.end.saturating_sub(rewriting.next);
        let bytes = if left < CHUNK_BYTES as u64 { left } else { CHUNK_BYTES as u64 };
        if bytes == 0 || !read_bytes(reading.chunk.bytes(), bytes, rewriting.next) {
            search.reach = Reach::Nothing as u32;
            return 1;
        }
        reading.chunk.end_at(bytes as u32);
        (reading.at, reading.end) = (0, bytes as u32);
        rewriting.next += bytes;
        return 0;
    }
    let at = reading.at;
    reading.at = at + 1;
    // Behind this byte.
    rewriting.to = rewriting.next - (reading.end - at - 1) as u64;
    search.reach = rewriting.rewrite.step(reading.chunk.byte(at)) as u32;
    (search.reach != Reach::More as u32) as i64
}

/// Chooses the longest form of the text that there is room for. Whether there is one.
#[inline(always)]
fn choose(texts: *const GateTexts, why: Why, rewriting: &mut Rewriting, room: u64) -> bool {
    // SAFETY: a live map value.
    let number = unsafe {
        if why.because == GATE_BECAUSE_TABLE {
            (&(*texts).of_outcome)[(why.outcome & OUTCOME_NUMBERS) as usize]
        } else {
            (&(*texts).of_calls)[why.because.wrapping_sub(GATE_BECAUSE_CALLS) as usize & 15]
        }
    };
    rewriting.text = number;
    for form in 0..GATE_TEXT_FORMS {
        // SAFETY: as above.
        let length = unsafe { (&(*texts).texts)[number as usize & (GATE_TEXTS_MOST - 1)].lengths[form] };
        if length != 0 && length as u64 <= room {
            (rewriting.form, rewriting.length) = (form as u8, length);
            return true;
        }
    }
    false
}

/// Sends to user space what is there, and rewrites it as it was planned. `by`: the process in the upper half, and the user.
/// 0, [`NOTHING`] or [`HALF_DONE`].
///
/// The verifier goes through it once, by itself.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn carry_out(number: ConnectionId, by: u64) -> i64 {
    let Some(gated) = GATED.get_ptr_mut(number) else { return NOTHING };
    // SAFETY: a live map value, which this write has claimed.
    let rewriting = unsafe { &(*gated).rewriting };
    let Some(texts) = TEXTS.get_ptr(rewriting.half as u32 & 1) else { return NOTHING };
    let form = rewriting.form as usize & (GATE_TEXT_FORMS - 1);
    // SAFETY: a live map value.
    let (bytes, length) = unsafe {
        let text = &(&(*texts).texts)[rewriting.text as usize & (GATE_TEXTS_MOST - 1)];
        (&raw const text.forms[form], core::ptr::read_volatile(&raw const text.lengths[form]))
    };
    // User space may have written another text there meanwhile, for which there may be no room.
    if length != rewriting.length {
        return NOTHING;
    }
    let text = Text { bytes, length };
    let size = rewriting.to - rewriting.from;
    if size <= SMALL as u64 {
        rewrite::<SMALL>(number, gated, &text, by)
    } else {
        rewrite::<REWRITE_BYTES>(number, gated, &text, by)
    }
}

/// A form of a text.
struct Text {
    bytes: *const [u8; GATE_TEXT_BYTES],
    length: u32,
}

#[inline(always)]
fn rewrite<const N: usize>(number: ConnectionId, gated: *const Gated, text: &Text, by: u64) -> i64 {
    // SAFETY: a live map value, which this write has claimed.
    let (rewriting, reading, position) =
        unsafe { (&(*gated).rewriting, &(*gated).reading, (*gated).position) };
    let (from, to) = (rewriting.from, rewriting.to);
    let (pid, uid) = ((by >> 32) as u32, by as u32);
    if share::admits(uid, size_of::<RewrittenRecord<N>>() as u64 + RING_HEADER, 0) == 0 {
        return NOTHING;
    }
    let Some(mut entry) = RING.reserve::<RewrittenRecord<N>>(0) else { return NOTHING };
    let record = entry.as_mut_ptr();
    // SAFETY: the reserved memory. The header is made there, and not on the stack.
    let is_read = unsafe {
        let length = GATE_TEXT_BYTES + (to - from) as usize;
        (&raw mut (*record).header).write(header(RECORD_REWRITTEN, number, (pid, uid), length));
        let header = &mut (*record).header;
        header.direction = CLIENT_TO_SERVER;
        header.offset = position + reading.position as u64 - (reading.address - from);
        header.value = text.length;
        let (to_text, of_text) = (&raw mut (*record).text, text.bytes as u64);
        copy_bytes::<PROBE_READ_KERNEL, GATE_TEXT_BYTES>(to_text, GATE_TEXT_BYTES as u64, of_text)
            && read_bytes(&raw mut (*record).bytes, to - from, from)
    };
    // What can be written is: else a half of it would be, where the other cannot.
    if !is_read || !is_writable(from) || !is_writable(to - 1) {
        entry.discard(0);
        return NOTHING;
    }
    entry.submit(0);
    let mut at = from;
    let mut is_written = write_bytes(at, text.bytes, text.length as u64);
    at += text.length as u64;
    if rewriting.has_arguments != 0 {
        is_written &= write_bytes(at, &raw const TAIL, TAIL.len() as u64);
        at += TAIL.len() as u64;
    }
    is_written &= at >= to || write_bytes(at, &raw const BLANKS, to - at);
    if is_written { 0 } else { HALF_DONE }
}

/// Whether a byte can be written, by writing what is there.
#[inline(always)]
fn is_writable(address: User) -> bool {
    let Some(byte) = read::<[u8; 1]>(address) else { return false };
    write_bytes(address, &raw const byte, 1)
}
