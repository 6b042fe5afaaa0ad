//! What the calls before say of a call: how often its server and its tool were called, and what was read elsewhere.
//!
//! The same rules as the guards `rate_limit` and `cross_server` (crate `mcpwarden-policy`), over what fits into a few maps of
//! the kernel: of each session the newest read, and the newest from another server than that; of each server when its last calls
//! were; of each bucket when it will be full. Every field is written by itself, so that writers on several processors need no lock.
//!
//! Times are of one clock that never goes back, nanoseconds; 0 is never.

use crate::{
    atomic::Number,
    outcome::DENY,
    table::{ACROSS_JUDGED, Limit, Rules, Subject, View},
};

/// Servers of one session that are told apart: as many as a word has bits.
pub const SERVERS: usize = 64;
/// Reads are kept to this many nanoseconds: below that stands which server it was.
const TICK: u64 = SERVERS as u64;
/// Calls of one server that are remembered; a power of two. A burst is one less at most.
pub const CALLS: usize = 128;

/// Nothing that a rule across servers goes by.
pub const DOES_NOTHING: u8 = 0;
/// It reads.
pub const DOES_READ: u8 = 1;
/// It writes.
pub const DOES_WRITE: u8 = 2;
/// It sends.
pub const DOES_SEND: u8 = 3;
/// It may do anything: its server does not list it.
pub const DOES_ANYTHING: u8 = 4;
/// It is denied, and asks for its token before that.
pub const DOES_PAY: u8 = 8;

/// Nothing speaks against a call.
pub const BY_NOTHING: u8 = 0;
/// It sends, and something was read from another server.
pub const BY_READ_THEN_SEND: u8 = 1;
/// Its server was called too often.
pub const BY_BURST: u8 = 2;
/// It writes or sends, and something was read from another server.
pub const BY_FLOW: u8 = 3;
/// Its server's bucket has no token.
pub const BY_RATE: u8 = 4;
/// The tool's own bucket has none.
pub const BY_TOOL_RATE: u8 = 5;
/// One of the rules for what sends or writes would speak against it, if that is what it does: its server does not list it.
pub const BY_WHAT_IT_MAY_DO: u8 = 6;
/// There is no room to remember what it would be judged by.
pub const BY_FORGOTTEN: u8 = 16;

/// Other takers may come first so often.
const TRIES: u32 = 3;

/// What is remembered of a session.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Session {
    /// Servers that were called, a bit each.
    servers: Number,
    /// When the model's turn began.
    turn_began: Number,
    /// The last call.
    last: Number,
    /// The newest read: when ([`TICK`]), and from which server.
    newest_read: Number,
    /// The newest from another server than that.
    other_read: Number,
}

/// What user space knows of a session and the kernel does not: answers, and reads that are no calls of a server with a gate.
/// It writes this, and nobody else.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The newest call that it has seen.
    pub newest: u64,
    /// The last call or answer.
    pub last: u64,
    /// Calls of the turn without an answer.
    pub open: u32,
    /// The server that was seen first, from 1; 0: none, [`SEVERAL`]: and another.
    pub first: u32,
    /// When the newest data came that was read; 0: never.
    pub newest_read: u64,
    /// The newest from another server than that.
    pub other_read: u64,
    /// From which server the newest came, from 1; 0: none, [`SEVERAL`]: one without a number here.
    pub read_server: u32,
    /// 0: a word of padding, which a map's value may not have unwritten.
    pub unused: u32,
}

/// See [`Turn::first`].
pub const SEVERAL: u32 = u32::MAX;

#[cfg(feature = "user")]
// SAFETY: `repr(C)`, only integers, no padding, every bit pattern valid.
unsafe impl aya::Pod for Turn {}

/// What is remembered of a server of a session: when it was called, in a ring.
#[repr(C)]
#[derive(Debug)]
pub struct Calls {
    count: Number,
    times: [Number; CALLS],
}

/// What is remembered of whoever calls. `None`: there is no room.
pub trait Memory {
    /// His session.
    fn session(&self) -> Option<&Session>;
    /// The calls of his server in it.
    fn calls(&self) -> Option<&Calls>;
    /// What user space knows of the session.
    fn turn(&self) -> &Turn;
    /// The bucket of his server, or, by the hash of its name, of one of its tools.
    fn bucket(&self, tool: Option<u64>) -> Option<&Number>;
}

