//! What one user may have in the ring: twice as much as is free.
//!
//! A ring is read in order, so that what one user puts in stands before what all others do. Each user may have twice as many
//! bytes in it as are free beside all (the dynamic threshold of Choudhury and Hahne): one who floods it gets two thirds, two get
//! two fifths each, and there is always half as much free as the loudest has. Two thirds of a ring of the default size hold a
//! message of the greatest length that is read, which one call can write. The price is one look-up for each record; what is no
//! record pays nothing.

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_RB_CONS_POS, BPF_RB_PROD_POS, BPF_RB_RING_SIZE},
    macros::map,
    maps::{LruHashMap, RingBuf},
};
use mcpwarden_abi::{Counter, SHARES_MOST, Share};

use crate::tables;

/// Records on their way to the agent, in the order of reservation. The agent sets its size.
#[map(name = "RING")]
pub static RING: RingBuf = RingBuf::with_byte_size(32 << 20, 0);

/// How many times what is free a user may have.
const FACTOR: u64 = 2;

/// By user (real user id).
#[map(name = "SHARES")]
static SHARES: LruHashMap<u32, Share> = LruHashMap::with_max_entries(SHARES_MOST, 0);

/// Of a user who has put nothing in yet. (Not on the stack, which has room for 512 bytes with all that called this.)
static FRESH: Share = Share { mark: 0, before: 0, since: 0, refused_records: 0, refused_bytes: 0 };

/// Takes `size` bytes of the ring, of which `bytes` are a stream's, for a user. Returns 0 where that is more than his share,
/// which is counted. Several processors may count a little less than there is.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn admits(uid: u32, size: u64, bytes: u64) -> i32 {
    let share = match SHARES.get_ptr_mut(uid) {
        Some(share) => share,
        None => {
            let _ = SHARES.insert(uid, &FRESH, BPF_ANY as u64);
            match SHARES.get_ptr_mut(uid) {
                Some(share) => share,
                // Nobody is refused for want of memory to count him.
                None => return 1,
            }
        }
    };
    let (read, written) = (RING.query(BPF_RB_CONS_POS.into()), RING.query(BPF_RB_PROD_POS.into()));
    let free = RING.query(BPF_RB_RING_SIZE.into()).saturating_sub(written.saturating_sub(read));
    // SAFETY: a live map value; its fields are added to at once.
    unsafe {
        if read >= (*share).mark {
            (*share).before = (*share).since;
            (*share).since = 0;
            (*share).mark = written;
        }
        if (*share).before + (*share).since + size > free * FACTOR {
            tables::advance(&raw mut (*share).refused_records, 1);
            tables::advance(&raw mut (*share).refused_bytes, bytes);
            tables::count(Counter::ShareRefusedRecords, 1);
            tables::count(Counter::ShareRefusedBytes, bytes);
            return 0;
        }
        tables::advance(&raw mut (*share).since, size);
    }
    1
}
