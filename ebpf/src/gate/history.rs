//! What is remembered of calls, and what that says of the next: the maps behind [`Call`].

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST},
    macros::map,
    maps::HashMap,
};
use mcpwarden_abi::{Counter, GateBucket, GateCaller, GateMember};
use mcpwarden_gate::{Call, Calls, Memory, Number, Session, Turn, View};

use super::state::Walk;
use crate::tables;

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
            tables::count(Counter::GateForgotten, 1);
        }
    }
    all.get_ptr(key)
}

/// What is remembered of a connection's calls.
pub struct Maps<'a>(pub &'a GateMember);

impl Memory for Maps<'_> {
    #[inline(always)]
    fn session(&self) -> Option<&Session> {
        // There was no number for it.
        if self.0.session == 0 {
            return None;
        }
        // SAFETY: a live map value, whose fields are written one by one; so are the next ones.
        entry(&SESSIONS, &self.0.session).map(|known| unsafe { &*known })
    }

    #[inline(always)]
    fn calls(&self) -> Option<&Calls> {
        let caller = GateCaller { session: self.0.session, server: self.0.server };
        // SAFETY: as above.
        entry(&CALLS, &caller).map(|known| unsafe { &*known })
    }

    #[inline(always)]
    fn turn(&self) -> &Turn {
        // SAFETY: a live map value, of which all zeros say that nothing is known.
        unsafe { &*TURNS.get_ptr(self.0.session).unwrap_or((&raw const FRESH).cast()) }
    }

    #[inline(always)]
    fn bucket(&self, tool: Option<u64>) -> Option<&Number> {
        let key = GateBucket { server: self.0.bucket, tool: tool.unwrap_or(0) };
        // SAFETY: as above.
        entry(&BUCKETS, &key).map(|known| unsafe { &*known })
    }
}

/// What the calls before say of one.
#[inline(always)]
pub fn judge(walk: &Walk, call: &Call) -> u8 {
    // SAFETY: live map values.
    let (view, subject, member) =
        unsafe { (View { head: &*walk.head, next: &*walk.next }, &*walk.subject, &*walk.member) };
    call.judge(&Maps(member), &view, subject)
}
