//! Reading the kernel's structures: tasks, descriptors, inodes, pipes, and in `sock` sockets.
//!
//! Offsets come from the running kernel's BTF (`layout`, a read-only global), so the verifier sees
//! constants. What has a BTF type is loaded directly; what hangs behind an untyped pointer is read with
//! `bpf_probe_read_kernel`.

mod layout;
mod sock;

use core::arch::asm;

use aya_ebpf::helpers::{
    bpf_probe_read_kernel,
    generated::{self, bpf_get_current_task_btf},
};
use mcpwarden_abi::{CARRIER_PACKETS, CARRIER_PTY, ChannelKey};

pub use layout::KERNEL_LAYOUT;
pub(crate) use layout::offset;
use sock::unix_peer;
pub use sock::{is_named, key_of_sock, name_of_unix, netns_of, peer_of, sock_of, unix_pair, unread};

/// What is read of an inode at once: its number, its superblock and what lies between (32 bytes from 6.1 to 6.18).
const INODE_SPAN: usize = 48;

/// `linux/stat.h`
const S_IFMT: u16 = 0o170000;
const S_IFIFO: u16 = 0o010000;
const S_IFSOCK: u16 = 0o140000;
const S_IFCHR: u16 = 0o020000;
/// `linux/socket.h`
pub const AF_UNIX: u16 = 1;
/// `linux/net.h`
const SOCK_STREAM: u16 = 1;
/// `linux/fs.h`
pub const FMODE_WRITE: u32 = 2;
/// See [`carrier`]: what is captured.
const CHANNEL: u64 = 1;

/// A pointer into the kernel. What it points at may be gone: every read can fail or be checked.
pub type Ptr = *const u8;

/// Loads a field through a pointer whose BTF type the verifier knows.
#[inline(always)]
pub fn load<T: Copy>(base: Ptr, offset: usize) -> T {
    // SAFETY: the verifier checks type and offset, and faults read as zero.
    unsafe { core::ptr::read_volatile(base.add(offset) as *const T) }
}

/// Reads a field through an untyped pointer; `None` where the memory is gone.
#[inline(always)]
pub fn probe<T: Copy>(base: Ptr, offset: usize) -> Option<T> {
    // SAFETY: bpf_probe_read_kernel checks the address.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(offset) as *const T) }.ok()
}

/// `value`, or `limit` where it is more, so that the verifier knows: the bound has to be seen right before it counts,
/// since before 6.8 it is lost with a value that is kept on the stack meanwhile, and the compiler drops one that it knows.
#[inline(always)]
pub fn at_most(value: u64, limit: u64) -> u64 {
    // SAFETY: a live value.
    let value = unsafe { core::ptr::read_volatile(&raw const value) };
    if value > limit { limit } else { value }
}

/// A pointer as a number: to the verifier it is one once it was copied, and functions that it goes through by themselves
/// take nothing else.
#[inline(always)]
pub fn number(pointer: Ptr) -> u64 {
    let mut number = 0u64;
    // SAFETY: source and destination are live and of that size.
    unsafe {
        generated::bpf_probe_read_kernel(
            (&raw mut number).cast(),
            size_of::<Ptr>() as u32,
            (&raw const pointer).cast(),
        );
    }
    number
}

/// The task that runs.
#[inline(always)]
pub fn current() -> Ptr {
    // SAFETY: a helper without arguments.
    unsafe { bpf_get_current_task_btf() as Ptr }
}

/// When the current process started, not its thread.
#[inline(always)]
pub fn started() -> u64 {
    let leader: Ptr = load(current(), offset!(task_group_leader));
    probe(leader, offset!(task_start_boottime)).unwrap_or(0)
}

/// The same of any task.
#[inline(always)]
pub fn started_of(task: Ptr) -> u64 {
    let leader: Ptr = probe(task, offset!(task_group_leader)).unwrap_or(core::ptr::null());
    probe(leader, offset!(task_start_boottime)).unwrap_or(0)
}

/// `task_dfl_cgroup(task)->kn->id`
#[inline(always)]
pub fn cgroup_of(task: Ptr) -> Option<u64> {
    let set: Ptr = probe(task, offset!(task_cgroups))?;
    let cgroup: Ptr = probe(set, offset!(css_set_dfl_cgrp))?;
    let node: Ptr = probe(cgroup, offset!(cgroup_kn))?;
    probe(node, offset!(kernfs_node_id))
}

/// `task->real_cred->uid`
#[inline(always)]
pub fn uid_of(task: Ptr) -> Option<u32> {
    let credentials: Ptr = probe(task, offset!(task_real_cred))?;
    probe(credentials, offset!(cred_uid))
}

