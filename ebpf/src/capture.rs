//! From bytes that passed a channel to records in the ring.
//!
//! Whatever backend saw the call, it ends in [`passed`]: on the client's side bytes are captured, on
//! the server's side they are counted. A stream's position moves by every byte that is known of,
//! captured or not, so what is missing shows as a hole of its exact size.

use mcpwarden_abi::{
    CLIENT_TO_SERVER, Channel, ConnectionId, Counter, GATE_BECAUSE_UNSEEN, Positions, RECORD_DATA,
    SERVER_TO_CLIENT, SOCKET, STATE_CANDIDATE, STATE_CONFIRMED, STATE_PLAUSIBLE, STATE_SUSPECT,
    STATE_UNHEARD, SUSPECT_BYTES, UNASKED_BYTES,
};

use crate::{
    gate,
    kernel::at_most,
    log,
    ring::{SEGMENT_BYTES, Walk, is_roomy},
    socket,
    source::{Source, read_bytes},
    tables, tls,
};

/// What is known of the bytes of one call.
///
/// No enum: of one whose cases meet, the compiler copies fields that only some of them have, and the verifier refuses a
/// register that nothing was written to.
#[derive(Clone, Copy)]
pub struct Payload {
    source: Source,
    /// One of the `GAP_…` constants; 0 where they lie in the caller's memory.
    cause: u8,
}

impl Payload {
    /// They lie in the caller's memory.
    #[inline(always)]
    pub fn at(source: Source) -> Self {
        Self { source, cause: 0 }
    }

    /// They never lay there.
    #[inline(always)]
    pub fn lost(cause: u8) -> Self {
        Self { source: Source::buffer(0), cause }
    }
}

/// `bytes` were written to (`writes`) or read from a channel by the process `tgid`, which runs now.
#[inline(always)]
pub fn passed(channel: *const Channel, writes: bool, bytes: u64, tgid: u32, payload: Payload) {
    // SAFETY: a live map value.
    let roles = unsafe { &*channel };
    let (capture_for, count_for) = if writes {
        (roles.write_capture, roles.write_count)
    } else {
        (roles.read_capture, roles.read_count)
    };
    if count_for != 0 {
        let direction = if writes { SERVER_TO_CLIENT } else { CLIENT_TO_SERVER };
        if let Some(entry) = tables::positions(count_for) {
            // SAFETY: a live map value.
            tables::advance(unsafe { &raw mut (*entry).streams[direction as usize].far }, bytes);
        }
    }
    if capture_for != 0 {
        let direction = if writes { CLIENT_TO_SERVER } else { SERVER_TO_CLIENT };
        capture(capture_for, direction, bytes, tgid, payload);
    }
}

/// `bytes` of a connection over stdio are known to have gone by without being seen.
#[inline(always)]
pub fn lost(id: ConnectionId, direction: u8, bytes: u64, tgid: u32, cause: u8) {
    let Some(entry) = tables::positions(id) else { return };
    send(id, entry, direction, bytes, tgid, Payload::lost(cause));
}

#[inline(always)]
fn capture(id: ConnectionId, direction: u8, mut bytes: u64, tgid: u32, mut payload: Payload) {
    let Some(entry) = tables::positions(id) else { return };
    // SAFETY: a live map value.
    let is_unheard = unsafe { (*entry).state } >= STATE_UNHEARD;
    let is_over_tls = id & SOCKET != 0 && tls::socket_over_tls(id).is_some();
    if is_over_tls || is_unheard {
        let (address, length) =
            if payload.cause != 0 { (0, 0) } else { first_buffer(&payload.source, bytes) };
        if is_over_tls {
            bytes = tls::encrypted(id, direction.into(), bytes, address);
            if bytes == 0 {
                return;
            }
            // Of the client: what else is encrypted is none that was not known.
            payload = Payload::at(Source::buffer(tls::pending()));
        } else if !socket::received(id, direction, address, length, bytes) {
            log::dropped_candidate(id, direction);
            return;
        }
    }
    send(id, entry, direction, bytes, tgid, payload);
}

/// The plaintext of a connection over TLS, of which `bytes` lie at `address` in the memory of the process.
#[inline(always)]
pub fn plaintext(id: ConnectionId, direction: u8, bytes: u64, tgid: u32, address: u64) {
    let Some(entry) = tables::positions(id) else { return };
    // It was told from what the probe does, and the verifier sees no bound of it.
    let direction = at_most(direction.into(), 1) as u8;
    send(id, entry, direction, bytes, tgid, Payload::at(Source::buffer(address)));
}

