//! The tables that several hooks share, and their raw look-ups: which inodes are channels, which connections they belong to,
//! which processes to watch.
//!
//! Every table has a capacity, and what finds it full is counted, never evicted in silence.

use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC,
    helpers::generated::bpf_ktime_get_boot_ns,
    macros::map,
    maps::{Array, HashMap, LruHashMap, PerCpuArray},
};
use core::intrinsics::{AtomicOrdering, atomic_xadd};
use mcpwarden_abi::{
    COUNTERS, Channel, ChannelKey, Connection, ConnectionId, Counter, Endpoint, NETWORK_DISCOVER, Network,
    Positions, SOCKET, SOCKETS_MOST, Socket,
};
use mcpwarden_gate::Number;

use crate::kernel;

/// The only thing a hook looks up for a descriptor. Its 3 MB are taken at once, as those of the table of sockets are.
#[map(name = "CHANNELS")]
pub static CHANNELS: HashMap<ChannelKey, Channel> = HashMap::with_max_entries(32_768, 0);

/// Words of [`CHANNEL_INODES`]: a power of two.
const INODE_WORDS: usize = 1 << 14;

/// Which inodes may be channels: a bit for the lowest digits of their numbers, which is set before one is and stays set (128 KiB; of
/// servers that start every two seconds it takes a day and a half until half the bits are). All other inodes, which are nearly all
/// that are read and written, need no look-up then.
#[map(name = "CHANNEL_INODES")]
static CHANNEL_INODES: Array<[Number; INODE_WORDS]> = Array::with_max_entries(1, 0);

/// What is known of each connection.
#[map(name = "CONNECTIONS")]
pub static CONNECTIONS: HashMap<ConnectionId, Connection> =
    HashMap::with_max_entries(8_192, BPF_F_NO_PREALLOC);

/// Connections that user space knows to be servers, and the set of rules that says where their processes may connect
/// (`SET_ALL`: they have none of their own). A table of its own: user space must not write into [`CONNECTIONS`], whose
/// positions move all the time.
#[map(name = "CONFIRMED")]
static CONFIRMED: HashMap<ConnectionId, u32> = HashMap::with_max_entries(8_192, BPF_F_NO_PREALLOC);

/// What is known of each connection of sockets whose bytes are captured, by its key. Its 7 MB are taken at once: each connection
/// within the host comes in and goes, and would wait for memory.
#[map(name = "SOCKETS")]
pub static SOCKETS: HashMap<ConnectionId, Socket> = HashMap::with_max_entries(SOCKETS_MOST, 0);

/// How many of these each user has (real user id). User space counts them anew now and then, without those that it takes out.
#[map(name = "SOCKETS_OF")]
pub static SOCKETS_OF: HashMap<u32, u64> = HashMap::with_max_entries(4_096, BPF_F_NO_PREALLOC);

/// Connections of sockets of which user space knows that they are a server's: everything is captured. A table of its own: user space
/// must not write into [`SOCKETS`], whose positions move all the time.
#[map(name = "LIFTED")]
pub static LIFTED: HashMap<ConnectionId, u32> = HashMap::with_max_entries(16_384, BPF_F_NO_PREALLOC);

/// Where servers were found that nobody declared: what goes there is captured from the first byte on.
#[map(name = "FOUND")]
pub static FOUND: HashMap<Endpoint, u32> = HashMap::with_max_entries(4_096, BPF_F_NO_PREALLOC);

/// Processes (tgid) that may hold a channel, with the time (boot, ns) at which that was last known.
/// Inherited on fork; keeps everybody else out of the walk to the inode.
#[map(name = "PROCESSES")]
static PROCESSES: HashMap<u32, u64> = HashMap::with_max_entries(65_536, BPF_F_NO_PREALLOC);

