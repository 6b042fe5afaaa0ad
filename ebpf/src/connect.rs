//! Connections: where a process may connect, and who is told of it.
//!
//! The hooks run before a TCP or UDP socket connects, and before a datagram is sent to an address. A destination is
//! looked up in everybody's rules, and for the processes of a server in that server's own.

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, bpf_sock_addr},
    helpers::generated::{
        bpf_get_current_cgroup_id, bpf_get_current_uid_gid, bpf_get_netns_cookie, bpf_get_socket_cookie,
        bpf_loop,
    },
    macros::map,
    maps::{Array, HashMap, LpmTrie, LruHashMap, lpm_trie::Key},
};
use core::ffi::c_void;
use mcpwarden_abi::{
    Address, AddressKey, BECAUSE_BLOCKED, BECAUSE_DEFAULT, BECAUSE_DENIED, BECAUSE_EGRESS, BECAUSE_KNOWN,
    BEGINNING_WORDS, Beginnings, ConnectInfo, ConnectionId, Counter, Flow, KEY_BITS, MEMBERSHIPS, Member,
    NETWORK_ANY_NETNS, NETWORK_DEFAULT_DENY, NETWORK_DISCOVER, NETWORK_ENFORCE, NETWORK_NAMESPACES,
    NETWORK_PORT_PREFIXES, NETWORK_PREFIXES, READ_NOT, RECORD_CONNECT, RecordHeader, SET_ALL, VERDICT_ALLOW,
    VERDICT_DENY, VERDICT_NONE,
};

use crate::{
    kernel::{self, at_most, load, offset},
    member,
    ring::{RING, header},
    socket::{self, Destination},
    tables::{self, NETWORK, SELECTED},
};

/// By the slot of [`NETWORK`]: which beginnings of addresses everybody's rules are about.
#[map(name = "BEGINNINGS")]
static BEGINNINGS: Array<Beginnings> = Array::with_max_entries(2, 0);

/// Rules for whole addresses. Room for two generations.
#[map(name = "ADDRESSES")]
static ADDRESSES: HashMap<AddressKey, Address> = HashMap::with_max_entries(32_768, BPF_F_NO_PREALLOC);

/// Rules for prefixes that are no whole addresses. Room for two generations.
#[map(name = "PREFIXES")]
static PREFIXES: LpmTrie<AddressKey, Address> = LpmTrie::with_max_entries(32_768, BPF_F_NO_PREALLOC);

/// When a socket's messages to an address were last told of; boot time, nanoseconds.
#[map(name = "FLOWS")]
static FLOWS: LruHashMap<Flow, u64> = LruHashMap::with_max_entries(8_192, 0);

/// Messages of one socket to one address are told of once in this time.
const FLOW_QUIET_NS: u64 = 10_000_000_000;

/// Bits of the whole address.
const WHOLE: u32 = 128;

/// `linux/net.h`
const SOCK_STREAM: u32 = 1;

/// Let it happen.
const PASS: i32 = 1;
/// The caller gets EPERM.
const REFUSE: i32 = 0;

/// What one set of rules says of a destination.
#[derive(Clone, Copy)]
struct Evaluation {
    verdict: u8,
    enforced: bool,
    blocked: bool,
    blocked_by: u32,
    server: u32,
    /// How that one is read: one of the `READ_…` constants.
    read: u8,
    rule: u32,
}

/// Nothing.
const NOTHING: Evaluation = Evaluation {
    verdict: VERDICT_NONE,
    enforced: false,
    blocked: false,
    blocked_by: 0,
    server: 0,
    read: READ_NOT,
    rule: 0,
};

/// Which rules of a set count for a destination.
#[derive(Clone, Copy)]
struct Scope {
    /// Those of every network namespace.
    everywhere: bool,
    /// Those of this one (cookie), where it is not 0.
    netns: u64,
}

/// Those of every network namespace, and of none alone.
const EVERYWHERE: Scope = Scope { everywhere: true, netns: 0 };

/// What comes of it.
pub struct Judgement {
    /// See [`mcpwarden_abi::Network`]: the stack has no room for all of it.
    generation: u32,
    flags: u32,
    to: Destination,
    /// What is said to everybody.
    all: u8,
    /// See [`Evaluation::read`].
    read: u8,
    /// One of the `BECAUSE_…` constants.
    because: u8,
    enforced: bool,
    /// Whether one of its servers was found.
    served: bool,
    rule: u32,
    nearest: ConnectionId,
}

