//! Processes: programs that start with channels as stdin and stdout, forks, exits.

use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid, bpf_get_current_uid_gid, generated::bpf_get_current_cgroup_id,
};
use mcpwarden_abi::{
    ANCESTORS, ARGV_BYTES, ConnectionId, Counter, ExecInfo, FLAG_ADOPTED, FLAG_ARGV_TRUNCATED, FLAG_NO_EXEC,
    FLAG_PARENT_IS_FORK, RECORD_EXEC, RECORD_EXIT, RING_HEADER, RecordHeader,
};

use crate::{
    kernel::{self, Ptr, load, offset, probe},
    member, register,
    ring::{RING, header},
    share,
    source::read_bytes,
    tables::{self, FOREBEARS, Forker},
};

/// How many siblings on each side are taken for possible ends of the same pipeline.
const SIBLINGS: usize = 6;

/// An exec record as it lies in the ring.
#[repr(C)]
struct ExecRecord {
    header: RecordHeader,
    info: ExecInfo,
    argv: [u8; ARGV_BYTES],
}

/// The current process is about to run a program. Its descriptors are already that program's, and
/// its parent may write the moment the new image is there: register before that.
#[inline(always)]
pub fn on_the_way() {
    let task = kernel::current();
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    let Some(connection) = register::register(task, tgid) else { return };
    member::join(tgid, connection);
    watch_family(task, tgid);
}

/// A descriptor of the current process, 0 or 1, is another file from now on. Where both are since it was forked or ran its
/// program, and both are channels, they may be a connection that no exec tells of: of a child that serves without one, or of a
/// program that was handed its channels as other descriptors.
///
/// One alone says nothing: the other is the parent's until its turn comes, or the script's that reads from something else for a
/// moment. A process is registered so once for each program that it runs: else it could fill the tables as fast as it makes pipes.
///
/// Returns the connection, or 0. Whoever calls it reports it: see [`descriptor_replaced`].
///
/// The verifier goes through it once, by itself: see [`report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn replaced(descriptor: u32) -> u64 {
    let task = kernel::current();
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if !tables::replaces(tgid, descriptor) {
        return 0;
    }
    let Some(connection) = register::register(task, tgid) else { return 0 };
    tables::replacement_registered(tgid);
    member::join(tgid, connection);
    watch_family(task, tgid);
    connection
}

/// As [`replaced`], and says so. One after the other: the stack has no room for both at once.
#[inline(always)]
pub fn descriptor_replaced(descriptor: u32) {
    let connection = replaced(descriptor);
    if connection != 0 {
        let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
        report(kernel::number(kernel::current()), tgid, connection, FLAG_NO_EXEC as u32);
    }
}

/// Watches a process that has two channels, its parent, which is the client more often than not, and its nearest
/// siblings: in `producer | server | consumer` they hold the other ends, and were forked by the same shell.
#[inline(always)]
fn watch_family(task: Ptr, tgid: u32) {
    tables::watch(tgid);
    let parent: Ptr = load(task, offset!(task_real_parent));
    if parent.is_null() {
        return;
    }
    let parent_tgid: u32 = load(parent, offset!(task_tgid));
    tables::watch(parent_tgid);
    if is_fork(parent) {
        let above: Ptr = load(parent, offset!(task_real_parent));
        if let Some(above) = probe::<u32>(above, offset!(task_tgid)) {
            tables::watch(above);
        }
    }
    for forker in orphan(tgid, parent_tgid) {
        if let Some(forker) = forker {
            tables::watch(forker.tgid);
        }
    }
    let children = parent.wrapping_add(offset!(task_children));
    let own = task.wrapping_add(offset!(task_sibling));
    // `struct list_head { next, prev }`. Read without the lock: a stale entry costs a look at a process too many,
    // and the next fd scan takes it out again.
    for link in [0, 8] {
        let mut at = own;
        for _ in 0..SIBLINGS {
            let Some(next) = probe::<Ptr>(at, link) else { break };
            if next == children || next == own || next.is_null() {
                break;
            }
            let sibling = next.wrapping_sub(offset!(task_sibling));
            if let Some(tgid) = probe::<u32>(sibling, offset!(task_tgid)) {
                tables::watch(tgid);
            }
            at = next;
        }
    }
}

