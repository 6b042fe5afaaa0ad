//! The kernel half of mcpwarden. This file only lists the hooks; each takes its arguments apart and
//! calls the module that does the work.
//!
//! It sees bytes, inodes and processes. It knows nothing of JSON beyond the first byte of a message.
#![no_std]
#![no_main]
// The target has no compare-and-swap in core, so `AtomicU64::fetch_add` is missing; the intrinsic is not.
#![allow(internal_features)]
#![feature(core_intrinsics)]
// For the one call whose bound the verifier must see right before it.
#![feature(asm_experimental_arch)]

mod capture;
mod connect;
mod exec;
mod far_side;
mod fd_scan;
mod gate;
mod io_uring;
mod iterator;
mod kernel;
mod log;
mod member;
mod opening;
mod register;
mod ring;
mod share;
mod socket;
mod socket_scan;
mod source;
mod syscall;
mod tables;
mod tls;
mod tls_probes;
mod trampoline;

use aya_ebpf::{
    macros::{
        btf_tracepoint, cgroup_sock, cgroup_sock_addr, fentry, fexit, lsm, tracepoint, uprobe, uretprobe,
    },
    programs::{
        BtfTracePointContext, FEntryContext, FExitContext, LsmContext, ProbeContext, RetProbeContext,
        SockAddrContext, SockContext, TracePointContext,
    },
};
use syscall::op;
use trampoline::Pipes;

/// match-proto: `void sched_prepare_exec(struct task_struct *task, struct linux_binprm *bprm)`, 6.9 to 6.18.
/// The old image still runs, its parent still waits, the descriptors are already the new program's.
#[btf_tracepoint(function = "sched_prepare_exec")]
pub fn sched_prepare_exec(_ctx: BtfTracePointContext) -> i32 {
    exec::on_the_way();
    0
}

/// The same moment on kernels without `sched_prepare_exec`, which later ones raise first thing in that function.
///
/// match-proto: `int begin_new_exec(struct linux_binprm *bprm)`, 5.8 to 6.18.
#[fentry(function = "begin_new_exec")]
pub fn begin_new_exec(_ctx: FEntryContext) -> i32 {
    exec::on_the_way();
    0
}

/// A little sooner, on kernels that have neither: `execve(2)` is entered.
#[tracepoint(category = "syscalls", name = "sys_enter_execve")]
pub fn sys_enter_execve(_ctx: TracePointContext) -> u32 {
    exec::on_the_way();
    0
}

/// See [`sys_enter_execve`].
#[tracepoint(category = "syscalls", name = "sys_enter_execveat")]
pub fn sys_enter_execveat(_ctx: TracePointContext) -> u32 {
    exec::on_the_way();
    0
}

/// match-proto: `void sched_process_exec(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)`, 5.5 to 6.18.
#[btf_tracepoint(function = "sched_process_exec")]
pub fn sched_process_exec(_ctx: BtfTracePointContext) -> i32 {
    exec::done();
    0
}

/// match-proto: `void sched_process_fork(struct task_struct *parent, struct task_struct *child)`, 5.5 to 6.18.
#[btf_tracepoint(function = "sched_process_fork")]
pub fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
    exec::forked(ctx.arg::<*const u8>(0), ctx.arg::<*const u8>(1));
    0
}

/// match-proto: `void sched_process_exit(struct task_struct *p)`, 5.5 to 6.18 (6.16 adds `bool group_dead`).
#[btf_tracepoint(function = "sched_process_exit")]
pub fn sched_process_exit(ctx: BtfTracePointContext) -> i32 {
    exec::exited(ctx.arg::<*const u8>(0));
    0
}

/// match-proto: `void sys_exit(struct pt_regs *regs, long ret)`, 5.5 to 6.18.
#[btf_tracepoint(function = "sys_exit")]
pub fn sys_exit(ctx: BtfTracePointContext) -> i32 {
    let ret: i64 = ctx.arg(1);
    if ret >= 0 {
        syscall::returned(ctx.arg::<*const u8>(0), ret as u64);
    }
    0
}

