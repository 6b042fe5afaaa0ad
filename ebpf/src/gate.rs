//! The gate: what a client is about to write to a server is read before the server can, and what the policy denies does
//! not get there.
//!
//! A write is judged where the kernel asks whether it may be ([`asked`]), and counts as written once it was
//! ([`returned`]): it may be refused by others, or go only in part. In between its channel is claimed: what was read of a
//! channel is one state ([`Scan`]), and two writes at once would make two of it.
//!
//! Everything that is read of a write lies in the channel's entry of [`GATED`]: the verifier knows nothing of the numbers
//! in a map's value, and so goes through a byte's step once, whatever came before.

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST, task_struct},
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_find_vma, bpf_loop, bpf_probe_write_user},
    },
    macros::map,
    maps::{Array, HashMap},
};
use core::ffi::c_void;
use mcpwarden_abi::{
    CLIENT_TO_SERVER, Channel, ConnectionId, Counter, GATE_BECAUSE_CHANGED, GATE_BECAUSE_LONG,
    GATE_BECAUSE_LOST, GATE_BECAUSE_RACE, GATE_BECAUSE_TABLE, GATE_BECAUSE_UNKNOWN, GATE_BECAUSE_UNREADABLE,
    GATE_BECAUSE_UNSEEN, GATE_BECAUSE_UNSPOILABLE, GATE_NEUTRALIZE, GATE_NOBODY, GATE_OFF, GATE_PASSED,
    GATE_REFUSED, GATE_SPOILED, GATE_SPOILT, GATE_UNSEEN, GATE_WINDOW_MOST, GATED_WORDS, GateInfo,
    GateSettings, GateSubjects, Positions, RECORD_GATE, RecordHeader, SOCKET,
};
use mcpwarden_gate::{DENY, ENTRIES, Head, Marks, NOWHERE, Said, Scan, Subject, UNDECIDED, View};

use crate::{
    capture::{self, RING, header},
    channel,
    kernel::{self, Ptr, load, offset},
    source::{Coming, Source, User, read, read_bytes},
};

/// How the gate is set.
#[map(name = "GATE_SETTINGS")]
static SETTINGS: Array<GateSettings> = Array::with_max_entries(1, 0);

/// What is said of all, of each table.
#[map(name = "GATE_HEADS")]
static HEADS: Array<Head> = Array::with_max_entries(2, 0);

/// The automaton of each table.
#[map(name = "GATE_NEXT")]
static NEXT: Array<[u16; ENTRIES]> = Array::with_max_entries(2, 0);

/// Which connections are judged, and as what. User space alone writes it.
#[map(name = "GATE_SUBJECTS")]
static SUBJECTS: HashMap<ConnectionId, GateSubjects> = HashMap::with_max_entries(8_192, BPF_F_NO_PREALLOC);

/// What was read of each channel; made with its first write. User space takes out those of connections that are gone.
#[map(name = "GATED")]
static GATED: HashMap<ConnectionId, Gated> = HashMap::with_max_entries(8_192, BPF_F_NO_PREALLOC);

/// Whether this kernel lets programs write into the memory of processes (under lockdown it refuses one that could).
#[unsafe(no_mangle)]
pub static MAY_SPOIL: u32 = 0;

/// `linux/mm.h`
const VM_WRITE: u64 = 2;
const VM_SHARED: u64 = 8;
/// `linux/errno.h`
const EPERM: i32 = 1;
const EBUSY: i64 = -16;
/// How often it is tried to look at a process's memory while another of its threads changes what it has. That takes
/// microseconds.
const VMA_TRIES: u32 = 256;
/// Most bytes that are overwritten in one write: of one with more that is denied, all is refused.
const SPOILS: usize = 4;
/// How much of a buffer is read at once. Bytes; a power of two.
const CHUNK: usize = 64;
/// `UIO_MAXIOV` (`linux/uio.h`)
const MOST_BUFFERS: u32 = 1024;

