//! Records and how they are sent: the ring to the agent, and the walk that puts the bytes of a call into it, segment by segment.

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE},
    helpers::generated::{bpf_loop, bpf_probe_read_kernel},
};
use core::ffi::c_void;
use mcpwarden_abi::{
    CLIENT_TO_SERVER, ConnectionId, Counter, DATA_CLASSES, GAP_TOO_MANY_BUFFERS, GAP_UNREADABLE, RECORD_DATA,
    RECORD_GAP, RECORD_REFUSED, RING_HEADER, RecordHeader,
};

pub use crate::share::RING;
use crate::{
    share,
    source::{Source, User, read_bytes},
    tables,
};

/// A data record as it lies in the ring.
#[repr(C)]
struct DataRecord<const N: usize> {
    header: RecordHeader,
    bytes: [u8; N],
}

/// The largest segment that one record carries. Bytes.
pub const SEGMENT_BYTES: u64 = DATA_CLASSES[4] as u64;
/// Most steps of one walk: every buffer of the longest vector (`UIO_MAXIOV`), and every segment of the
/// longest call (`MAX_RW_COUNT`).
const MAX_STEPS: u32 = 1024 + (0x7fff_ffff / SEGMENT_BYTES) as u32 + 1;

/// Bytes of a write that the gate refuses, which would begin at `offset` of the stream. They do not come to be part of it.
#[inline(always)]
pub fn refused(number: ConnectionId, offset: u64, bytes: u64, (tgid, uid): (u32, u32), source: Source) {
    let mut walk = Walk {
        id: number,
        uid,
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

/// Whether more than half of the ring is free.
#[inline(always)]
pub fn is_roomy() -> bool {
    RING.query(BPF_RB_AVAIL_DATA.into()) < RING.query(BPF_RB_RING_SIZE.into()) / 2
}

/// A walk over the caller's buffers, one segment a step.
pub struct Walk {
    pub id: ConnectionId,
    /// Position in the stream of the next segment.
    pub offset: u64,
    /// Bytes of the call that are still to come.
    pub remaining: u64,
    /// Where the next segment lies.
    pub address: User,
    /// What is left of the current buffer.
    pub left: u64,
    /// The next buffer of the vector.
    pub index: u64,
    pub source: Source,
    pub tgid: u32,
    /// Whose share of the ring the records take.
    pub uid: u32,
    /// Bytes of the stream that were refused so far.
    pub refused: u32,
    pub direction: u8,
    /// [`RECORD_DATA`] or [`RECORD_REFUSED`].
    pub kind: u8,
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
    pub fn run(&mut self) {
        self.steps();
        if self.remaining > 0 {
            let left = self.remaining;
            self.gap(left, GAP_TOO_MANY_BUFFERS);
        }
    }

    /// Otherwise the verifier follows every range that the numbers can have through every step, and gives up ("8193 jumps").
    #[inline(always)]
    fn blur(&mut self) {
        blur(self);
    }

    /// Sends the next `bytes` (at most [`SEGMENT_BYTES`]) and moves on. Whether the ring had room for them.
    #[inline(always)]
    pub fn segment(&mut self, bytes: u64) -> bool {
        let is_sent = if !self.is_admitted(bytes) {
            no_room(bytes);
            false
        } else if bytes <= DATA_CLASSES[0] as u64 {
            self.send::<{ DATA_CLASSES[0] }>(bytes)
        } else if bytes <= DATA_CLASSES[1] as u64 {
            self.send::<{ DATA_CLASSES[1] }>(bytes)
        } else if bytes <= DATA_CLASSES[2] as u64 {
            self.send::<{ DATA_CLASSES[2] }>(bytes)
        } else if bytes <= DATA_CLASSES[3] as u64 {
            self.send::<{ DATA_CLASSES[3] }>(bytes)
        } else {
            self.send::<{ DATA_CLASSES[4] }>(bytes)
        };
        self.offset += bytes;
        self.address += bytes;
        self.left -= bytes;
        self.remaining -= bytes;
        is_sent
    }

    /// Whether the record that carries `bytes` fits into the user's share of the ring.
    #[inline(always)]
    fn is_admitted(&self, bytes: u64) -> bool {
        let mut class = DATA_CLASSES[4];
        for larger in [DATA_CLASSES[3], DATA_CLASSES[2], DATA_CLASSES[1], DATA_CLASSES[0]] {
            if bytes <= larger as u64 {
                class = larger;
            }
        }
        share::admits(self.uid, (size_of::<RecordHeader>() + class) as u64 + RING_HEADER, bytes) != 0
    }

    #[inline(always)]
    fn send<const N: usize>(&self, bytes: u64) -> bool {
        let Some(mut entry) = RING.reserve::<DataRecord<N>>(0) else {
            no_room(bytes);
            return false;
        };
        let record = entry.as_mut_ptr();
        // SAFETY: `record` is the reserved memory. The header is made there, and not on the stack: see `share::FRESH`.
        let (header, there) = unsafe {
            (&raw mut (*record).header).write(self.header(self.kind));
            (&mut (*record).header, read_bytes(&raw mut (*record).bytes, bytes, self.address))
        };
        if there {
            header.length = bytes as u32;
            header.value = self.refused;
        } else if self.kind == RECORD_DATA {
            tables::count(Counter::UnreadableBytes, bytes);
            header.kind = RECORD_GAP;
            header.cause = GAP_UNREADABLE;
            header.value = bytes as u32;
        }
        entry.submit(0);
        true
    }

    /// Says that the next `bytes` were not captured.
    #[inline(always)]
    pub fn gap(&self, bytes: u64, cause: u8) {
        if share::admits(self.uid, size_of::<RecordHeader>() as u64 + RING_HEADER, bytes) == 0 {
            return no_room(bytes);
        }
        let Some(mut entry) = RING.reserve::<RecordHeader>(0) else { return no_room(bytes) };
        let mut header = self.header(RECORD_GAP);
        header.cause = cause;
        header.value = bytes as u32;
        entry.write(header);
        entry.submit(0);
    }

    #[inline(always)]
    fn header(&self, kind: u8) -> RecordHeader {
        let own = header(kind, self.id, (self.tgid, self.uid), 0);
        RecordHeader { direction: self.direction, offset: self.offset, ..own }
    }
}

/// Makes the verifier forget what it knows of numbers, by copying them onto themselves.
#[inline(always)]
pub fn blur<T>(numbers: &mut T) {
    let this = (&raw mut *numbers).cast::<c_void>();
    // SAFETY: source and destination are the same live memory of that size.
    unsafe { bpf_probe_read_kernel(this, size_of::<T>() as u32, this) };
}

/// A record of a stream's `bytes` did not fit, by itself or into the user's share.
#[inline(always)]
fn no_room(bytes: u64) {
    tables::count(Counter::RingFullRecords, 1);
    tables::count(Counter::RingFullBytes, bytes);
}

/// The start of a record of a process and a user; what few have is 0.
#[inline(always)]
pub fn header(kind: u8, connection: ConnectionId, (pid, uid): (u32, u32), length: usize) -> RecordHeader {
    RecordHeader {
        kind,
        direction: 0,
        cause: 0,
        flags: 0,
        length: length as u32,
        time_ns: tables::now(),
        connection,
        offset: 0,
        pid,
        value: 0,
        uid,
        zero: 0,
    }
}

/// One step of [`Walk::run`]: the next segment, or the next buffer. Returns 1 to end the loop.
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
    if bytes > SEGMENT_BYTES {
        bytes = SEGMENT_BYTES;
    }
    if bytes > 0 {
        walk.segment(bytes);
    }
    walk.blur();
    ((walk.remaining == 0) as i64) & 1
}