/// The address in the context of a hook for IPv4.
///
/// The words are in network byte order, as they lie in memory.
#[inline(always)]
pub fn ipv4(ctx: *mut bpf_sock_addr) -> [u32; 4] {
    // SAFETY: a field of the hook's own context.
    [0, 0, 0xffff_0000, unsafe { (*ctx).user_ip4 }]
}

/// The same for IPv6. Volatile, since the verifier wants each word read by itself.
#[inline(always)]
pub fn ipv6(ctx: *mut bpf_sock_addr) -> [u32; 4] {
    // SAFETY: fields of the hook's own context.
    unsafe {
        [
            core::ptr::read_volatile(&raw const (*ctx).user_ip6[0]),
            core::ptr::read_volatile(&raw const (*ctx).user_ip6[1]),
            core::ptr::read_volatile(&raw const (*ctx).user_ip6[2]),
            core::ptr::read_volatile(&raw const (*ctx).user_ip6[3]),
        ]
    }
}

/// A socket is about to connect, or (`message`) a datagram about to be sent, to the address that `asked` reads from the context. What the
/// hook is to return.
#[inline(always)]
pub fn decide(ctx: *mut bpf_sock_addr, asked: impl Fn(*mut bpf_sock_addr) -> [u32; 4], message: bool) -> i32 {
    let Some(selected) = SELECTED.get_ptr(0) else { return PASS };
    // SAFETY: a live map value. Read once: it may change meanwhile.
    let slot = unsafe { core::ptr::read_volatile(selected) };
    let Some(network) = NETWORK.get(slot) else { return PASS };
    let tgid: u32 = load(kernel::current(), offset!(task_tgid));
    // SAFETY: a field of the hook's own context.
    let (to, beginning) = destination(asked(ctx), unsafe { (*ctx).user_port });
    let all = if begins(slot, beginning) {
        let is_alone = network.flags & NETWORK_NAMESPACES != 0;
        let netns = if to.loopback || is_alone { netns_of(ctx) } else { 0 };
        let elsewhere =
            to.loopback && network.flags & NETWORK_ANY_NETNS == 0 && netns != network.netns_cookie;
        let scope = Scope { everywhere: !elsewhere, netns: if is_alone { netns } else { 0 } };
        look_up(network.generation, network.flags, SET_ALL, &to, scope)
    } else {
        NOTHING
    };

    let mut judgement = Judgement {
        generation: network.generation,
        flags: network.flags,
        to,
        all: all.verdict,
        read: all.read,
        because: BECAUSE_KNOWN,
        enforced: false,
        served: false,
        rule: all.rule,
        nearest: 0,
    };
    if all.blocked {
        (judgement.because, judgement.enforced, judgement.rule) = (BECAUSE_BLOCKED, true, all.blocked_by);
    } else if all.verdict == VERDICT_DENY {
        (judgement.because, judgement.enforced) = (BECAUSE_DENIED, all.enforced);
    }
    ask_servers(&raw mut judgement, tgid);
    let denied = judgement.because != BECAUSE_KNOWN;
    let refused = denied && judgement.enforced;
    let said = denied || all.server != 0 || judgement.nearest != 0;
    // SAFETY: a field of the hook's own context.
    let is_stream = !message && unsafe { (*ctx).type_ } == SOCK_STREAM;
    if is_stream {
        // SAFETY: a helper on the hook's own context.
        socket::again(unsafe { bpf_get_socket_cookie(ctx.cast()) });
    }
    let is_sniffed = judgement.read != READ_NOT || to.loopback && network.flags & NETWORK_DISCOVER != 0;
    let captured = is_stream && is_sniffed && !refused;
    if said || captured {
        // SAFETY: a helper on the hook's own context.
        let socket = unsafe { bpf_get_socket_cookie(ctx.cast()) };
        // Read once more: there is no room on the stack to keep it.
        let address = asked(ctx);
        if !message || fresh(socket, address, to.port) {
            // SAFETY: fields of the hook's own context.
            let (family, protocol) = unsafe { ((*ctx).family, (*ctx).protocol) };
            let info = ConnectInfo {
                start_ns: kernel::started(),
                // SAFETY: a helper without arguments.
                cgroup_id: unsafe { bpf_get_current_cgroup_id() },
                netns_cookie: netns_of(ctx),
                address: bytes(address),
                generation: judgement.generation,
                server: all.server,
                rule: judgement.rule,
                // SAFETY: a helper without arguments.
                uid: unsafe { bpf_get_current_uid_gid() } as u32,
                port: to.port,
                family: family as u16,
                protocol: protocol as u8,
                verdict: if denied { VERDICT_DENY } else { judgement.all },
                enforced: refused as u8,
                because: judgement.because,
            };
            if said {
                tell(tgid, judgement.nearest, &info);
            }
            if captured {
                socket::opens(ctx, tgid, &judgement.to, &info, judgement.read);
            }
        }
    }
    if refused { REFUSE } else { PASS }
}