/// What is known of a channel.
#[repr(C)]
struct Gated {
    /// 0 where no write is on its way; else how many began since the last one returned.
    claims: u64,
    /// Which thread writes (`bpf_get_current_pid_tgid`).
    owner: u64,
    /// Where in the stream its write begins.
    position: u64,
    /// Of how many bytes it is, where that is known.
    length: u64,
    /// What was read of all that was written.
    before: Scan,
    /// The same with the write that is on its way.
    after: Scan,
    /// Whether something was written that nobody read, and nothing ended a line since.
    lost: u32,
    /// The same with the write that is on its way.
    lost_after: u32,
    /// Whether that was read to its end.
    is_read: u32,
    zero: u32,
    reading: Reading,
}

/// How far a write is read, and what was found.
#[repr(C)]
struct Reading {
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
    /// The next byte's place in the write.
    place: u32,
    /// No more than so many bytes are read.
    limit: u32,
    marks: Marks,
    /// The next byte of `chunk`, and how many it has.
    at: u32,
    end: u32,
    /// Whether all was read; else `because` says why not.
    complete: u32,
    because: u32,
    /// How the gate is set.
    mode: u32,
    refuse_undecided: u32,
    /// What the write is to be refused for; 0 for nothing.
    refuse: u32,
    /// What nobody can tell, and is let through; 0 for nothing.
    undecided: u32,
    /// How many of `spoil` there are.
    spoils: u32,
    zero: u32,
    spoil: [Spoil; SPOILS],
    chunk: [u8; CHUNK],
}

/// A byte to overwrite.
#[repr(C)]
#[derive(Clone, Copy)]
struct Spoil {
    address: User,
    place: u32,
    outcome: u32,
}

/// An entry as it is put into the table. All zeros.
static FRESH: [u64; GATED_WORDS] = [0; GATED_WORDS];
const _: () = assert!(size_of::<Gated>() == 8 * GATED_WORDS);

/// What a step needs. Nothing of it changes from one to the next.
struct Walk {
    gated: *mut Gated,
    head: *const Head,
    next: *const [u16; ENTRIES],
    subject: *const Subject,
}

/// A file is about to be written to: the number that the kernel is to answer, 0 for "it may be". Of pipes alone: sockets
/// have a hook of their own.
#[inline(always)]
pub fn asked(channel: *const Channel, bytes: Coming) -> i32 {
    // SAFETY: a live map value.
    let id = unsafe { (*channel).write_capture };
    if id == 0 || id & SOCKET != 0 {
        return 0;
    }
    let Some(settings) = SETTINGS.get_ptr(0) else { return 0 };
    // SAFETY: a live map value.
    let settings = unsafe { core::ptr::read_volatile(settings) };
    if settings.mode == GATE_OFF {
        return 0;
    }
    let half = settings.half & 1;
    let Some(subjects) = SUBJECTS.get_ptr(id) else { return 0 };
    // SAFETY: a live map value.
    let subject = unsafe { (*subjects).0[half as usize] };
    if subject == GATE_NOBODY {
        return 0;
    }
    let (Some(head), Some(next)) = (HEADS.get_ptr(half), NEXT.get_ptr(half)) else { return 0 };
    let Some(entry) = channel::positions(id) else { return 0 };
    let Some(gated) = gated(id) else { return 0 };
    let write = Write { entry, gated, settings, tgid: (bpf_get_current_pid_tgid() >> 32) as u32 };
    // SAFETY: a live map value.
    let view = View { head: unsafe { &*head }, next: unsafe { &*next } };
    if !write.claim() {
        return write.refuse(0, GATE_BECAUSE_RACE, bytes);
    }
    if !bytes.is_known {
        return write.undecided(GATE_BECAUSE_UNKNOWN, bytes);
    }
    // SAFETY: a live map value.
    if unsafe { (*gated).lost } != 0 {
        return write.undecided(GATE_BECAUSE_LOST, bytes);
    }
    let generation = view.head.generation;
    let walk = Walk { gated, head, next, subject: view.subject(subject) };
    write.read(&walk, &view, bytes);
    // SAFETY: live map values.
    let (complete, because, spoils, refuse, undecided, place) = unsafe {
        let reading = &raw const (*gated).reading;
        (
            (*reading).complete,
            (*reading).because,
            (*reading).spoils,
            (*reading).refuse,
            (*reading).undecided,
            (*reading).place,
        )
    };
    // SAFETY: a live map value, in which user space may write a new table at any time.
    if unsafe { core::ptr::read_volatile(&raw const (*head).generation) } != generation {
        return write.undecided(GATE_BECAUSE_CHANGED, bytes);
    }
    if refuse != 0 {
        return write.refuse(refuse as u16, GATE_BECAUSE_TABLE, bytes);
    }
    for index in 0..SPOILS {
        if index as u32 >= spoils {
            break;
        }
        if !write.spoil(index) {
            // SAFETY: a live map value.
            let outcome = unsafe { (*gated).reading.spoil[index].outcome };
            return write.refuse(outcome as u16, GATE_BECAUSE_UNSPOILABLE, bytes);
        }
    }
    if complete == 0 {
        return write.undecided(because as u8, bytes);
    }
    // SAFETY: a live map value.
    unsafe {
        (*gated).length = place as u64;
        (*gated).lost_after = 0;
        (*gated).is_read = 1;
    }
    if undecided != 0 {
        write.tell(0, GateInfo { outcome: undecided as u16, ..write.info(GATE_PASSED, GATE_BECAUSE_TABLE) });
    }
    0
}