/// `task->files->fdt->fd[fd]`. The task may be any whose pointer the verifier trusts.
#[inline(always)]
pub fn file_of(task: Ptr, fd: u32) -> Option<Ptr> {
    let files: Ptr = load(task, offset!(task_files));
    if files.is_null() {
        return None;
    }
    let fdt: Ptr = load(files, offset!(files_fdt));
    if fdt.is_null() {
        return None;
    }
    let max_fds: u32 = load(fdt, offset!(fdtable_max_fds));
    if fd >= max_fds {
        return None;
    }
    let array: u64 = load(fdt, offset!(fdtable_fd));
    let file: Ptr = probe(array as Ptr, fd as usize * 8)?;
    (!file.is_null()).then_some(file)
}

/// `file->f_inode`
#[inline(always)]
pub fn inode_of(file: Ptr) -> Option<Ptr> {
    let inode: Ptr = probe(file, offset!(file_inode))?;
    (!inode.is_null()).then_some(inode)
}

/// The key of a channel on this inode.
#[inline(always)]
pub fn key_of(inode: Ptr) -> Option<ChannelKey> {
    // Both fields lie close together in every kernel's inode; one read costs less than two.
    let (number, superblock) = (offset!(inode_ino), offset!(inode_sb));
    let base = if number < superblock { number } else { superblock };
    let head: [u64; INODE_SPAN / 8] = probe(inode, base)?;
    let head = head.as_ptr().cast::<u8>();
    // SAFETY: the verifier refuses the program on a kernel where they lie further apart.
    let (number, superblock) = unsafe {
        (
            core::ptr::read_volatile(head.add(number - base).cast::<u64>()),
            core::ptr::read_volatile(head.add(superblock - base).cast::<Ptr>()),
        )
    };
    let device: u32 = probe(superblock, offset!(sb_dev))?;
    Some(ChannelKey { inode: number, device, generation: generation(inode, superblock) })
}

/// The key of a channel behind a file whose BTF type the verifier knows; `None` where there is no file.
#[inline(always)]
pub fn key_of_file(file: Ptr) -> Option<ChannelKey> {
    if file.is_null() {
        return None;
    }
    let inode: Ptr = load(file, offset!(file_inode));
    if inode.is_null() {
        return None;
    }
    let superblock: Ptr = load(inode, offset!(inode_sb));
    if superblock.is_null() {
        return None;
    }
    let device = load(superblock, offset!(sb_dev));
    let generation = generation(inode, superblock);
    Some(ChannelKey { inode: load(inode, offset!(inode_ino)), device, generation })
}

/// See [`ChannelKey::generation`]. Of pointers whose type it knows the verifier allows no calculation but the distance, whole.
#[inline(always)]
fn generation(inode: Ptr, superblock: Ptr) -> u32 {
    /// Inodes are aligned to it, at least.
    const ALIGNED: u32 = 8;
    let distance: u64;
    // SAFETY: it reads two registers and writes one. The compiler would calculate in halves, or take one apart.
    unsafe {
        asm!(
            "{to} = {inode}",
            "{to} -= {superblock}",
            inode = in(reg) inode,
            superblock = in(reg) superblock,
            to = out(reg) distance,
            options(pure, nomem, nostack),
        );
    }
    (distance / ALIGNED as u64) as u32
}

/// Whether an inode whose BTF type the verifier knows is a pipe's.
#[inline(always)]
pub fn is_pipe(inode: Ptr) -> bool {
    load::<u16>(inode, offset!(inode_mode)) & S_IFMT == S_IFIFO
}

/// One end of something that can carry MCP, with the inode at which the other side reads or writes.
#[derive(Clone, Copy)]
pub struct End {
    /// The inode of this descriptor.
    pub near: ChannelKey,
    /// The inode of the peer's descriptor; the same for a pipe.
    pub far: ChannelKey,
}

/// How many buffers of a pipe are looked at: a pipe has 16, and 256 where its user enlarged it as far as he may.
const PIPE_BUFFERS: u32 = 256;

/// What lies in a pipe.
pub struct InPipe {
    /// Bytes in the buffers that were looked at.
    pub bytes: u64,
    /// Whether these were all.
    pub all: bool,
}

/// How many bytes lie in the pipe behind a file; `None` where it is none.
///
/// Read without the pipe's lock: its writer may add to it meanwhile, and what is counted too little shows as taken and
/// never given.
#[inline(always)]
pub fn bytes_in_pipe(file: Ptr) -> Option<InPipe> {
    let inode = inode_of(file)?;
    let mode: u16 = probe(inode, offset!(inode_mode))?;
    if mode & S_IFMT != S_IFIFO {
        return None;
    }
    let pipe: Ptr = probe(inode, offset!(inode_pipe))?;
    let head: u32 = probe(pipe, offset!(pipe_head))?;
    let tail: u32 = probe(pipe, offset!(pipe_tail))?;
    let ring_size: u32 = probe(pipe, offset!(pipe_ring_size))?;
    let buffers: Ptr = probe(pipe, offset!(pipe_bufs))?;
    let mut bytes = 0;
    let mut all = false;
    for index in 0..=PIPE_BUFFERS {
        let at = tail.wrapping_add(index);
        if at == head {
            all = true;
            break;
        }
        let slot = (at & ring_size.wrapping_sub(1)) as usize;
        let length: u32 = probe(buffers, slot * offset!(pipe_buffer_size) + offset!(pipe_buffer_len))?;
        bytes += length as u64;
    }
    Some(InPipe { bytes, all })
}

