//! What is told of a connection of sockets: that it is captured, and its end.

use mcpwarden_abi::{
    ConnectionId, Counter, FLAG_TLS, RECORD_SOCKET, RECORD_SOCKET_CLOSED, RecordHeader, SoFar, Socket,
    SocketInfo,
};

use crate::{
    ring::{RING, header},
    tables,
};

/// A record of a connection as it lies in the ring.
#[repr(C)]
struct SocketRecord {
    header: RecordHeader,
    info: SocketInfo,
}

/// That of its end.
#[repr(C)]
struct ClosedRecord {
    header: RecordHeader,
    closed: SoFar,
}

/// Reports a connection, written in place: there is little stack where that is done.
#[inline(always)]
pub fn opened(key: ConnectionId, socket: *const Socket, flags: u8) {
    let Some(mut entry) = RING.reserve::<SocketRecord>(0) else {
        tables::count(Counter::RingFullFacts, 1);
        return;
    };
    let record = entry.as_mut_ptr();
    // SAFETY: `record` is the reserved memory, all of which is written; `socket` is a live map value.
    unsafe {
        (*record).header.kind = RECORD_SOCKET;
        (*record).header.direction = 0;
        (*record).header.cause = 0;
        (*record).header.flags = if (*socket).tls.address != 0 { flags | FLAG_TLS } else { flags };
        (*record).header.length = size_of::<SocketInfo>() as u32;
        (*record).header.time_ns = tables::now();
        (*record).header.connection = (*socket).positions.number;
        (*record).header.offset = key;
        (*record).header.pid = (*socket).positions.pid;
        (*record).header.value = 0;
        (*record).header.uid = (*socket).positions.uid;
        (*record).header.zero = 0;
        core::ptr::copy_nonoverlapping(&raw const (*socket).info, &raw mut (*record).info, 1);
    }
    entry.submit(0);
}

/// Reports its end.
#[inline(always)]
pub fn closed(key: ConnectionId, socket: *const Socket) {
    // SAFETY: a live map value.
    let Socket { positions, encrypted, .. } = unsafe { &*socket };
    let Some(mut record) = RING.reserve::<ClosedRecord>(0) else {
        tables::count(Counter::RingFullFacts, 1);
        return;
    };
    let owner = (positions.pid, positions.uid);
    record.write(ClosedRecord {
        header: RecordHeader {
            offset: key,
            ..header(RECORD_SOCKET_CLOSED, positions.number, owner, size_of::<SoFar>())
        },
        closed: SoFar { streams: positions.streams, encrypted: *encrypted },
    });
    record.submit(0);
}