/// A function of a TLS library is called in a client: `int SSL_write(SSL *ssl, const void *buf, int num)` and the like, as the cookie of
/// the attachment says.
#[uprobe]
pub fn tls_called(ctx: ProbeContext) -> u32 {
    tls_probes::called(&ctx);
    0
}

/// One that takes plaintext is called: what the gate says of that.
#[uprobe]
pub fn tls_judged(ctx: ProbeContext) -> u32 {
    tls_probes::judged(&ctx);
    0
}

/// It has returned.
#[uretprobe]
pub fn tls_returned(ctx: RetProbeContext) -> u32 {
    tls_probes::returned(&ctx);
    0
}

/// One of Go is at an instruction that returns: Go moves its stacks, and a probe at a function's return would end the program.
#[uprobe]
pub fn tls_returns(ctx: ProbeContext) -> u32 {
    tls_probes::returns(&ctx);
    0
}

/// match-proto: `void io_uring_complete(void *ctx, void *req, u64 user_data, int res, unsigned cflags, u64 extra1,
/// u64 extra2)`, 5.19 to 6.15.
#[btf_tracepoint(function = "io_uring_complete")]
pub fn io_uring_complete(ctx: BtfTracePointContext) -> i32 {
    io_uring::completed(ctx.arg::<*const u8>(1), ctx.arg::<i32>(3));
    0
}

/// match-proto: `void io_uring_complete(struct io_ring_ctx *ctx, void *req, struct io_uring_cqe *cqe)`, 6.16 to 6.18.
#[btf_tracepoint(function = "io_uring_complete")]
pub fn io_uring_complete_cqe(ctx: BtfTracePointContext) -> i32 {
    io_uring::completed_cqe(ctx.arg::<*const u8>(1), ctx.arg::<*const u8>(2));
    0
}

/// See [`io_uring_complete`]; for the trampoline backend.
#[btf_tracepoint(function = "io_uring_complete")]
pub fn io_uring_spliced(ctx: BtfTracePointContext) -> i32 {
    io_uring::spliced(ctx.arg::<*const u8>(1), ctx.arg::<i32>(3));
    0
}

/// See [`io_uring_complete_cqe`]; for the trampoline backend.
#[btf_tracepoint(function = "io_uring_complete")]
pub fn io_uring_spliced_cqe(ctx: BtfTracePointContext) -> i32 {
    io_uring::spliced_cqe(ctx.arg::<*const u8>(1), ctx.arg::<*const u8>(2));
    0
}

