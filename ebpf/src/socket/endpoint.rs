//! Where Unix sockets lead: an endpoint made of the name.

use mcpwarden_abi::{Socket, UNIX_NAME_BYTES};

/// FNV-1a, of 64 bits; twice, from two beginnings.
const HASH_STARTS: [u64; 2] = [0xCBF2_9CE4_8422_2325, 0x9AE1_6A3B_2F90_404F];
const HASH_PRIME: u64 = 0x100_0000_01B3;

/// Notes where a Unix socket leads, by its name. False where that has none.
#[inline(always)]
pub(super) fn unix_endpoint(socket: *mut Socket) -> bool {
    let [mut first, mut second] = HASH_STARTS;
    // SAFETY: a live map value.
    unsafe {
        let listener = &raw const (*socket).info.listener;
        let length = (*listener).length as usize;
        for index in 0..UNIX_NAME_BYTES {
            if index >= length {
                break;
            }
            let byte = (*listener).name[index] as u64;
            first = (first ^ byte).wrapping_mul(HASH_PRIME);
            second = (second ^ byte).wrapping_mul(HASH_PRIME);
        }
        let endpoint = &raw mut (*socket).endpoint;
        (*endpoint).netns_cookie = (*socket).info.connect.netns_cookie;
        (&raw mut (*endpoint).address).cast::<[u64; 2]>().write([first, second]);
        length != 0
    }
}
