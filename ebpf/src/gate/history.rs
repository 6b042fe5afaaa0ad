//! What is remembered of calls, and what that says of the next: the maps behind [`Call`].

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST},
    macros::map,
    maps::HashMap,
};
use mcpwarden_abi::{Counter, GateBucket, GateCaller};
use mcpwarden_gate::{
    BY_NOTHING, BY_RATE, BY_TOOL_RATE, Call, Calls, DENY, DOES_ANYTHING, DOES_READ, Number, Session, Turn,
    View, put_back, take,
};

use super::reading::Walk;
use crate::channel;

/// There is no room to remember calls; beside the gate's `BY_…` constants.
pub const FORGOTTEN: u8 = 16;

/// What is remembered of each session. User space takes out those that are gone; so with the next two.
#[map(name = "GATE_SESSIONS")]
static SESSIONS: HashMap<u32, Session> = HashMap::with_max_entries(4_096, BPF_F_NO_PREALLOC);

/// What is remembered of each server of a session.
#[map(name = "GATE_CALLS")]
static CALLS: HashMap<GateCaller, Calls> = HashMap::with_max_entries(8_192, BPF_F_NO_PREALLOC);

/// When each bucket will be full.
#[map(name = "GATE_BUCKETS")]
static BUCKETS: HashMap<GateBucket, Number> = HashMap::with_max_entries(16_384, BPF_F_NO_PREALLOC);

/// What user space says of each session; it alone writes it.
#[map(name = "GATE_TURNS")]
static TURNS: HashMap<u32, Turn> = HashMap::with_max_entries(4_096, BPF_F_NO_PREALLOC);

/// An entry of any of these as it is put in.
static FRESH: [u64; 129] = [0; 129];
const _: () =
    assert!(size_of::<Calls>() == size_of_val(&FRESH) && size_of::<Session>() <= size_of_val(&FRESH));

/// What is remembered under a key; `None` where there is no room, which is counted.
#[inline(always)]
fn entry<K, V>(all: &HashMap<K, V>, key: &K) -> Option<*const V> {
    if let Some(known) = all.get_ptr(key) {
        return Some(known);
    }
    // SAFETY: all zeros are what nothing is remembered in, and there are enough of them.
    let fresh = unsafe { &*(&raw const FRESH).cast::<V>() };
    if all.insert(key, fresh, BPF_NOEXIST as u64).is_err() {
        // Somebody else may have come first.
        if all.get_ptr(key).is_none() {
            channel::count(Counter::GateForgotten, 1);
        }
    }
    all.get_ptr(key)
}

/// What the calls before say of one, of which the table says `outcome`: a `BY_…` constant, or [`FORGOTTEN`]. `tool`: the hash
/// of its name; `is_first`: it was not judged before; `strict`: what nobody can tell is not let through.
#[inline(always)]
pub fn judge(walk: &Walk, outcome: u16, tool: u64, is_first: bool, strict: bool) -> u8 {
    // SAFETY: live map values.
    let (view, subject, member) =
        unsafe { (View { head: &*walk.head, next: &*walk.next }, &*walk.subject, &*walk.member) };
    let means = view.means(outcome);
    let mut session = None;
    if subject.across != 0 && member.session != 0 {
        let caller = GateCaller { session: member.session, server: member.server };
        let Some(known) = entry(&SESSIONS, &member.session) else { return FORGOTTEN };
        let Some(calls) = entry(&CALLS, &caller) else { return FORGOTTEN };
        // SAFETY: a live map value, of which all zeros say that nothing is known.
        let turn = unsafe { &*TURNS.get_ptr(member.session).unwrap_or((&raw const FRESH).cast()) };
        // SAFETY: live map values, whose fields are written one by one.
        let (known, calls) = unsafe { (&*known, &*calls) };
        let rules = &view.head.rules;
        let (server, does, now) = (member.server, means.does, walk.now);
        let call = Call { rules, session: known, calls, turn, server, does, is_first, now };
        let by = call.judge();
        if by != BY_NOTHING {
            return by;
        }
        session = Some(known);
    }
    if outcome & DENY != 0 {
        return BY_NOTHING;
    }
    if is_first && subject.limit != 0 {
        let by = pay(walk, &view, subject.limit, means.limit as u16, tool);
        if by != BY_NOTHING {
            return by;
        }
    }
    if let Some(session) = session
        && (means.does == DOES_READ || strict && means.does == DOES_ANYTHING)
    {
        session.note_read(member.server, walk.now);
    }
    BY_NOTHING
}

/// Takes the tokens of a call.
#[inline(always)]
fn pay(walk: &Walk, view: &View<'_>, of_server: u16, of_tool: u16, tool: u64) -> u8 {
    // SAFETY: a live map value.
    let server = unsafe { (*walk.member).bucket };
    let Some(bucket) = entry(&BUCKETS, &GateBucket { server, tool: 0 }) else { return FORGOTTEN };
    // SAFETY: a live map value.
    let bucket = unsafe { &*bucket };
    let limit = view.limit(of_server);
    if !take(bucket, limit, walk.now) {
        return BY_RATE;
    }
    if of_tool == 0 {
        return BY_NOTHING;
    }
    let own = view.limit(of_tool);
    let Some(tools) = entry(&BUCKETS, &GateBucket { server, tool }) else { return FORGOTTEN };
    // SAFETY: a live map value.
    if !take(unsafe { &*tools }, own, walk.now) {
        put_back(bucket, limit);
        return BY_TOOL_RATE;
    }
    BY_NOTHING
}