/// Whether a process was forked and never ran a program of its own.
#[inline(always)]
fn is_fork(task: Ptr) -> bool {
    /// `linux/sched.h`
    const PF_FORKNOEXEC: u32 = 0x40;
    probe::<u32>(task, offset!(task_flags)).unwrap_or(0) & PF_FORKNOEXEC != 0
}

/// Of a process whose parent is not the one that forked it: who was above the one that did, nearest first. A client
/// that forks twice and ends the process between is not its server's parent, but it is here.
#[inline(always)]
fn orphan(tgid: u32, parent: u32) -> [Option<Forker>; FOREBEARS - 1] {
    match tables::forebears(tgid) {
        [Some(gone), client, above] if gone.tgid != parent => [client, above],
        _ => [None; FOREBEARS - 1],
    }
}

/// The current process runs the new program: say so where its stdin and stdout are a connection.
#[inline(always)]
pub fn done() {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    tables::forget_replaced(tgid);
    if !tables::watches(tgid) {
        return;
    }
    let task = kernel::current();
    // Close-on-exec descriptors are gone by now, so this is what the program really has.
    let Some((input, output)) = register::stdio(task) else { return };
    let Some(connection) = tables::find(&input.near, &output.near) else { return };
    report(kernel::number(task), tgid, connection, 0);
}

/// A process that ran before the agent: registers its stdin and stdout, and its parent as the client.
#[inline(always)]
pub fn adopt(task: Ptr, tgid: u32) {
    let Some(connection) = register::register(task, tgid) else { return };
    member::join(tgid, connection);
    watch_family(task, tgid);
    report(kernel::number(task), tgid, connection, FLAG_ADOPTED as u32);
}

/// Says that a process runs a program whose stdin and stdout are a connection; `flags`: [`FLAG_ADOPTED`], [`FLAG_NO_EXEC`].
///
/// A function that the verifier goes through once, by itself: it has a name that is seen from outside, and takes numbers
/// alone. In line it would go through it once for each state in which it comes here, hundreds of thousands of steps on 6.1.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn report(task: u64, tgid: u32, connection: ConnectionId, flags: u32) -> i32 {
    let (task, mut flags) = (task as Ptr, flags as u8);
    let adopted = flags & FLAG_ADOPTED != 0;
    let uid = owner(connection).unwrap_or(0);
    if share::admits(uid, size_of::<ExecRecord>() as u64 + RING_HEADER, 0) == 0 {
        tables::count(Counter::RingFullFacts, 1);
        return 0;
    }
    let Some(mut entry) = RING.reserve::<ExecRecord>(0) else {
        tables::count(Counter::RingFullFacts, 1);
        return 0;
    };
    let record = entry.as_mut_ptr();
    if let Some(parent) = probe(task, offset!(task_real_parent))
        && is_fork(parent)
    {
        flags |= FLAG_PARENT_IS_FORK;
    }
    let mut length = 0u32;
    let mm: Ptr = probe(task, offset!(task_mm)).unwrap_or(core::ptr::null());
    // Only the current process's memory can be read; of an adopted one the agent asks /proc.
    if !adopted && !mm.is_null() {
        let start: u64 = probe(mm, offset!(mm_arg_start)).unwrap_or(0);
        let end: u64 = probe(mm, offset!(mm_arg_end)).unwrap_or(0);
        let whole = end.saturating_sub(start);
        if whole > ARGV_BYTES as u64 {
            flags |= FLAG_ARGV_TRUNCATED;
        }
        // SAFETY: `record` is the reserved memory.
        if read_bytes(unsafe { &raw mut (*record).argv }, whole, start) {
            length = if whole < ARGV_BYTES as u64 { whole as u32 } else { ARGV_BYTES as u32 };
        }
    }
    // SAFETY: `record` is the reserved memory; every field is written below.
    unsafe {
        (&raw mut (*record).header)
            .write(RecordHeader { flags, ..header(RECORD_EXEC, connection, (tgid, uid), length as usize) });
        let info = &mut (*record).info;
        facts(task, info);
        let ids = if adopted { 0 } else { bpf_get_current_uid_gid() };
        info.cgroup_id = if adopted { 0 } else { bpf_get_current_cgroup_id() };
        info.uid = ids as u32;
        info.gid = (ids >> 32) as u32;
        match tables::connection(connection) {
            // Of what may overlap all would be read before anything is written: the stack has no room for that.
            Some(known) => core::ptr::copy_nonoverlapping(known, &raw mut info.connection, 1),
            None => {
                entry.discard(0);
                return 0;
            }
        }
    }
    entry.submit(0);
    0
}