/// Who forked a process. The kernel forgets it when the parent ends, and a server whose parents are gone still has
/// a client: see [`forebears`]. What this table forgets, the next fd scan finds.
#[map(name = "FORKED_BY")]
static FORKED_BY: LruHashMap<u32, Forker> = LruHashMap::with_max_entries(16_384, 0);

/// Of which of its descriptors 0 and 1 a process has put another file in the place, bit by bit, since it was forked or ran its
/// program; in the bits above, when it started (see [`BITS`]). What this table forgets is a server that the next start of the agent finds.
#[map(name = "REPLACED")]
static REPLACED: LruHashMap<u32, u64> = LruHashMap::with_max_entries(4_096, 0);

/// A process that forked another.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Forker {
    /// When it started; boot time, nanoseconds.
    pub start_ns: u64,
    /// Its process id (tgid).
    pub tgid: u32,
    /// Always 0: the verifier wants every byte of a map's value written.
    pub zero: u32,
}

/// The next connection's number.
#[map(name = "NEXT_CONNECTION")]
static NEXT_CONNECTION: Array<u64> = Array::with_max_entries(1, 0);

/// The network rules that count, and those that counted before or will next.
#[map(name = "NETWORK")]
pub static NETWORK: Array<Network> = Array::with_max_entries(2, 0);

/// Which of the two counts: 0 or 1, so that one byte changes and nobody can read half of it.
#[map(name = "SELECTED")]
pub static SELECTED: Array<u32> = Array::with_max_entries(1, 0);

#[map(name = "COUNTERS")]
static COUNTER_VALUES: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTERS, 0);

/// Adds to one of the counters.
#[inline(always)]
pub fn count(counter: Counter, by: u64) {
    if let Some(value) = COUNTER_VALUES.get_ptr_mut(counter as u32) {
        // Atomic, since a preempted program may run on this CPU too.
        advance(value, by);
    }
}

/// Nanoseconds since boot, suspension included.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// Whether this process may hold a channel.
#[inline(always)]
pub fn watches(tgid: u32) -> bool {
    PROCESSES.get_ptr(tgid).is_some()
}

/// From now on this process's reads and writes are looked at.
#[inline(always)]
pub fn watch(tgid: u32) {
    if let Some(since) = PROCESSES.get_ptr_mut(tgid) {
        // In its place: for one that is put there anew, memory would have to be found, for each connection. User space
        // may take it out meanwhile, with the old time.
        // SAFETY: a live map value.
        unsafe { core::ptr::write_volatile(since, now()) };
        if watches(tgid) {
            return;
        }
    }
    if PROCESSES.insert(tgid, now(), 0).is_err() {
        count(Counter::ProcessesRefused, 1);
    }
}

/// The process is gone.
#[inline(always)]
pub fn forget(tgid: u32) {
    let _ = PROCESSES.remove(tgid);
}

/// In [`REPLACED`]: both descriptors.
const BOTH: u64 = 3;
/// They were registered: once, since a process can put descriptors into their places as often as it likes.
const REGISTERED: u64 = 4;
/// All of these.
const BITS: u64 = BOTH | REGISTERED;

/// A process has put another file in the place of its descriptor, 0 or 1. Whether it has done so of both, and what comes of it
/// was not registered.
#[inline(always)]
pub fn replaces(tgid: u32, descriptor: u32) -> bool {
    let started = kernel::started() & !BITS;
    // SAFETY: a live map value.
    let known = REPLACED.get_ptr(&tgid).map_or(0, |known| unsafe { *known });
    // Of an earlier process of this number nothing stays.
    let before = if (known & !BITS) == started { known & BITS } else { 0 };
    let bits = before | 1 << (descriptor & 1);
    if bits != before {
        let _ = REPLACED.insert(&tgid, &(started | bits), 0);
    }
    bits == BOTH
}

/// They are registered.
#[inline(always)]
pub fn replacement_registered(tgid: u32) {
    let _ = REPLACED.insert(&tgid, &(kernel::started() & !BITS | BOTH | REGISTERED), 0);
}