/// Sends bytes of a connection to the agent.
#[inline(always)]
fn send(id: ConnectionId, entry: *mut Positions, direction: u8, bytes: u64, tgid: u32, payload: Payload) {
    // SAFETY: a live map value.
    let offset = tables::advance(unsafe { &raw mut (*entry).streams[direction as usize].offset }, bytes);
    let mut walk = Walk {
        // SAFETY: a live map value.
        id: unsafe { (*entry).number },
        offset,
        remaining: bytes,
        address: 0,
        left: 0,
        index: 0,
        source: Source::buffer(0),
        tgid,
        // SAFETY: a live map value.
        uid: unsafe { (*entry).uid },
        refused: 0,
        direction,
        kind: RECORD_DATA,
    };
    if payload.cause != 0 {
        if direction == CLIENT_TO_SERVER {
            let by = (tgid as u64) << 32 | walk.uid as u64;
            gate::unseen(walk.id, offset, bytes, by, GATE_BECAUSE_UNSEEN.into());
        }
        walk.gap(bytes, payload.cause);
        return;
    }
    let source = payload.source;
    // SAFETY: a live map value.
    let state = unsafe { (*entry).state };
    if state != STATE_CONFIRMED && is_refused(id, direction, offset, &source, bytes) {
        tables::count(Counter::SuspectBytes, bytes);
        // SAFETY: a live map value.
        tables::advance(unsafe { &raw mut (*entry).streams[direction as usize].refused }, bytes);
        return;
    }
    // SAFETY: a live map value.
    let refused = unsafe { (*entry).streams[direction as usize].refused };
    walk.refused = if refused > u32::MAX as u64 { u32::MAX } else { refused as u32 };
    walk.source = source;
    if source.buffers == 0 {
        walk.address = source.address;
        walk.left = bytes;
        if bytes <= SEGMENT_BYTES {
            if !walk.segment(bytes) {
                log::refused(id, bytes);
            }
            return;
        }
    }
    walk.run();
}

#[inline(always)]
fn is_refused(id: ConnectionId, direction: u8, offset: u64, source: &Source, bytes: u64) -> bool {
    let (address, length) = first_buffer(source, bytes);
    is_worth_a_record(id, direction.into(), offset, address, length) == 0
}

/// The first buffer of so many bytes; (0, 0) where it cannot be looked at.
#[inline(always)]
fn first_buffer(source: &Source, bytes: u64) -> (u64, u64) {
    if source.buffers == 0 { (source.address, bytes) } else { source.at(0).unwrap_or((0, 0)) }
}

/// Whether bytes of a connection that nobody has confirmed are worth a record. Looks at the first byte of
/// the first request that is no blank: it can begin a message, or this is no MCP. Where it can, what pipelines carry would
/// still fill the ring before user space has looked: a half of it is for servers and for what begins.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn is_worth_a_record(
    id: ConnectionId,
    direction: u32,
    offset: u64,
    address: u64,
    length: u64,
) -> i32 {
    let Some(entry) = tables::positions(id) else { return 0 };
    let confirmed = if id & SOCKET != 0 { tables::lifted(id) } else { tables::confirmed(id) };
    if confirmed {
        // SAFETY: a live map value.
        unsafe { (*entry).state = STATE_CONFIRMED };
        return 1;
    }
    // SAFETY: as above.
    let state = unsafe { (*entry).state };
    if state == STATE_SUSPECT || state == STATE_PLAUSIBLE {
        return (offset < SUSPECT_BYTES || state == STATE_PLAUSIBLE && is_roomy()) as i32;
    }
    if direction == SERVER_TO_CLIENT.into() {
        return (offset < UNASKED_BYTES) as i32;
    }
    const PEEK: usize = 16;
    let mut first = [0u8; PEEK];
    if !read_bytes(&raw mut first, length, address) {
        return 1;
    }
    let mut verdict = STATE_CANDIDATE;
    for (at, byte) in first.iter().enumerate() {
        if at as u64 >= length {
            break;
        }
        match *byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf => continue,
            b'{' | b'[' | b'C' | b'c' => verdict = STATE_PLAUSIBLE,
            other => {
                log::no_message(id, other);
                verdict = STATE_SUSPECT;
            }
        }
        break;
    }
    if verdict != STATE_CANDIDATE {
        // SAFETY: a live map value.
        unsafe { (*entry).state = verdict };
    }
    1
}
