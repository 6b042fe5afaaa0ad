//! From the descriptors of a process to the tables: two of them that can carry MCP become a connection.

use aya_ebpf::bindings::BPF_NOEXIST;
use mcpwarden_abi::{
    CLIENT_TO_SERVER, Channel, ChannelKey, Connection, ConnectionId, Counter, GAP_STARTED_LATE, Positions,
    STATE_CANDIDATE, Stream,
};

use crate::{
    capture,
    kernel::{self, End, Ptr},
    log, socket,
    tables::{CHANNELS, CONNECTIONS, channel, count, expect_channel, find, next_number, now},
};

/// The ends at descriptors 0 and 1 of a task, where both can carry MCP.
#[inline(always)]
pub fn stdio(task: Ptr) -> Option<(End, End)> {
    let input = kernel::end_of(kernel::file_of(task, 0)?)?;
    let output = kernel::end_of(kernel::file_of(task, 1)?)?;
    Some((input, output))
}

/// Registers the task's stdin and stdout as a connection, or finds the one they already are.
///
/// A descriptor that already plays the same part in another connection is left to it: `sh -c "server | tee log"`
/// is one connection, that of the shell.
#[inline(always)]
pub fn register(task: Ptr, tgid: u32) -> Option<ConnectionId> {
    let (input, output) = stdio(task)?;
    if let Some(known) = find(&input.near, &output.near) {
        return Some(known);
    }
    // A server that was handed the socket that its listener accepted: what its client has begun to say goes on there.
    if socket::keeps(&input.far) || socket::keeps(&output.far) {
        return None;
    }
    if let Some(taken) = channel(&input.near) {
        // SAFETY: a live map value.
        if unsafe { (*taken).read_count } != 0 {
            return None;
        }
    }
    if let Some(taken) = channel(&output.near) {
        // SAFETY: a live map value.
        if unsafe { (*taken).write_count } != 0 {
            return None;
        }
    }
    let id = next_number()?;
    let entry = Connection {
        positions: Positions {
            number: id,
            state: STATE_CANDIDATE,
            pid: tgid,
            uid: kernel::uid_of(task).unwrap_or(0),
            ended_line: 0,
            since_ns: now(),
            streams: [Stream { offset: 0, far: 0, refused: 0 }; 2],
        },
        server_in: input.near,
        server_out: output.near,
        client_out: input.far,
        client_in: output.far,
    };
    if CONNECTIONS.insert(id, &entry, BPF_NOEXIST as u64).is_err() {
        count(Counter::ConnectionsRefused, 1);
        return None;
    }
    log::registered(id, tgid);
    assign(&input.near, 0, 0, 0, id);
    assign(&input.far, id, 0, 0, 0);
    assign(&output.near, 0, 0, id, 0);
    assign(&output.far, 0, id, 0, 0);
    // What its parent wrote before there was anybody to look: the server will read it, and nobody saw it go in.
    if let Some(file) = kernel::file_of(task, 0)
        && let Some(waiting) = kernel::bytes_in_pipe(file)
        && waiting.bytes > 0
    {
        capture::lost(id, CLIENT_TO_SERVER, waiting.bytes, tgid, GAP_STARTED_LATE);
    }
    Some(id)
}

/// Gives an inode further roles; a role of 0 leaves what is there.
#[inline(always)]
pub fn assign(key: &ChannelKey, write_capture: u64, read_capture: u64, write_count: u64, read_count: u64) {
    let fresh = Channel { write_capture, read_capture, write_count, read_count };
    expect_channel(key);
    if CHANNELS.insert(key, &fresh, BPF_NOEXIST as u64).is_ok() {
        return;
    }
    let Some(entry) = CHANNELS.get_ptr_mut(key) else {
        // It was there a moment ago: the agent has just taken it, and puts back what others need of it.
        if CHANNELS.insert(key, &fresh, BPF_NOEXIST as u64).is_err() {
            count(Counter::ChannelsRefused, 1);
        }
        return;
    };
    // SAFETY: a live map value; roles are set here alone, and the agent takes an entry out as a whole.
    unsafe {
        if write_capture != 0 {
            (*entry).write_capture = write_capture;
        }
        if read_capture != 0 {
            (*entry).read_capture = read_capture;
        }
        if write_count != 0 {
            (*entry).write_count = write_count;
        }
        if read_count != 0 {
            (*entry).read_count = read_count;
        }
    }
}