/// What is known of a connection's channel.
#[inline(always)]
fn gated(id: ConnectionId) -> Option<*mut Gated> {
    if let Some(known) = GATED.get_ptr_mut(id) {
        return Some(known);
    }
    // SAFETY: all zeros are a channel of which nothing was read.
    let fresh = unsafe { &*(&raw const FRESH).cast::<Gated>() };
    if GATED.insert(id, fresh, BPF_NOEXIST as u64).is_err() {
        channel::count(Counter::GatedRefused, 1);
    }
    GATED.get_ptr_mut(id)
}

/// A write that is judged.
#[derive(Clone, Copy)]
struct Write {
    entry: *mut Positions,
    gated: *mut Gated,
    settings: GateSettings,
    tgid: u32,
}

impl Write {
    /// Takes the channel. False where another write is on its way: which of them comes first is not known.
    #[inline(always)]
    fn claim(&self) -> bool {
        let (me, gated) = (bpf_get_current_pid_tgid(), self.gated);
        // SAFETY: live map values. Whoever claims first has the entry until its write returns.
        unsafe {
            let position = (*self.entry).streams[CLIENT_TO_SERVER as usize].offset;
            let mut alone = true;
            if channel::advance(&raw mut (*gated).claims, 1) != 0 {
                // That one returned unseen (another module refused it, or the program at its exit was not run), or it
                // is still on its way.
                let passed = position.wrapping_sub((*gated).position);
                if passed == (*gated).length && passed != 0 {
                    (*gated).before = (*gated).after;
                    (*gated).lost = (*gated).lost_after;
                } else if (*gated).owner != me {
                    // Whoever comes next may go on: this one will not return, being refused.
                    (*gated).lost = 1;
                    alone = false;
                } else if passed != 0 {
                    (*gated).lost = 1;
                }
            }
            (*gated).claims = 1;
            (*gated).owner = me;
            (*gated).position = position;
            (*gated).length = 0;
            (*gated).is_read = 0;
            if alone {
                (*gated).reading.place = 0;
            }
            alone
        }
    }

    /// Reads the bytes that are about to be written.
    #[inline(always)]
    fn read(&self, walk: &Walk, view: &View<'_>, bytes: Coming) {
        // SAFETY: a live map value, which this write has claimed.
        unsafe {
            (*self.gated).after = (*self.gated).before;
            (*self.gated).after.begin(view);
            let reading = &mut (*self.gated).reading;
            reading.mode = self.settings.mode;
            reading.refuse_undecided = self.settings.refuse_undecided;
            reading.begin(bytes.source, bytes.length, self.settings.window);
        }
        walk.run(self.settings.window);
    }