/// Start times and ancestors.
#[inline(always)]
fn facts(task: Ptr, info: &mut ExecInfo) {
    info.start_ns = probe(task, offset!(task_start_boottime)).unwrap_or(0);
    let mut parent: Ptr = probe(task, offset!(task_real_parent)).unwrap_or(core::ptr::null());
    // The parent may be a thread; the process started when its leader did.
    let leader: Ptr = probe(parent, offset!(task_group_leader)).unwrap_or(core::ptr::null());
    info.parent_start_ns = probe(leader, offset!(task_start_boottime)).unwrap_or(0);
    // Nobody can look it up later where it ends at once.
    info.parent_cgroup_id = kernel::cgroup_of(parent).unwrap_or(0);
    info.parent_uid = kernel::uid_of(parent).unwrap_or(u32::MAX);
    info.zero = 0;
    // A process above may have lost its parent too (`podman run` leaves behind what holds the container's pipes): from
    // there on, whoever forked.
    let mut forked = false;
    let mut tgid: u32 = probe(parent, offset!(task_tgid)).unwrap_or(0);
    for slot in 0..ANCESTORS {
        info.ancestors[slot] = tgid;
        parent = probe(parent, offset!(task_real_parent)).unwrap_or(core::ptr::null());
        let above: u32 = probe(parent, offset!(task_tgid)).unwrap_or(0);
        let forker = tables::forker(tgid);
        forked |= forker != 0 && forker != above;
        tgid = if forked { forker } else { above };
    }
    if let [Some(client), above] = orphan(probe(task, offset!(task_tgid)).unwrap_or(0), info.ancestors[0]) {
        info.parent_start_ns = client.start_ns;
        info.parent_cgroup_id = 0;
        // The reaper's own parents are none of the client's.
        info.ancestors = [0; ANCESTORS];
        info.ancestors[0] = client.tgid;
        info.ancestors[1] = match above {
            Some(above) => above.tgid,
            None => 0,
        };
    }
}

/// A child inherits its parent's descriptors, and with them the parent's place in the set.
#[inline(always)]
pub fn forked(parent: Ptr, child: Ptr) {
    let from: u32 = load(parent, offset!(task_tgid));
    let to: u32 = load(child, offset!(task_tgid));
    if from == to {
        return;
    }
    let leader: Ptr = load(parent, offset!(task_group_leader));
    let start_ns = probe(leader, offset!(task_start_boottime)).unwrap_or(0);
    tables::remember_fork(to, Forker { start_ns, tgid: from, zero: 0 });
    if tables::watches(from) {
        tables::watch(to);
    }
    member::inherit(from, to);
}

/// The last thread of a process ended that is watched or belongs to a server.
#[inline(always)]
pub fn exited(task: Ptr) {
    let tgid: u32 = load(task, offset!(task_tgid));
    let watched = tables::watches(tgid);
    if !watched && member::of(tgid).is_none() {
        return;
    }
    let signal: Ptr = load(task, offset!(task_signal));
    if signal.is_null() || load::<i32>(signal, offset!(signal_live)) > 0 {
        return;
    }
    let server = member::of(tgid).and_then(|member| owner(member.connections[0]));
    member::leave(tgid);
    if !watched {
        return;
    }
    tables::forget(tgid);
    let status: i32 = load(task, offset!(task_exit_code));
    let Some(mut entry) = RING.reserve::<RecordHeader>(0) else {
        tables::count(Counter::RingFullFacts, 1);
        return;
    };
    // With what its connection's records say: it comes behind these.
    let uid = match server {
        Some(uid) => uid,
        None => kernel::uid_of(task).unwrap_or(0),
    };
    entry.write(RecordHeader { value: status as u32, ..header(RECORD_EXIT, 0, (tgid, uid), 0) });
    entry.submit(0);
}

/// The user who answers for a connection.
#[inline(always)]
fn owner(connection: ConnectionId) -> Option<u32> {
    // SAFETY: a live map value.
    tables::connection(connection).map(|known| unsafe { (*known).positions.uid })
}
