//! From bytes that passed a channel to records in the ring.
//!
//! Whatever backend saw the call, it ends in [`passed`]: on the client's side bytes are captured, on
//! the server's side they are counted. A stream's position moves by every byte that is known of,
//! captured or not, so what is missing shows as a hole of its exact size.

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE},
    helpers::generated::{bpf_loop, bpf_probe_read_kernel},
    macros::map,
    maps::RingBuf,
};
use core::ffi::c_void;
use mcpwarden_abi::{
    CLIENT_TO_SERVER, Channel, ConnectionId, Counter, DATA_CLASSES, GAP_TOO_MANY_BUFFERS, GAP_UNREADABLE,
    Positions, RECORD_DATA, RECORD_GAP, RECORD_REFUSED, RecordHeader, SERVER_TO_CLIENT, SOCKET,
    STATE_CANDIDATE, STATE_CONFIRMED, STATE_PLAUSIBLE, STATE_SUSPECT, STATE_UNHEARD, SUSPECT_BYTES,
    UNASKED_BYTES,
};

use crate::{
    channel, gate, socket,
    source::{Source, User, read_bytes},
};

/// Records on their way to the agent, in the order of reservation. The agent sets its size.
#[map(name = "RING")]
pub static RING: RingBuf = RingBuf::with_byte_size(32 << 20, 0);

/// A data record as it lies in the ring.
#[repr(C)]
struct DataRecord<const N: usize> {
    header: RecordHeader,
    bytes: [u8; N],
}

/// The largest piece that one record carries. Bytes.
const PIECE_BYTES: u64 = DATA_CLASSES[4] as u64;
/// Most steps of one walk: every buffer of the longest vector (`UIO_MAXIOV`), and every piece of the
/// longest call (`MAX_RW_COUNT`).
const MAX_STEPS: u32 = 1024 + (0x7fff_ffff / PIECE_BYTES) as u32 + 1;

/// What is known of the bytes of one call.
///
/// No enum: of one whose cases meet, the compiler copies fields that only some of them have, and the verifier refuses a
/// register that nothing was written to.
#[derive(Clone, Copy)]
pub struct Payload {
    source: Source,
    /// One of the `GAP_…` constants; 0 where they lie in the caller's memory.
    cause: u8,
}

impl Payload {
    /// They lie in the caller's memory.
    #[inline(always)]
    pub fn at(source: Source) -> Self {
        Self { source, cause: 0 }
    }

    /// They never lay there.
    #[inline(always)]
    pub fn lost(cause: u8) -> Self {
        Self { source: Source::buffer(0), cause }
    }
}

/// `bytes` were written to (`writes`) or read from a channel by the process `tgid`, which runs now.
#[inline(always)]
pub fn passed(channel: *const Channel, writes: bool, bytes: u64, tgid: u32, payload: Payload) {
    // SAFETY: a live map value.
    let roles = unsafe { &*channel };
    let (capture_for, count_for) = if writes {
        (roles.write_capture, roles.write_count)
    } else {
        (roles.read_capture, roles.read_count)
    };
    if count_for != 0 {
        let direction = if writes { SERVER_TO_CLIENT } else { CLIENT_TO_SERVER };
        if let Some(entry) = channel::positions(count_for) {
            // SAFETY: a live map value.
            channel::advance(unsafe { &raw mut (*entry).streams[direction as usize].far }, bytes);
        }
    }
    if capture_for != 0 {
        let direction = if writes { CLIENT_TO_SERVER } else { SERVER_TO_CLIENT };
        capture(capture_for, direction, bytes, tgid, payload);
    }
}

/// `bytes` of a channel are known to have gone by without being seen.
#[inline(always)]
pub fn lost(id: ConnectionId, direction: u8, bytes: u64, tgid: u32, cause: u8) {
    capture(id, direction, bytes, tgid, Payload::lost(cause));
}

/// Bytes of a write that the gate refuses, which would begin at `offset` of the stream. They do not come to be part of it.
#[inline(always)]
pub fn refused(number: ConnectionId, offset: u64, bytes: u64, tgid: u32, source: Source) {
    let mut walk = Walk {
        id: number,
        offset,
        remaining: bytes,
        address: 0,
        left: 0,
        index: 0,
        source,
        tgid,
        refused: 0,
        direction: CLIENT_TO_SERVER,
        kind: RECORD_REFUSED,
    };
    if source.buffers == 0 {
        walk.address = source.address;
        walk.left = bytes;
    }
    walk.steps();
}

