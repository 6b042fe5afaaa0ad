//! Addresses that connections go to: the tables that judge them, and the record of a connection.

use crate::{ChannelKey, ConnectionId, Positions, Stream};

/// Follows the header of a [`crate::RECORD_CONNECT`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectInfo {
    /// Start of the process since boot, nanoseconds (`task_struct.start_boottime`).
    pub start_ns: u64,
    /// cgroup v2 id of the process.
    pub cgroup_id: u64,
    /// Cookie of the socket's network namespace.
    pub netns_cookie: u64,
    /// Where to; IPv4 as its mapped IPv6 address. As the process asked for it, before anything else was made of it.
    pub address: [u8; 16],
    /// Which generation of the tables judged it.
    pub generation: u32,
    /// Which declared server the address belongs to, as the table says; 0 for none.
    pub server: u32,
    /// Which rule decided, as the table says; 0 for none.
    pub rule: u32,
    /// Real user id.
    pub uid: u32,
    /// Port, in the processor's byte order.
    pub port: u16,
    /// `AF_INET` or `AF_INET6`: of the socket, whatever the address. `AF_UNIX` in a [`SocketInfo`] alone.
    pub family: u16,
    /// `IPPROTO_…`
    pub protocol: u8,
    /// One of the `VERDICT_…` constants.
    pub verdict: u8,
    /// Whether the connection was refused for it.
    pub enforced: u8,
    /// Why: one of the `BECAUSE_…` constants.
    pub because: u8,
}

/// Nothing says anything of it.
pub const VERDICT_NONE: u8 = 0;
/// A rule lets it through.
pub const VERDICT_ALLOW: u8 = 1;
/// A rule denies it.
pub const VERDICT_DENY: u8 = 2;

/// The address is a declared server's, and nothing speaks against it.
pub const BECAUSE_KNOWN: u8 = 0;
/// The address is denied to everybody.
pub const BECAUSE_DENIED: u8 = 1;
/// The address is blocked for a time, to everybody.
pub const BECAUSE_BLOCKED: u8 = 2;
/// A server's own rules do not let its processes connect there.
pub const BECAUSE_EGRESS: u8 = 3;
/// No rule lets the processes of servers connect there, and `network.default` is `deny`.
pub const BECAUSE_DEFAULT: u8 = 4;

/// What every hook asks first. There are two, one of which counts, so that all of it changes at once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Cookie of the network namespace whose loopback the rules mean.
    pub netns_cookie: u64,
    /// The generation of the tables that counts.
    pub generation: u32,
    /// `NETWORK_…` bits.
    pub flags: u32,
}

/// Servers' own rules, and the default for them, are enforced and not only reported.
pub const NETWORK_ENFORCE: u32 = 1;
/// Processes of servers connect only where a rule says so.
pub const NETWORK_DEFAULT_DENY: u32 = 2;
/// Loopback rules mean the loopback of every network namespace.
pub const NETWORK_ANY_NETNS: u32 = 4;
/// There are prefixes that are no whole addresses, with a port.
pub const NETWORK_PORT_PREFIXES: u32 = 8;
/// There are prefixes that are no whole addresses, for every port.
pub const NETWORK_PREFIXES: u32 = 16;

/// Which beginnings of addresses rules are about: a bit for each value of [`Beginnings::of`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Beginnings {
    /// The bits; see [`Beginnings::place`].
    pub words: [u32; BEGINNING_WORDS],
}

/// Words of [`Beginnings`].
pub const BEGINNING_WORDS: usize = 2 * (1 << BEGINNING_BITS) / 32;
/// Bits of an address that count as its beginning.
pub const BEGINNING_BITS: u32 = 16;

impl Beginnings {
    /// That of an address: `first` are the first 32 bits of it, of an IPv4 address (`four`) all, in the processor's byte
    /// order.
    #[inline(always)]
    pub const fn of(first: u32, four: bool) -> u32 {
        (first >> (32 - BEGINNING_BITS)) | ((four as u32) << BEGINNING_BITS)
    }

    /// The word that holds a beginning's bit, and the bit.
    #[inline(always)]
    pub const fn place(beginning: u32) -> (usize, u32) {
        ((beginning / 32) as usize, 1 << (beginning % 32))
    }
}

/// There are rules of single network namespaces: on whole addresses, with their port.
pub const NETWORK_NAMESPACES: u32 = 64;
/// TCP connections to loopback addresses are captured until it is clear that they are no MCP's.
pub const NETWORK_DISCOVER: u32 = 32;

/// A destination: key of the tables of whole addresses and, behind a length, of prefixes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressKey {
    /// Of which generation. Two live side by side while one takes the other's place.
    pub generation: u32,
    /// Whose rules: [`SET_ALL`], or a server's own.
    pub set: u16,
    /// Port, 0 for every one.
    pub port: u16,
    /// Cookie of the network namespace that it holds in, its lower half first: behind a length, no number of eight bytes is
    /// aligned. 0 for every one.
    pub netns: [u32; 2],
    /// In network byte order, IPv4 as its mapped IPv6 address.
    pub address: [u8; 16],
}