/// A call that is made.
#[derive(Clone, Copy)]
pub struct Call {
    /// What the table says of it.
    pub outcome: u16,
    /// The hash of its tool's name.
    pub tool: u64,
    /// Which of the session's servers, less than [`SERVERS`].
    pub server: u32,
    /// Whether it is made for the first time: what was not written to its end is written again.
    pub is_first: bool,
    /// Whether what nobody can tell is not let through.
    pub is_strict: bool,
    /// When.
    pub now: u64,
}

impl Call {
    /// What the calls before say of it: a `BY_…` constant.
    #[inline(always)]
    pub fn judge(&self, memory: &impl Memory, view: &View<'_>, subject: &Subject) -> u8 {
        let (means, now) = (view.means(self.outcome), self.now);
        let (does, pays) = (means.does & !DOES_PAY, means.does & DOES_PAY != 0);
        let (mut by, mut known) = (BY_NOTHING, None);
        if subject.across != 0 {
            by = BY_FORGOTTEN;
            if let Some(session) = memory.session() {
                let (rules, turn) = (&view.head.rules, memory.turn());
                let Self { server, is_first, .. } = *self;
                let across = Across { rules, session, turn, server, does, is_first, now };
                by = across.judge(memory);
                if by != BY_FORGOTTEN {
                    known = Some(session);
                }
            }
            if subject.across & ACROSS_JUDGED == 0 {
                by = BY_NOTHING;
            }
            let is_undecided = by == BY_WHAT_IT_MAY_DO || by == BY_FORGOTTEN;
            if by != BY_NOTHING && (self.is_strict || !is_undecided) {
                return by;
            }
        }
        let is_denied = self.outcome & DENY != 0;
        if is_denied && !pays {
            return by;
        }
        if self.is_first && subject.limit != 0 {
            let paid = self.pay(memory, view.limit(subject.limit), means.limit, view);
            if paid != BY_NOTHING {
                return paid;
            }
        }
        if let Some(session) = known
            && !is_denied
            && (does == DOES_READ || self.is_strict && does == DOES_ANYTHING)
        {
            session.note_read(self.server, now);
        }
        by
    }

    /// Takes its tokens.
    #[inline(always)]
    fn pay(&self, memory: &impl Memory, limit: Limit, of_tool: u8, view: &View<'_>) -> u8 {
        let Some(bucket) = memory.bucket(None) else { return BY_FORGOTTEN };
        if !take(bucket, limit, self.now) {
            return BY_RATE;
        }
        if of_tool == 0 {
            return BY_NOTHING;
        }
        let Some(own) = memory.bucket(Some(self.tool)) else { return BY_FORGOTTEN };
        if !take(own, view.limit(u16::from(of_tool)), self.now) {
            put_back(bucket, limit);
            return BY_TOOL_RATE;
        }
        BY_NOTHING
    }
}

/// A call as the rules across servers see it.
struct Across<'a> {
    rules: &'a Rules,
    session: &'a Session,
    turn: &'a Turn,
    server: u32,
    does: u8,
    is_first: bool,
    now: u64,
}

impl Session {
    /// A server of this number was read from.
    #[inline(always)]
    pub fn note_read(&self, server: u32, now: u64) {
        let before = self.newest_read.exchange(now & !(TICK - 1) | server_of(server as u64));
        if server_of(before) != server_of(server as u64) {
            // Another that is later may have come in between.
            let known = self.other_read.get();
            if before > known && self.other_read.replace(known, before) != known {
                self.other_read.replace(self.other_read.get(), before);
            }
        }
    }

    /// When another server was last read from; 0: never.
    #[inline(always)]
    fn read_elsewhere(&self, server: u32) -> u64 {
        let newest = self.newest_read.get();
        let read = if server_of(newest) == server_of(server as u64) { self.other_read.get() } else { newest };
        read & !(TICK - 1)
    }
}

/// The number of a server beside a time.
#[inline(always)]
fn server_of(number: u64) -> u64 {
    number & (TICK - 1)
}