/// A program at the exit of a function that reads or writes a file: `ssize_t f(struct kiocb *, struct iov_iter *)`.
macro_rules! at_pipe {
    ($(#[$doc:meta])* $name:ident, $writes:literal, $which:expr) => {
        $(#[$doc])*
        #[fexit]
        pub fn $name(ctx: FExitContext) -> i32 {
            trampoline::pipe(ctx.arg(0), ctx.arg(1), ctx.arg(2), $writes, $which);
            0
        }
    };
}

at_pipe! {
    /// match-proto: `ssize_t pipe_write(struct kiocb *iocb, struct iov_iter *from)`, 3.16 to 6.14.
    pipe_write, true, Pipes::All
}
at_pipe! {
    /// match-proto: `ssize_t pipe_read(struct kiocb *iocb, struct iov_iter *to)`, 3.16 to 6.14.
    pipe_read, false, Pipes::All
}
at_pipe! {
    /// match-proto: `ssize_t anon_pipe_write(struct kiocb *iocb, struct iov_iter *from)`, 6.15 to 6.18.
    anon_pipe_write, true, Pipes::Anonymous
}
at_pipe! {
    /// match-proto: `ssize_t anon_pipe_read(struct kiocb *iocb, struct iov_iter *to)`, 6.15 to 6.18.
    anon_pipe_read, false, Pipes::Anonymous
}
at_pipe! {
    /// match-proto: `ssize_t fifo_pipe_write(struct kiocb *iocb, struct iov_iter *from)`, 6.15 to 6.18.
    fifo_pipe_write, true, Pipes::Named
}
at_pipe! {
    /// match-proto: `ssize_t fifo_pipe_read(struct kiocb *iocb, struct iov_iter *to)`, 6.15 to 6.18.
    fifo_pipe_read, false, Pipes::Named
}

/// A program at the exit of `int f(struct socket *, struct msghdr *, size_t)`.
macro_rules! at_send {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[fexit]
        pub fn $name(ctx: FExitContext) -> i32 {
            trampoline::sent(ctx.arg(0), ctx.arg(1), ctx.arg(3));
            0
        }
    };
}

at_send! {
    /// match-proto: `int unix_stream_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)`, 4.1 to 6.18.
    unix_stream_sendmsg
}
at_send! {
    /// match-proto: `int inet_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)`, 4.1 to 6.18. TCP of IPv4,
    /// below it what sits on TCP (kTLS) and MPTCP.
    inet_sendmsg
}
at_send! {
    /// match-proto: `int inet6_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)`, 5.3 to 6.18.
    inet6_sendmsg
}

/// match-proto: `int unix_stream_connect(struct socket *sock, struct sockaddr *uaddr, int addr_len, int flags)`, 2.6 to 6.18.
#[fexit]
pub fn unix_stream_connect(ctx: FExitContext) -> i32 {
    trampoline::connected(ctx.arg(0), ctx.arg(4));
    0
}

/// match-proto: `int unix_release(struct socket *sock)`, 2.6 to 6.18.
#[fexit]
pub fn unix_release(ctx: FExitContext) -> i32 {
    trampoline::released(ctx.arg(0));
    0
}

/// A program at the exit of `int f(struct socket *, struct msghdr *, size_t, int flags)`.
macro_rules! at_receive {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[fexit]
        pub fn $name(ctx: FExitContext) -> i32 {
            trampoline::received(ctx.arg(0), ctx.arg(1), ctx.arg(3), ctx.arg(4));
            0
        }
    };
}

at_receive! {
    /// match-proto: `int unix_stream_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)`, 4.1 to
    /// 6.18.
    unix_stream_recvmsg
}
at_receive! {
    /// match-proto: `int inet_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)`, 4.1 to 6.18.
    inet_recvmsg
}
at_receive! {
    /// match-proto: `int inet6_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)`, 5.3 to 6.18.
    inet6_recvmsg
}

/// A program at the exit of a system call whose bytes no function above sees. match-proto of each:
/// `long __x64_sys_NAME(const struct pt_regs *regs)`, 4.17 to 6.18, and `__ia32_…` of 32-bit calls.
macro_rules! at_call {
    ($name:ident, $op:ident, $compat:literal) => {
        #[fexit]
        pub fn $name(ctx: FExitContext) -> i32 {
            syscall::unseen_returned(op::$op, ctx.arg(0), ctx.arg(1), $compat);
            0
        }
    };
}

at_call!(sys_splice, SPLICE, false);
at_call!(sys_tee, TEE, false);
at_call!(sys_vmsplice, VMSPLICE, false);
at_call!(sys_sendfile64, SENDFILE, false);
at_call!(ia32_sys_splice, SPLICE, true);
at_call!(ia32_sys_tee, TEE, true);
at_call!(ia32_sys_vmsplice, VMSPLICE, true);
at_call!(ia32_compat_sys_sendfile, SENDFILE, true);
at_call!(ia32_sys_sendfile64, SENDFILE, true);

/// A program at the exit of a system call that duplicates a descriptor; match-proto: as above.
macro_rules! at_duplicate {
    ($name:ident) => {
        #[fexit]
        pub fn $name(ctx: FExitContext) -> i32 {
            syscall::duplicated(ctx.arg(1));
            0
        }
    };
}

at_duplicate!(sys_dup);
at_duplicate!(sys_dup2);
at_duplicate!(sys_dup3);
at_duplicate!(ia32_sys_dup);
at_duplicate!(ia32_sys_dup2);
at_duplicate!(ia32_sys_dup3);