/// How many bytes wait to be read behind the file of a channel, at most: exactly in a pipe; in a socket 0 where none
/// do, else the memory that they occupy (`sk_wmem_alloc_get` of the peer, as `SIOCOUTQ` tells it).
#[inline(always)]
pub fn pending(file: Ptr) -> Option<u64> {
    if let Some(InPipe { bytes, all }) = bytes_in_pipe(file) {
        return all.then_some(bytes);
    }
    unread(unix_peer(file)?)
}

/// The channel behind a file: a pipe, or a connected Unix stream socket.
#[inline(always)]
pub fn end_of(file: Ptr) -> Option<End> {
    let inode = inode_of(file)?;
    let mode: u16 = probe(inode, offset!(inode_mode))?;
    let kind = mode & S_IFMT;
    if kind == S_IFIFO {
        let near = key_of(inode)?;
        return Some(End { near, far: near });
    }
    if kind != S_IFSOCK {
        return None;
    }
    let peer = unix_peer(file)?;
    let peer_socket: Ptr = probe(peer, offset!(sock_socket))?;
    if peer_socket.is_null() {
        return None;
    }
    // `struct socket_alloc { struct socket; struct inode }`: the socket is the first member.
    let peer_inode = peer_socket.wrapping_add(offset!(socket_alloc_inode));
    Some(End { near: key_of(inode)?, far: key_of(peer_inode)? })
}

/// What could carry MCP behind a file: [`CARRIER_PACKETS`], [`CARRIER_PTY`], [`CHANNEL`], or 0.
#[inline(always)]
pub fn carrier(file: Ptr) -> Option<u64> {
    /// Numbers of the devices of terminals (`Documentation/admin-guide/devices.txt`: Unix98 PTY slaves).
    const PTY_FIRST: u32 = 136;
    const PTY_LAST: u32 = 143;
    const MINOR_BITS: u32 = 20;
    let inode = inode_of(file)?;
    let mode: u16 = probe(inode, offset!(inode_mode))?;
    match mode & S_IFMT {
        S_IFIFO => Some(CHANNEL),
        S_IFCHR => {
            let device: u32 = probe(inode, offset!(inode_rdev))?;
            let major = device >> MINOR_BITS;
            (major >= PTY_FIRST && major <= PTY_LAST).then_some(CARRIER_PTY)
        }
        S_IFSOCK => {
            let socket: Ptr = probe(file, offset!(file_private_data))?;
            let socket_type: u16 = probe(socket, offset!(socket_type))?;
            let sock: Ptr = probe(socket, offset!(socket_sk))?;
            let family: u16 = probe(sock, offset!(sock_family))?;
            if family != AF_UNIX {
                return None;
            }
            Some(if socket_type == SOCK_STREAM { CHANNEL } else { CARRIER_PACKETS })
        }
        _ => None,
    }
}

/// What stdin and stdout of a task carry that is not captured, where they could be a server's.
#[inline(always)]
pub fn uncaptured(task: Ptr) -> Option<u64> {
    let (input, output) = (carrier(file_of(task, 0)?)?, carrier(file_of(task, 1)?)?);
    let worst = if input > output { input } else { output };
    (worst != CHANNEL).then_some(worst)
}

/// Copies `size` bytes, and no more than `N`, with the helper of this number: `bpf_probe_read_user` (112) or
/// `bpf_probe_read_kernel` (113). Whether they are there.
///
/// The bound stands right before the call: before 6.8 the verifier forgets it with a value that the compiler keeps on the
/// stack meanwhile, or looks at in another register.
#[inline(always)]
pub fn copy_bytes<const HELPER: u32, const N: usize>(to: *mut [u8; N], size: u64, address: u64) -> bool {
    let failed: i64;
    // SAFETY: `to` is N long and no more is written; the helper is `(to, size, address)` and checks the address. Helpers take
    // r1 to r5, of which nothing is left, and answer in r0.
    unsafe {
        asm!(
            "if r2 <= {limit} goto +1",
            "r2 = {limit}",
            "call {helper}",
            limit = const N,
            helper = const HELPER,
            inout("r1") to => _,
            inout("r2") size => _,
            inout("r3") address => _,
            out("r0") failed,
            out("r4") _,
            out("r5") _,
        );
    }
    failed == 0
}