    /// Nobody can tell what this write asks for. It may be let through nonetheless.
    #[inline(always)]
    fn undecided(&self, because: u8, bytes: Coming) -> i32 {
        if self.settings.refuse_undecided != 0 {
            return self.refuse(0, because, bytes);
        }
        let ends = bytes.is_known && ends_a_line(&bytes.source, bytes.length);
        // SAFETY: a live map value, which this write has claimed.
        unsafe {
            (*self.gated).after = (*self.gated).before;
            (*self.gated).after.reset();
            (*self.gated).lost_after = !ends as u32;
            (*self.gated).length = bytes.length;
        }
        self.tell(0, self.info(GATE_PASSED, because));
        0
    }

    /// It must not be written.
    #[inline(always)]
    fn refuse(&self, outcome: u16, because: u8, bytes: Coming) -> i32 {
        // SAFETY: live map values.
        let (number, position) = unsafe { ((*self.entry).number, (*self.gated).position) };
        if bytes.is_known {
            let most = GATE_WINDOW_MOST as u64;
            let length = if bytes.length < most { bytes.length } else { most };
            capture::refused(number, position, length, self.tgid, bytes.source);
        }
        let mut info = GateInfo { outcome, ..self.info(GATE_REFUSED, because) };
        if because == GATE_BECAUSE_RACE {
            // What was read is the other's.
            info.bytes = 0;
        }
        self.tell(0, info);
        // SAFETY: a live map value, which this write has claimed: it will not return.
        unsafe { (*self.gated).claims = 0 };
        -EPERM
    }

    /// Overwrites a byte. Whether that could be done.
    #[inline(always)]
    fn spoil(&self, index: usize) -> bool {
        // SAFETY: a static of this program, which the agent sets before the load.
        if unsafe { core::ptr::read_volatile(&raw const MAY_SPOIL) } == 0 {
            return false;
        }
        // SAFETY: a live map value, which this write has claimed.
        let Spoil { address, place, outcome } = unsafe { (*self.gated).reading.spoil[index] };
        let mut flags = 0u64;
        let mut found = -1;
        for _ in 0..VMA_TRIES {
            // SAFETY: the callback's signature is the one bpf_find_vma wants, and `flags` outlives the call.
            found = unsafe {
                bpf_find_vma(
                    kernel::current() as *mut task_struct,
                    address,
                    flags_of as *mut c_void,
                    (&raw mut flags).cast(),
                    0,
                )
            };
            if found != EBUSY {
                break;
            }
        }
        // Shared memory is somebody else's too, and perhaps a file.
        if found != 0 || flags & (VM_WRITE | VM_SHARED) != VM_WRITE {
            return false;
        }
        let Some(original) = read::<u8>(address) else { return false };
        let spoilt = GATE_SPOILT;
        // SAFETY: the helper checks the address.
        if unsafe { bpf_probe_write_user(address as *mut c_void, (&raw const spoilt).cast(), 1) } != 0 {
            return false;
        }
        let info = self.info(GATE_SPOILED, GATE_BECAUSE_TABLE);
        self.tell(place as u64, GateInfo { outcome: outcome as u16, original, ..info });
        true
    }

    #[inline(always)]
    fn info(&self, action: u8, because: u8) -> GateInfo {
        // SAFETY: a live map value, which this write has claimed.
        let (bytes, generation) =
            unsafe { ((*self.gated).reading.place as u64, (*self.gated).after.generation) };
        GateInfo { bytes, generation, outcome: 0, action, because, original: 0, zero: [0; 7] }
    }

    /// Tells user space.
    #[inline(always)]
    fn tell(&self, place: u64, info: GateInfo) {
        // SAFETY: live map values.
        let (number, position) = unsafe { ((*self.entry).number, (*self.gated).position) };
        tell(number, position + place, self.tgid, info);
    }
}