#[inline(always)]
fn capture(id: ConnectionId, direction: u8, bytes: u64, tgid: u32, payload: Payload) {
    let Some(entry) = channel::positions(id) else { return };
    // SAFETY: a live map value.
    if unsafe { (*entry).state } == STATE_UNHEARD {
        let (address, length) = if payload.cause != 0 {
            (0, 0)
        } else if payload.source.buffers == 0 {
            (payload.source.address, bytes)
        } else {
            payload.source.at(0).unwrap_or((0, 0))
        };
        if !socket::heard(id, direction, address, length) {
            return;
        }
    }
    // SAFETY: a live map value.
    let offset = channel::advance(unsafe { &raw mut (*entry).streams[direction as usize].offset }, bytes);
    let mut walk = Walk {
        // SAFETY: a live map value.
        id: unsafe { (*entry).number },
        offset,
        remaining: bytes,
        address: 0,
        left: 0,
        index: 0,
        source: Source::buffer(0),
        tgid,
        refused: 0,
        direction,
        kind: RECORD_DATA,
    };
    if payload.cause != 0 {
        if direction == CLIENT_TO_SERVER {
            gate::unseen(id, offset, bytes, tgid);
        }
        walk.gap(bytes, payload.cause);
        return;
    }
    let source = payload.source;
    // SAFETY: a live map value.
    let state = unsafe { (*entry).state };
    if state != STATE_CONFIRMED && !admits(entry, state, id, &source, &walk) {
        channel::count(Counter::SuspectBytes, bytes);
        // SAFETY: a live map value.
        channel::advance(unsafe { &raw mut (*entry).streams[direction as usize].refused }, bytes);
        return;
    }
    // SAFETY: a live map value.
    let refused = unsafe { (*entry).streams[direction as usize].refused };
    walk.refused = if refused > u32::MAX as u64 { u32::MAX } else { refused as u32 };
    walk.source = source;
    if source.buffers == 0 {
        walk.address = source.address;
        walk.left = bytes;
        if bytes <= PIECE_BYTES {
            walk.piece(bytes);
            return;
        }
    }
    walk.run();
}

/// Whether bytes of a connection that nobody has confirmed are worth a record. Looks at the first byte of
/// the first request that is no blank: it can begin a message, or this is no MCP. Where it can, what pipelines carry would
/// still fill the ring before user space has looked: a half of it is for servers and for what begins.
#[inline(always)]
fn admits(entry: *mut Positions, state: u32, id: ConnectionId, source: &Source, walk: &Walk) -> bool {
    let confirmed = if id & SOCKET != 0 { socket::lifted(id) } else { channel::confirmed(id) };
    if confirmed {
        // SAFETY: a live map value.
        unsafe { (*entry).state = STATE_CONFIRMED };
        return true;
    }
    if state == STATE_SUSPECT || state == STATE_PLAUSIBLE {
        return walk.offset < SUSPECT_BYTES || state == STATE_PLAUSIBLE && is_roomy();
    }
    if walk.direction == SERVER_TO_CLIENT {
        return walk.offset < UNASKED_BYTES;
    }
    let (address, length) = if source.buffers == 0 {
        (source.address, walk.remaining)
    } else {
        match source.at(0) {
            Some(first) => first,
            None => return true,
        }
    };
    const PEEK: usize = 16;
    let mut first = [0u8; PEEK];
    if !read_bytes(&raw mut first, length, address) {
        return true;
    }
    let mut verdict = STATE_CANDIDATE;
    for (at, byte) in first.iter().enumerate() {
        if at as u64 >= length {
            break;
        }
        match *byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf => continue,
            b'{' | b'[' | b'C' | b'c' => verdict = STATE_PLAUSIBLE,
            _ => verdict = STATE_SUSPECT,
        }
        break;
    }
    if verdict != STATE_CANDIDATE {
        // SAFETY: a live map value.
        unsafe { (*entry).state = verdict };
    }
    true
}

/// Whether more than half of the ring is free.
#[inline(always)]
fn is_roomy() -> bool {
    RING.query(BPF_RB_AVAIL_DATA.into()) < RING.query(BPF_RB_RING_SIZE.into()) / 2
}

/// A walk over the caller's buffers, one piece a step.
struct Walk {
    id: ConnectionId,
    /// Position in the stream of the next piece.
    offset: u64,
    /// Bytes of the call that are still to come.
    remaining: u64,
    /// Where the next piece lies.
    address: User,
    /// What is left of the current buffer.
    left: u64,
    /// The next buffer of the vector.
    index: u64,
    source: Source,
    tgid: u32,
    /// Bytes of the stream that were refused so far.
    refused: u32,
    direction: u8,
    /// [`RECORD_DATA`] or [`RECORD_REFUSED`].
    kind: u8,
}

impl Walk {
    #[inline(always)]
    fn steps(&mut self) {
        self.blur();
        // SAFETY: the callback's signature is the one bpf_loop wants, and `self` outlives the call.
        unsafe {
            bpf_loop(MAX_STEPS, step as *mut c_void, (&raw mut *self).cast(), 0);
        }
    }