impl Across<'_> {
    /// What the rules say. It counts as a call of its server, whatever that is.
    #[inline(always)]
    fn judge(&self, memory: &impl Memory) -> u8 {
        let (session, rules, now) = (self.session, self.rules, self.now);
        let own = 1 << (self.server as u64 & (SERVERS as u64 - 1));
        let others = session.servers.or(own) & !own;
        let turn_began = self.turn_began();
        session.last.set(now);
        let first = self.turn.first;
        if others == 0 && (first == 0 || first == self.server.wrapping_add(1)) {
            return BY_NOTHING;
        }
        // Not before: with one server there is nothing to look up.
        let Some(calls) = memory.calls() else { return BY_FORGOTTEN };
        let is_burst = rules.burst != 0 && self.is_first && calls.note(rules, now);
        let maybe = self.does == DOES_ANYTHING;
        let sends = maybe || self.does == DOES_SEND;
        let writes = sends || self.does == DOES_WRITE;
        let read = if writes { self.read_elsewhere() } else { 0 };
        let ago = later(now, read).wrapping_sub(read);
        let is_within = |window: u64| window != 0 && read != 0 && ago <= window;
        let is_read_then_send = sends && is_within(rules.read_then_send);
        if is_read_then_send && !maybe {
            return BY_READ_THEN_SEND;
        }
        // That holds whatever the call does.
        if is_burst {
            return BY_BURST;
        }
        let is_in_turn = rules.turn_gap != 0 && read != 0 && read >= turn_began;
        if is_read_then_send || writes && (is_within(rules.flow) || is_in_turn) {
            return if maybe { BY_WHAT_IT_MAY_DO } else { BY_FLOW };
        }
        BY_NOTHING
    }

    /// When another server was last read from, by the call or by its answer, whichever is later; 0: never.
    #[inline(always)]
    fn read_elsewhere(&self) -> u64 {
        let Turn { newest_read, other_read, read_server, .. } = self.turn;
        // Without a comparison, as in `later`: all ones where it is this server.
        let apart = core::hint::black_box((read_server ^ self.server.wrapping_add(1)) as u64);
        let is_own = (apart.wrapping_sub(1) as i64 >> 63) as u64;
        let answered = newest_read ^ (newest_read ^ other_read) & is_own;
        later(self.session.read_elsewhere(self.server), answered)
    }

    /// When the turn began that this call belongs to.
    #[inline(always)]
    fn turn_began(&self) -> u64 {
        let (turn, rules) = (self.turn, self.rules);
        let newest = self.session.last.get();
        let last = later(turn.last, newest);
        // Of a call that user space has not seen yet nobody knows whether it was answered.
        let is_open = turn.open != 0 || turn.newest < newest;
        let pause =
            if is_open && rules.turn_open > rules.turn_gap { rules.turn_open } else { rules.turn_gap };
        if self.now > last.saturating_add(pause) {
            // A read is kept no finer than that.
            let began = self.now & !(TICK - 1);
            self.session.turn_began.set(began);
            return began;
        }
        self.session.turn_began.get()
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self { count: Number::new(), times: [const { Number::new() }; CALLS] }
    }
}

impl Calls {
    /// Notes a call, and says whether there were too many before it.
    #[inline(always)]
    fn note(&self, rules: &Rules, now: u64) -> bool {
        let count = self.count.add(1);
        self.times[count as usize & (CALLS - 1)].set(now);
        if count < rules.burst_calls {
            return false;
        }
        let first = count.wrapping_sub(rules.burst_calls);
        now.wrapping_sub(self.times[first as usize & (CALLS - 1)].get()) <= rules.burst
    }
}

/// Takes a token from a bucket, of which is known when it will be full. False where there is none.
#[inline(always)]
fn take(full_at: &Number, limit: Limit, now: u64) -> bool {
    if limit.interval == 0 {
        return false;
    }
    let mut known = full_at.get();
    for _ in 0..TRIES {
        let from = later(known, now);
        if from.wrapping_sub(now) > limit.slack {
            return false;
        }
        let found = full_at.replace(known, from.wrapping_add(limit.interval));
        if found == known {
            return true;
        }
        known = found;
    }
    // So many take at once that there is none left for long.
    false
}

/// The later of two times. Without a comparison: of each the verifier would go both ways.
#[inline(always)]
fn later(a: u64, b: u64) -> u64 {
    let behind = core::hint::black_box(a.wrapping_sub(b));
    let is_earlier = (behind as i64 >> 63) as u64;
    a.wrapping_sub(behind & is_earlier)
}

/// Puts a token back that was taken for nothing.
#[inline(always)]
fn put_back(full_at: &Number, limit: Limit) {
    full_at.add(limit.interval.wrapping_neg());
}