/// Tells user space of something at `offset` of a stream.
#[inline(always)]
fn tell(number: ConnectionId, offset: u64, tgid: u32, info: GateInfo) {
    /// The record as it lies in the ring.
    #[repr(C)]
    struct GateRecord {
        header: RecordHeader,
        info: GateInfo,
    }
    let Some(mut entry) = RING.reserve::<GateRecord>(0) else {
        channel::count(Counter::GateUntold, 1);
        return;
    };
    let header = header(RECORD_GATE, number, tgid, size_of::<GateInfo>());
    entry.write(GateRecord { header: RecordHeader { offset, ..header }, info });
    entry.submit(0);
}

/// `bytes` of a channel went by every hook of the gate, to `offset` of the stream.
#[inline(always)]
pub fn unseen(id: ConnectionId, offset: u64, bytes: u64, tgid: u32) {
    // Nothing is known of a channel that was never judged.
    let Some(gated) = GATED.get_ptr_mut(id) else { return };
    let Some(settings) = SETTINGS.get_ptr(0) else { return };
    // SAFETY: live map values.
    unsafe {
        if (*settings).mode == GATE_OFF {
            return;
        }
        (*gated).lost = 1;
    }
    let (action, because) = (GATE_UNSEEN, GATE_BECAUSE_UNSEEN);
    // The number of a connection over stdio is its key.
    tell(
        id,
        offset,
        tgid,
        GateInfo { bytes, generation: 0, outcome: 0, action, because, original: 0, zero: [0; 7] },
    );
}

/// What [`Write::spoil`] wants to know of a part of the memory.
unsafe extern "C" fn flags_of(_task: *mut c_void, vma: *mut c_void, context: *mut c_void) -> i64 {
    let flags: u64 = load(vma as Ptr, offset!(vma_flags));
    // SAFETY: bpf_find_vma hands back the pointer that `spoil` gave it.
    unsafe { *context.cast::<u64>() = flags };
    0
}