    #[inline(always)]
    fn run(&mut self) {
        self.steps();
        if self.remaining > 0 {
            let left = self.remaining;
            self.gap(left, GAP_TOO_MANY_BUFFERS);
        }
    }

    /// Makes the verifier forget what it knows of the numbers, by copying them onto themselves. Otherwise it
    /// follows every range they can have through every step, and gives up ("8193 jumps").
    #[inline(always)]
    fn blur(&mut self) {
        let this = (&raw mut *self).cast::<c_void>();
        // SAFETY: source and destination are the same live memory of that size.
        unsafe { bpf_probe_read_kernel(this, size_of::<Self>() as u32, this) };
    }

    /// Sends the next `bytes` (at most [`PIECE_BYTES`]) and moves on.
    #[inline(always)]
    fn piece(&mut self, bytes: u64) {
        if bytes <= DATA_CLASSES[0] as u64 {
            self.send::<{ DATA_CLASSES[0] }>(bytes);
        } else if bytes <= DATA_CLASSES[1] as u64 {
            self.send::<{ DATA_CLASSES[1] }>(bytes);
        } else if bytes <= DATA_CLASSES[2] as u64 {
            self.send::<{ DATA_CLASSES[2] }>(bytes);
        } else if bytes <= DATA_CLASSES[3] as u64 {
            self.send::<{ DATA_CLASSES[3] }>(bytes);
        } else {
            self.send::<{ DATA_CLASSES[4] }>(bytes);
        }
        self.offset += bytes;
        self.address += bytes;
        self.left -= bytes;
        self.remaining -= bytes;
    }

    #[inline(always)]
    fn send<const N: usize>(&self, bytes: u64) {
        let Some(mut entry) = RING.reserve::<DataRecord<N>>(0) else {
            channel::count(Counter::RingFullRecords, 1);
            channel::count(Counter::RingFullBytes, bytes);
            return;
        };
        let record = entry.as_mut_ptr();
        // SAFETY: `record` is the reserved memory.
        let there = read_bytes(unsafe { &raw mut (*record).bytes }, bytes, self.address);
        let mut header = self.header(self.kind);
        if there {
            header.length = bytes as u32;
            header.value = self.refused;
        } else if self.kind == RECORD_DATA {
            channel::count(Counter::UnreadableBytes, bytes);
            header.kind = RECORD_GAP;
            header.cause = GAP_UNREADABLE;
            header.value = bytes as u32;
        }
        // SAFETY: `record` is the reserved memory.
        unsafe { (&raw mut (*record).header).write(header) };
        entry.submit(0);
    }

    /// Says that the next `bytes` were not captured.
    #[inline(always)]
    fn gap(&self, bytes: u64, cause: u8) {
        let Some(mut entry) = RING.reserve::<RecordHeader>(0) else {
            channel::count(Counter::RingFullRecords, 1);
            channel::count(Counter::RingFullBytes, bytes);
            return;
        };
        let mut header = self.header(RECORD_GAP);
        header.cause = cause;
        header.value = bytes as u32;
        entry.write(header);
        entry.submit(0);
    }

    #[inline(always)]
    fn header(&self, kind: u8) -> RecordHeader {
        RecordHeader { direction: self.direction, offset: self.offset, ..header(kind, self.id, self.tgid, 0) }
    }
}

/// The start of a record; what few have is 0.
#[inline(always)]
pub fn header(kind: u8, connection: ConnectionId, pid: u32, length: usize) -> RecordHeader {
    RecordHeader {
        kind,
        direction: 0,
        cause: 0,
        flags: 0,
        length: length as u32,
        time_ns: channel::now(),
        connection,
        offset: 0,
        pid,
        value: 0,
    }
}

/// One step of [`Walk::run`]: the next piece, or the next buffer. Returns 1 to end the loop.
unsafe extern "C" fn step(_index: u64, context: *mut c_void) -> i64 {
    // SAFETY: bpf_loop hands back the pointer that `run` gave it.
    let walk = unsafe { &mut *context.cast::<Walk>() };
    if walk.left == 0 {
        if walk.index >= walk.source.buffers {
            return 1;
        }
        let Some((address, length)) = walk.source.at(walk.index) else { return 1 };
        walk.index += 1;
        walk.address = address;
        walk.left = length;
    }
    let mut bytes = walk.left;
    if bytes > walk.remaining {
        bytes = walk.remaining;
    }
    if bytes > PIECE_BYTES {
        bytes = PIECE_BYTES;
    }
    if bytes > 0 {
        walk.piece(bytes);
    }
    walk.blur();
    ((walk.remaining == 0) as i64) & 1
}