/// match-proto: `int file_permission(struct file *file, int mask)`, 5.7 to 6.18.
#[lsm(hook = "file_permission")]
pub fn file_permission(ctx: LsmContext) -> i32 {
    trampoline::evaluate_pipe(ctx.arg(0), ctx.arg(1))
}

/// match-proto: `int socket_sendmsg(struct socket *sock, struct msghdr *msg, int size)`, 5.7 to 6.18.
#[lsm(hook = "socket_sendmsg")]
pub fn socket_sendmsg(ctx: LsmContext) -> i32 {
    trampoline::evaluate_socket(ctx.arg(0), ctx.arg(1))
}

/// A program of the gate at the exit of a function that writes to a pipe.
macro_rules! gate_at_pipe {
    ($name:ident) => {
        #[fexit]
        pub fn $name(ctx: FExitContext) -> i32 {
            trampoline::pipe_settled(ctx.arg(0), ctx.arg(1), ctx.arg(2));
            0
        }
    };
}

gate_at_pipe!(gate_pipe_write);
gate_at_pipe!(gate_anon_pipe_write);
gate_at_pipe!(gate_fifo_pipe_write);

/// The same of sockets. match-proto: as [`unix_stream_sendmsg`], [`inet_sendmsg`] and [`inet6_sendmsg`].
macro_rules! gate_at_send {
    ($name:ident) => {
        #[fexit]
        pub fn $name(ctx: FExitContext) -> i32 {
            trampoline::socket_settled(ctx.arg(0), ctx.arg(1), ctx.arg(3));
            0
        }
    };
}

gate_at_send!(gate_unix_stream_sendmsg);
gate_at_send!(gate_inet_sendmsg);
gate_at_send!(gate_inet6_sendmsg);

/// match-proto: `bpf_iter__task_file { meta, task, u32 fd, file }`, 5.8 to 6.18.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task_file")]
pub extern "C" fn fd_scan(ctx: *mut core::ffi::c_void) -> i32 {
    fd_scan::visit(ctx as *const u64);
    0
}

/// match-proto: as [`fd_scan`].
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task_file")]
pub extern "C" fn stdio_scan(ctx: *mut core::ffi::c_void) -> i32 {
    fd_scan::adopt(ctx as *const u64);
    0
}

/// match-proto: as [`fd_scan`].
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task_file")]
pub extern "C" fn socket_scan(ctx: *mut core::ffi::c_void) -> i32 {
    socket_scan::visit(ctx as *const u64);
    0
}

/// `BPF_CGROUP_INET4_CONNECT`: TCP and UDP sockets of IPv4, and IPv4 addresses given to UDP sockets of IPv6.
#[cgroup_sock_addr(connect4)]
pub fn connect4(ctx: SockAddrContext) -> i32 {
    connect::decide(ctx.sock_addr, connect::ipv4, false)
}

/// `BPF_CGROUP_INET6_CONNECT`: also IPv4 addresses in their mapped form.
#[cgroup_sock_addr(connect6)]
pub fn connect6(ctx: SockAddrContext) -> i32 {
    connect::decide(ctx.sock_addr, connect::ipv6, false)
}

/// `BPF_CGROUP_UDP4_SENDMSG`: a datagram with an address of its own.
#[cgroup_sock_addr(sendmsg4)]
pub fn sendmsg4(ctx: SockAddrContext) -> i32 {
    connect::decide(ctx.sock_addr, connect::ipv4, true)
}

/// `BPF_CGROUP_UDP6_SENDMSG`
#[cgroup_sock_addr(sendmsg6)]
pub fn sendmsg6(ctx: SockAddrContext) -> i32 {
    connect::decide(ctx.sock_addr, connect::ipv6, true)
}

/// `BPF_CGROUP_INET_SOCK_RELEASE`: a socket of IPv4 or IPv6 is closed; 5.9 to 6.18.
#[cgroup_sock(sock_release)]
pub fn sock_release(ctx: SockContext) -> i32 {
    socket::released(ctx.sock);
    1
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// The programs use GPL-only helpers.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