/// State of the loop over the servers that a process belongs to.
struct Asking {
    judgement: Judgement,
    member: *const Member,
}

/// Asks all servers that the process belongs to, if it belongs to any.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn ask_servers(judgement: *mut Judgement, tgid: u32) -> i32 {
    let Some(member) = member::of(tgid) else { return 0 };
    if judgement.is_null() {
        return 0;
    }
    // `bpf_loop` takes what lies on the stack of who calls it.
    // SAFETY: the verifier has seen that it is one.
    let mut asking = Asking { judgement: unsafe { judgement.read() }, member };
    // Perhaps a server's, only not known to be one yet.
    asking.judgement.nearest = member.connections[0];
    // SAFETY: the callback's signature is the one bpf_loop wants, and `asking` outlives the call; `judgement` as above.
    unsafe {
        bpf_loop(MEMBERSHIPS as u32, ask_server as *mut c_void, (&raw mut asking).cast(), 0);
        judgement.write(asking.judgement);
    }
    0
}

/// One of the servers that the process belongs to: do its own rules let it connect? Returns 1 to end the loop.
unsafe extern "C" fn ask_server(index: u64, context: *mut c_void) -> i64 {
    // SAFETY: bpf_loop hands back the pointer that `ask_servers` gave it.
    let Asking { judgement, member } = unsafe { &mut *context.cast::<Asking>() };
    let place = at_most(index, (MEMBERSHIPS - 1) as u64) as usize;
    // SAFETY: a live map value, and a place within it.
    let connection =
        unsafe { (&raw const (**member).connections).cast::<ConnectionId>().add(place).read_volatile() };
    if connection == 0 {
        return 1;
    }
    let Some(set) = tables::server_set(connection) else { return 0 };
    if !judgement.served {
        judgement.nearest = connection;
    }
    judgement.served = true;
    let (because, verdict) = if set == SET_ALL {
        let open = judgement.flags & NETWORK_DEFAULT_DENY == 0;
        (BECAUSE_DEFAULT, if open { VERDICT_ALLOW } else { judgement.all })
    } else {
        (
            BECAUSE_EGRESS,
            look_up(judgement.generation, judgement.flags, set, &judgement.to, EVERYWHERE).verdict,
        )
    };
    if verdict != VERDICT_ALLOW && judgement.because == BECAUSE_KNOWN {
        judgement.because = because;
        // Whose rules they are: perhaps those of a server further up.
        judgement.nearest = connection;
        judgement.enforced = judgement.flags & NETWORK_ENFORCE != 0;
        judgement.rule = 0;
    }
    0
}

/// The cookie of the socket's network namespace.
#[inline(always)]
fn netns_of(ctx: *mut bpf_sock_addr) -> u64 {
    // SAFETY: a helper on the hook's own context.
    unsafe { bpf_get_netns_cookie(ctx.cast()) }
}

/// Whether any of everybody's rules is about an address that begins so. Of most addresses none is, and one look is
/// cheaper than four.
#[inline(always)]
fn begins(slot: u32, beginning: u32) -> bool {
    let Some(beginnings) = BEGINNINGS.get_ptr(slot) else { return false };
    let (word, bit) = Beginnings::place(beginning);
    // Seen by the verifier where it counts; the compiler would leave it out.
    let word = at_most(word as u64, (BEGINNING_WORDS - 1) as u64) as usize;
    // SAFETY: a live map value, and `place` stays within it.
    let word = unsafe { core::ptr::read_volatile((&raw const (*beginnings).words).cast::<u32>().add(word)) };
    word & bit != 0
}