/// What a process has put in the place of its descriptors are those of the program that it runs.
#[inline(always)]
pub fn forget_replaced(tgid: u32) {
    if REPLACED.get_ptr(&tgid).is_some() {
        let _ = REPLACED.remove(&tgid);
    }
}

/// Remembers who forked a process.
#[inline(always)]
pub fn remember_fork(child: u32, forker: Forker) {
    let _ = FORKED_BY.insert(child, &forker, 0);
}

/// Who forked a process; 0 where that is not known.
#[inline(always)]
pub fn forker(tgid: u32) -> u32 {
    match FORKED_BY.get_ptr(tgid) {
        // SAFETY: a live map value.
        Some(forker) => unsafe { (*forker).tgid },
        None => 0,
    }
}

/// How many processes above an orphan are looked for: two forks, and the client.
pub const FOREBEARS: usize = 3;

/// Who forked a process, who forked that one, and so on; whether they still live is not known.
#[inline(always)]
pub fn forebears(tgid: u32) -> [Option<Forker>; FOREBEARS] {
    let mut found = [None; FOREBEARS];
    let mut at = tgid;
    for slot in 0..FOREBEARS {
        let Some(forker) = FORKED_BY.get_ptr(at) else { break };
        // SAFETY: a live map value.
        let forker = unsafe { *forker };
        found[slot] = Some(forker);
        at = forker.tgid;
    }
    found
}

/// The word of [`CHANNEL_INODES`] that the bit of an inode is in, and the bit.
#[inline(always)]
fn bit_of(inode: u64) -> Option<(&'static Number, u64)> {
    // SAFETY: a live map value.
    let words = unsafe { &*CHANNEL_INODES.get_ptr(0)? };
    Some((&words[(inode >> 6) as usize & (INODE_WORDS - 1)], 1 << (inode & 63)))
}

/// Whether an inode of this number can be a channel: false for nearly all that are none.
#[inline(always)]
pub fn may_be_channel(inode: u64) -> bool {
    // There always is a word: with "true" where there is none, the verifier would go through all that follows twice.
    bit_of(inode).is_some_and(|(word, bit)| word.get() & bit != 0)
}

/// An inode is about to become a channel.
#[inline(always)]
pub fn expect_channel(key: &ChannelKey) {
    if let Some((word, bit)) = bit_of(key.inode)
        && word.get() & bit == 0
    {
        word.or(bit);
    }
}

/// What reads and writes on this inode mean.
#[inline(always)]
pub fn channel(key: &ChannelKey) -> Option<*const Channel> {
    CHANNELS.get_ptr(key)
}

/// What is known of a connection of pipes or Unix sockets.
#[inline(always)]
pub fn connection(id: ConnectionId) -> Option<*const Connection> {
    CONNECTIONS.get_ptr(id)
}

/// What is known of a connection of sockets, by its key.
#[inline(always)]
pub fn socket(key: ConnectionId) -> Option<*mut Socket> {
    SOCKETS.get_ptr_mut(&key)
}

/// Whether user space knows a connection of sockets to be a server's.
#[inline(always)]
pub fn lifted(key: ConnectionId) -> bool {
    LIFTED.get_ptr(&key).is_some()
}

/// How far a connection is: its live entry.
#[inline(always)]
pub fn positions(id: ConnectionId) -> Option<*mut Positions> {
    if id & SOCKET != 0 {
        // SAFETY: a live map value; the address of a field of it.
        return socket(id).map(|socket| unsafe { &raw mut (*socket).positions });
    }
    // SAFETY: as above.
    CONNECTIONS.get_ptr_mut(id).map(|connection| unsafe { &raw mut (*connection).positions })
}

/// The number of a connection, by which user space knows it; of one of sockets it is not its key.
#[inline(always)]
pub fn number(id: ConnectionId) -> Option<ConnectionId> {
    if id & SOCKET == 0 {
        return Some(id);
    }
    // SAFETY: a live map value.
    socket(id).map(|socket| unsafe { (*socket).positions.number })
}