/// Whether the last byte is a line feed.
#[inline(always)]
fn ends_a_line(source: &Source, length: u64) -> bool {
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

impl Reading {
    /// Nothing is read yet.
    #[inline(always)]
    fn begin(&mut self, source: Source, length: u64, limit: u32) {
        self.source = source;
        (self.address, self.left) = if source.buffers == 0 { (source.address, length) } else { (0, 0) };
        self.index = 0;
        (self.name_at, self.method_at) = (0, 0);
        (self.place, self.limit) = (0, limit);
        self.marks = Marks::NONE;
        (self.at, self.end) = (0, 0);
        (self.complete, self.because) = (0, GATE_BECAUSE_LONG as u32);
        (self.refuse, self.undecided, self.spoils) = (0, 0, 0);
    }

    /// Something is said of a message.
    #[inline(always)]
    fn note(&mut self, said: Said) {
        let outcome = said.outcome as u32;
        if said.outcome & DENY == 0 && self.refuse_undecided == 0 {
            self.undecided = outcome;
            return;
        }
        if self.mode == GATE_NEUTRALIZE && said.place != NOWHERE {
            let count = self.spoils as usize;
            if count > 0 && self.spoil[(count - 1) & (SPOILS - 1)].place == said.place {
                return;
            }
            if count < SPOILS {
                let address = if said.place == self.marks.name { self.name_at } else { self.method_at };
                self.spoil[count & (SPOILS - 1)] = Spoil { address, place: said.place, outcome };
                self.spoils += 1;
                return;
            }
        }
        if self.refuse == 0 {
            self.refuse = outcome;
        }
    }
}

impl Walk {
    #[inline(always)]
    fn run(&self, limit: u32) {
        let steps = limit.saturating_add(MOST_BUFFERS).saturating_add(2);
        // SAFETY: the callback's signature is the one bpf_loop wants, and `self` outlives the call.
        unsafe {
            bpf_loop(steps, step as *mut c_void, (&raw const *self).cast_mut().cast(), 0);
        }
    }
}

/// One step of a walk: the next byte, or the next buffer. Returns 1 to end the loop.
unsafe extern "C" fn step(_index: u64, context: *mut c_void) -> i64 {
    // SAFETY: bpf_loop hands back the pointer that `run` gave it, and what it points at is live.
    let walk = unsafe { &*context.cast::<Walk>() };
    // SAFETY: a live map value, which this write has claimed.
    let (reading, after) = unsafe { (&mut (*walk.gated).reading, &mut (*walk.gated).after) };
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
    if reading.place >= reading.limit {
        return 1;
    }
    if reading.at >= reading.end {
        let bytes = if reading.left < CHUNK as u64 { reading.left } else { CHUNK as u64 };
        if !read_bytes(&raw mut reading.chunk, bytes, reading.address) {
            reading.because = GATE_BECAUSE_UNREADABLE as u32;
            return 1;
        }
        (reading.at, reading.end) = (0, bytes as u32);
    }
    let byte = reading.chunk[reading.at as usize & (CHUNK - 1)];
    let place = reading.place;
    // SAFETY: live map values.
    let (view, subject) = unsafe { (View { head: &*walk.head, next: &*walk.next }, &*walk.subject) };
    let said = after.step(&view, subject, &mut reading.marks, byte, place);
    if reading.marks.name == place {
        reading.name_at = reading.address;
    }
    if reading.marks.method == place {
        reading.method_at = reading.address;
    }
    if said.outcome & (DENY | UNDECIDED) != 0 {
        reading.note(said);
    }
    reading.at += 1;
    reading.address += 1;
    reading.left -= 1;
    reading.place += 1;
    0
}

/// A write to a channel has returned, with `left` bytes that were not written. `bytes`: where those lay that were.
#[inline(always)]
pub fn returned(channel: *const Channel, result: i64, left: u64, bytes: impl FnOnce(u64) -> Option<Source>) {
    // SAFETY: a live map value.
    let id = unsafe { (*channel).write_capture };
    let Some(gated) = GATED.get_ptr_mut(id) else { return };
    // SAFETY: a live map value.
    let (claims, owner) = unsafe { ((*gated).claims, (*gated).owner) };
    if claims == 0 || owner != bpf_get_current_pid_tgid() {
        return;
    }
    if result > 0 {
        settle(id, gated, result as u64, left, bytes);
    }
    // SAFETY: a live map value, which this write has claimed.
    unsafe { (*gated).claims = 0 };
}

/// So many bytes of a write were written, and `left` were not.
#[inline(always)]
fn settle(
    id: ConnectionId,
    gated: *mut Gated,
    written: u64,
    left: u64,
    bytes: impl FnOnce(u64) -> Option<Source>,
) {
    // SAFETY: a live map value, which this write has claimed.
    unsafe {
        if left == 0 {
            (*gated).before = (*gated).after;
            (*gated).lost = (*gated).lost_after;
            return;
        }
        // Only a part, so it is read again, up to there: whatever is to be said of it has been.
        (*gated).lost = 1;
        if (*gated).is_read == 0 {
            return;
        }
        let Some(settings) = SETTINGS.get_ptr(0) else { return };
        let half = (*settings).half & 1;
        let Some(subjects) = SUBJECTS.get_ptr(id) else { return };
        let (Some(head), Some(next)) = (HEADS.get_ptr(half), NEXT.get_ptr(half)) else { return };
        let Some(source) = bytes(written) else { return };
        if written > (*settings).window as u64 {
            return;
        }
        let view = View { head: &*head, next: &*next };
        (*gated).after = (*gated).before;
        (*gated).after.begin(&view);
        (*gated).reading.begin(source, written, written as u32);
        // A vector may go on behind what was written.
        let walk = Walk { gated, head, next, subject: view.subject((*subjects).0[half as usize]) };
        walk.run(written as u32);
        if (*gated).reading.place as u64 == written {
            (*gated).before = (*gated).after;
            (*gated).lost = 0;
        }
    }
}