/// What an address and a port (in network byte order) mean; and how the address begins, see [`Beginnings`].
#[inline(always)]
fn destination(asked: [u32; 4], port: u32) -> (Destination, u32) {
    const LOOPBACK: u32 = u32::from_ne_bytes([127, 0, 0, 1]);
    const ONE: u32 = u32::from_ne_bytes([0, 0, 0, 1]);
    let mut words = asked;
    let mapped = words[0] == 0 && words[1] == 0 && words[2] == 0xffff_0000;
    let none = words[0] | words[1] | words[2] == 0;
    if words[3] == 0 && mapped {
        words[3] = LOOPBACK;
    } else if words[3] == 0 && none {
        words[3] = ONE;
    }
    let loopback = (mapped && words[3] & 0xff == 127) || (none && words[3] == ONE);
    let first = if mapped { words[3] } else { words[0] };
    let beginning = Beginnings::of(u32::from_be(first), mapped);
    let to = Destination { address: bytes(words), port: u16::from_be(port as u16), loopback };
    (to, beginning)
}

#[inline(always)]
fn bytes(words: [u32; 4]) -> [u8; 16] {
    // SAFETY: as many bytes, and any are allowed.
    unsafe { core::mem::transmute(words) }
}

/// What one set of rules says of a destination: the more of the address a rule names, the more it counts; where two
/// name as much, the one that names the port.
#[inline(always)]
fn look_up(generation: u32, flags: u32, set: u16, to: &Destination, scope: Scope) -> Evaluation {
    // One key for all: there is little stack.
    let mut key = Key::new(
        KEY_BITS + WHOLE,
        AddressKey { generation, set, port: to.port, netns: [0; 2], address: to.address },
    );
    let mut said = NOTHING;
    // How much of the address the rule names that counts so far, and until when it is blocked.
    let (mut bits, mut until) = (0, 0);
    if scope.everywhere {
        key.data.port = 0;
        weigh(find(&key, flags & NETWORK_PREFIXES != 0), &mut said, &mut bits, &mut until);
        key.data.port = to.port;
        weigh(find(&key, flags & NETWORK_PORT_PREFIXES != 0), &mut said, &mut bits, &mut until);
    }
    if scope.netns != 0 {
        key.data.netns = AddressKey::halves(scope.netns);
        weigh(find(&key, false), &mut said, &mut bits, &mut until);
    }
    said.blocked = until != 0;
    said
}

/// What one more entry says: the last of those that name as much counts.
#[inline(always)]
fn weigh(found: *const Address, said: &mut Evaluation, bits: &mut u8, until: &mut u64) {
    if found.is_null() {
        return;
    }
    // SAFETY: a live map value.
    let found = unsafe { &*found };
    if found.server != 0 {
        said.server = found.server;
        said.read = found.read;
    }
    if found.blocked_until_ns > *until && found.blocked_until_ns > tables::now() {
        *until = found.blocked_until_ns;
        said.blocked_by = found.blocked_by;
    }
    if found.verdict != VERDICT_NONE && found.verdict_bits >= *bits {
        *bits = found.verdict_bits;
        said.verdict = found.verdict;
        said.enforced = found.enforced != 0;
        said.rule = found.rule;
    }
}

/// What is there; null for nothing.
#[inline(always)]
fn find(key: &Key<AddressKey>, prefixes: bool) -> *const Address {
    // SAFETY: it lies behind a number of four bytes, and needs to be aligned to no more.
    if let Some(found) = ADDRESSES.get_ptr(unsafe { &*(&raw const key.data) }) {
        return found;
    }
    if !prefixes {
        return core::ptr::null();
    }
    PREFIXES.get(key).map_or(core::ptr::null(), |found| found as *const Address)
}

/// Whether this socket's messages to there are to be told of now.
#[inline(always)]
fn fresh(socket: u64, asked: [u32; 4], port: u16) -> bool {
    let flow = Flow { socket, address: bytes(asked), port, zero: [0; 3] };
    let now = tables::now();
    if let Some(last) = FLOWS.get_ptr(&flow) {
        // SAFETY: a live map value.
        if now - unsafe { *last } < FLOW_QUIET_NS {
            tables::count(Counter::MessagesRepeated, 1);
            return false;
        }
    }
    let _ = FLOWS.insert(&flow, &now, 0);
    true
}

/// A connection's record as it lies in the ring.
#[repr(C)]
struct ConnectRecord {
    header: RecordHeader,
    info: ConnectInfo,
}

#[inline(always)]
fn tell(tgid: u32, connection: ConnectionId, info: &ConnectInfo) {
    let Some(mut entry) = RING.reserve::<ConnectRecord>(0) else {
        tables::count(Counter::ConnectsUntold, 1);
        return;
    };
    entry.write(ConnectRecord {
        header: header(RECORD_CONNECT, connection, (tgid, info.uid), size_of::<ConnectInfo>()),
        info: *info,
    });
    entry.submit(0);
}