/// Whether user space knows this connection to be a server.
#[inline(always)]
pub fn confirmed(id: ConnectionId) -> bool {
    CONFIRMED.get_ptr(id).is_some()
}

/// Which set of rules says where the processes of this connection's server may connect; `None` where user space does
/// not know it to be a server.
#[inline(always)]
pub fn server_set(id: ConnectionId) -> Option<u16> {
    // SAFETY: a live map value.
    CONFIRMED.get_ptr(id).map(|set| unsafe { *set } as u16)
}

/// Adds `bytes` to a position and returns where they begin. Several writers get ranges of their own.
///
/// Not relaxed: for that LLVM 22 emits the addition that returns nothing, and the result is garbage.
#[inline(always)]
pub fn advance(position: *mut u64, bytes: u64) -> u64 {
    // SAFETY: a field of a live map value.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(position, bytes) }
}

/// The connection whose server has these two descriptors as stdin and stdout, if there is one.
#[inline(always)]
pub fn find(input: &ChannelKey, output: &ChannelKey) -> Option<ConnectionId> {
    let read: *const Channel = channel(input)?;
    let write: *const Channel = channel(output)?;
    // SAFETY: live map values.
    let (a, b) = unsafe { ((*read).read_count, (*write).write_count) };
    // The server's end of a connection of sockets is no stdin and stdout that anybody waits for.
    (a != 0 && a == b && a & SOCKET == 0).then_some(a)
}

/// A number that no connection had before.
#[inline(always)]
pub fn next_number() -> Option<ConnectionId> {
    Some(advance(NEXT_CONNECTION.get_ptr_mut(0)?, 1) + 1)
}

/// Gives an inode that is no other channel these roles. Whether there was room.
#[inline(always)]
pub fn assign_alone(key: &ChannelKey, roles: &Channel) -> bool {
    expect_channel(key);
    let there = CHANNELS.insert(key, roles, 0).is_ok();
    if !there {
        count(Counter::ChannelsRefused, 1);
    }
    there
}

/// An inode is no channel of this connection any more; it was no other's.
#[inline(always)]
pub fn forsake(key: &ChannelKey, id: ConnectionId) {
    if let Some(roles) = channel(key)
        // SAFETY: a live map value.
        && unsafe { (*roles).write_capture } == id
    {
        let _ = CHANNELS.remove(key);
    }
}

/// The server's end of a connection of sockets is no channel of it any more.
#[inline(always)]
pub fn forsake_far(key: &ChannelKey, id: ConnectionId) {
    if key.inode == 0 {
        return;
    }
    let Some(roles) = CHANNELS.get_ptr_mut(key) else { return };
    // SAFETY: a live map value.
    unsafe {
        if (*roles).write_count != id {
            return;
        }
        if ((*roles).write_capture | (*roles).read_capture) == 0 {
            let _ = CHANNELS.remove(key);
        } else {
            // One after the other: two at once are a call of `memset`, which the stack of some callers has no room for before 6.8.
            (&raw mut (*roles).write_count).write_volatile(0);
            (&raw mut (*roles).read_count).write_volatile(0);
        }
    }
}

/// Whether connections within this host are looked at that nobody declared.
#[inline(always)]
pub fn discovers() -> bool {
    network().is_some_and(|network| network.flags & NETWORK_DISCOVER != 0)
}

/// Which generation of the network rules counts.
#[inline(always)]
pub fn generation() -> u32 {
    network().map_or(0, |network| network.generation)
}

/// The network rules that count.
#[inline(always)]
fn network() -> Option<&'static Network> {
    let selected = SELECTED.get_ptr(0)?;
    // SAFETY: a live map value. Read once: it may change meanwhile.
    let slot = unsafe { core::ptr::read_volatile(selected) };
    NETWORK.get(slot)
}