impl AddressKey {
    /// The two halves of a cookie.
    #[inline(always)]
    pub const fn halves(cookie: u64) -> [u32; 2] {
        [cookie as u32, (cookie >> 32) as u32]
    }
}

/// Bits of an [`AddressKey`] before the address.
pub const KEY_BITS: u32 = 128;
/// Everybody's rules.
pub const SET_ALL: u16 = 0;

/// What the tables say of a destination.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Until when it is blocked, whatever else is said; nanoseconds since boot, 0 for not at all.
    pub blocked_until_ns: u64,
    /// Which declared server it belongs to, 0 for none.
    pub server: u32,
    /// Which rule gave the verdict, 0 for none.
    pub rule: u32,
    /// Which rule blocks it, 0 for none.
    pub blocked_by: u32,
    /// One of the `VERDICT_…` constants.
    pub verdict: u8,
    /// How much of the address the rule names that gave it: one more than its bits, 0 where there is none.
    pub verdict_bits: u8,
    /// Whether a denial is enforced and not only reported.
    pub enforced: u8,
    /// How the server there is read: one of the `READ_…` constants.
    pub read: u8,
}

/// Not at all.
pub const READ_NOT: u8 = 0;
/// It is spoken to in plain text, so that the bytes of sockets say something.
pub const READ_PLAIN: u8 = 1;
/// It is spoken to over TLS, and what goes into TLS and comes out of it is read in the client.
pub const READ_TLS: u8 = 2;

/// Where something listens.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Cookie of the network namespace.
    pub netns_cookie: u64,
    /// As it is reached, IPv4 as its mapped IPv6 address. Of a Unix socket, a hash of its name, with port 0.
    pub address: [u8; 16],
    /// Port, in the processor's byte order.
    pub port: u16,
    /// Always 0.
    pub zero: [u16; 3],
}

/// Connections of sockets whose bytes are captured at once, at most.
pub const SOCKETS_MOST: u32 = 16_384;
/// The same of one user: nobody keeps those of others from being captured.
pub const SOCKETS_MOST_OF_ONE: u32 = SOCKETS_MOST / 4;

/// Most bytes of the name of a Unix socket (`sun_path`).
pub const UNIX_NAME_BYTES: usize = 108;

/// What a client's Unix socket is connected to. All 0 over TCP.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The process (tgid) that listened when the client connected.
    pub pid: u32,
    /// Bytes of `name` that are one.
    pub length: u32,
    /// The name that it is bound to: a path, or behind a 0 an abstract name.
    pub name: [u8; UNIX_NAME_BYTES],
    /// Always 0.
    pub zero: u32,
}

impl Default for Listener {
    fn default() -> Self {
        Self { pid: 0, length: 0, name: [0; UNIX_NAME_BYTES], zero: 0 }
    }
}

/// Follows the header of a [`crate::RECORD_SOCKET`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketInfo {
    /// Who connected, and where to.
    pub connect: ConnectInfo,
    /// What is there, of a Unix socket.
    pub listener: Listener,
}

/// A connection of sockets whose bytes are captured, as the kernel half knows it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Socket {
    /// How far it is.
    pub positions: Positions,
    /// The client's socket.
    pub key: ChannelKey,
    /// Where it goes, over TCP.
    pub endpoint: Endpoint,
    /// Who connected, and where to.
    pub info: SocketInfo,
    /// Of a Unix socket: the server's end, once it is known; its bytes are counted ([`crate::Stream::far`]).
    pub far: ChannelKey,
    /// What that count begins with, by direction. Over TCP: the kernel's own count when the connection began for us. Of Unix sockets
    /// until [`Self::is_counted`]: what had passed both ends when they were last looked at.
    pub base: [u64; 2],
    /// Of a Unix socket: 1 where the two counts began with the same byte.
    pub is_counted: u64,
    /// Of one over TLS, whose plaintext is read in the client: which connection of the client's library it is. Its address is 0 where the bytes
    /// of the socket are read, and [`TLS_UNBOUND`] while that is not known.
    pub tls: TlsConnection,
    /// Of one over TLS: what passed the socket. It is no part of its streams.
    pub encrypted: Encrypted,
    /// Of one over TLS: 1 where the gate has refused a call. Nothing is written to it any more.
    pub refused: u64,
}

impl Socket {
    /// How far it is.
    pub fn so_far(&self) -> SoFar {
        SoFar { streams: self.positions.streams, encrypted: self.encrypted }
    }
}

/// How many bytes passed the socket of a connection over TLS, by direction.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encrypted {
    /// All.
    pub all: [u64; 2],
    /// Of them, those that passed before it was known which connection of the client's library it is: their plaintext was not read. Of the
    /// client's, what is no part of a handshake: writes that begin with a record of application data (RFC 8446, section 5.1).
    pub before: [u64; 2],
    /// Calls of the library that wrote or read plaintext of it. A record that passed after that belongs to one of them, or to none that was
    /// seen.
    pub calls: [u64; 2],
}

/// How far a connection is, or was that has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// By direction.
    pub streams: [Stream; 2],
    /// Of one over TLS: what passed the socket.
    pub encrypted: Encrypted,
}

/// See [`Socket::tls`]. No connection of a library has this address.
pub const TLS_UNBOUND: u64 = 1;

/// A connection of a TLS library in a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsConnection {
    /// Its address there.
    pub address: u64,
    /// The process (tgid).
    pub tgid: u32,
    /// When it started: the lower half of microseconds since boot. Its number may be another's later.
    pub started: u32,
}

/// The last call of a thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsLast {
    /// Address of the connection that it was about.
    pub connection: u64,
    /// Bytes of plaintext that were to be written. No fewer bytes go to the socket.
    pub bytes: u64,
    /// Bytes of plaintext that were written before it was known which socket the connection has, and their address.
    pub pending: u64,
    /// See there.
    pub buffer: u64,
    /// When the process started, as in [`TlsConnection`].
    pub started: u32,
    /// One of the `TLS_…` roles.
    pub role: u8,
    /// 1 while it has not returned: of a function that reads or writes.
    pub is_under_way: u8,
    /// 1 where calls that make connections are told of, too.
    pub shows_handshakes: u8,
    /// Always 0.
    pub zero: u8,
}

/// A call of a TLS library that reads or writes, under way: what is needed at its return.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsCall {
    /// Address of the connection.
    pub connection: u64,
    /// Address of the plaintext.
    pub buffer: u64,
    /// Bytes of the buffer.
    pub length: u64,
    /// Address of the number of bytes that were read or written; 0 where the function returns it.
    pub done: u64,
}

/// What a probe is told of the function that it is in, in the cookie of its attachment: what that does, and in which register its arguments
/// are: of the six of C (System V ABI of x86-64: rdi, rsi, rdx, rcx, r8, r9), or of those of Go that are none of these (rax, rbx).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsCookie {
    /// One of the `TLS_…` roles.
    pub role: u8,
    /// Address of the connection.
    pub connection: u8,
    /// Address of the plaintext.
    pub buffer: u8,
    /// Bytes of it.
    pub length: u8,
    /// Where the number of bytes is to be written; [`TLS_NO_ARGUMENT`] where the function returns it.
    pub done: u8,
    /// Whether the function of the library that makes connections is probed, too.
    pub shows_handshakes: bool,
    /// Whether a call belongs to a goroutine, which another thread may go on with: its address is in r14 (Go's internal ABI since 1.17).
    pub is_go: bool,
}

/// Most that a record of TLS adds to its text: header, explicit nonce, padding to a block and tag. Bytes.
pub const TLS_RECORD_OVERHEAD: u64 = 64;

/// The register rax, which has no argument of C, but what a function returns.
pub const TLS_RAX: u8 = 6;
/// The register rbx.
pub const TLS_RBX: u8 = 7;
/// In place of a register: there is no such argument.
pub const TLS_NO_ARGUMENT: u8 = 15;
/// It takes plaintext to send.
pub const TLS_WRITE: u8 = 0;
/// It gives plaintext that was received.
pub const TLS_READ: u8 = 1;
/// It makes a connection.
pub const TLS_HANDSHAKE: u8 = 2;
/// It forgets one.
pub const TLS_FREE: u8 = 3;

impl TlsCookie {
    /// As a number.
    pub const fn pack(self) -> u64 {
        self.role as u64
            | (self.connection as u64) << 4
            | (self.buffer as u64) << 8
            | (self.length as u64) << 12
            | (self.done as u64) << 16
            | (self.shows_handshakes as u64) << 20
            | (self.is_go as u64) << 24
    }

    /// Out of the number.
    #[inline(always)]
    pub const fn of(cookie: u64) -> Self {
        const fn nibble(cookie: u64, at: u32) -> u8 {
            (cookie >> at & 15) as u8
        }
        Self {
            role: nibble(cookie, 0),
            connection: nibble(cookie, 4),
            buffer: nibble(cookie, 8),
            length: nibble(cookie, 12),
            done: nibble(cookie, 16),
            shows_handshakes: nibble(cookie, 20) != 0,
            is_go: nibble(cookie, 24) != 0,
        }
    }
}

/// Whose process one is: the connections of the servers that it descends from, nearest first, 0 where there are fewer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// A connection whose server this process is or descends from. Not all are servers'.
    pub connections: [ConnectionId; MEMBERSHIPS],
}

/// How many servers one process can descend from.
pub const MEMBERSHIPS: usize = 4;

/// A message to an address without a connection was reported: of which socket, where to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Cookie of the socket.
    pub socket: u64,
    /// As in [`ConnectInfo::address`].
    pub address: [u8; 16],
    /// Port.
    pub port: u16,
    /// Always 0.
    pub zero: [u16; 3],
}

#[cfg(feature = "user")]
plain! {
    ConnectInfo, Network, Beginnings, AddressKey, Address, Member, Endpoint, Flow, Listener, SocketInfo, Socket, TlsConnection,
    TlsLast, TlsCall, Encrypted, SoFar
}
