//! Which kernel fields the programs need, and where this kernel keeps them.

use mcpwarden_abi::KernelLayout;

use super::btf::{Btf, BtfError};

/// Resolves what the trampoline backend reads besides. Without one of these it cannot work.
pub fn resolve_iterators(btf: &Btf, layout: KernelLayout) -> Result<KernelLayout, BtfError> {
    let at = |name: &str, member: &str| btf.offset(name, member);
    let kind = |value: &str| btf.value("iter_type", value);
    Ok(KernelLayout {
        sb_magic: at("super_block", "s_magic")?,
        iocb_filp: at("kiocb", "ki_filp")?,
        iocb_complete: at("kiocb", "ki_complete")?,
        msghdr_iter: at("msghdr", "msg_iter")?,
        msghdr_flags: at("msghdr", "msg_flags")?,
        msghdr_iocb: at("msghdr", "msg_iocb")?,
        iter_type: at("iov_iter", "iter_type")?,
        iter_offset: at("iov_iter", "iov_offset")?,
        iter_ubuf: at("iov_iter", "ubuf")?,
        // Renamed in 6.4.
        iter_iov: at("iov_iter", "__iov").or_else(|_| at("iov_iter", "iov"))?,
        iter_count: at("iov_iter", "count")?,
        iter_segments: at("iov_iter", "nr_segs")?,
        iter_is_ubuf: kind("ITER_UBUF")?,
        iter_is_iovec: kind("ITER_IOVEC")?,
        iter_is_bvec: kind("ITER_BVEC")?,
        vma_flags: at("vm_area_struct", "vm_flags")?,
        ..layout
    })
}

/// Resolves every field that the programs read, but for those of [`resolve_iterators`]. The io_uring fields may be missing
/// (a kernel without it).
pub fn resolve(btf: &Btf) -> Result<KernelLayout, BtfError> {
    let at = |name: &str, member: &str| btf.offset(name, member);
    let optional = |name: &str, member: &str| btf.offset(name, member).unwrap_or(0);
    Ok(KernelLayout {
        task_files: at("task_struct", "files")?,
        task_tgid: at("task_struct", "tgid")?,
        task_flags: at("task_struct", "flags")?,
        task_real_parent: at("task_struct", "real_parent")?,
        task_group_leader: at("task_struct", "group_leader")?,
        task_children: at("task_struct", "children")?,
        task_sibling: at("task_struct", "sibling")?,
        task_signal: at("task_struct", "signal")?,
        task_exit_code: at("task_struct", "exit_code")?,
        // Renamed in 5.5.
        task_start_boottime: at("task_struct", "start_boottime")
            .or_else(|_| at("task_struct", "real_start_time"))?,
        task_mm: at("task_struct", "mm")?,
        task_thread_status: at("task_struct", "thread_info.status")?,
        task_real_cred: at("task_struct", "real_cred")?,
        task_cgroups: at("task_struct", "cgroups")?,
        cred_uid: at("cred", "uid")?,
        css_set_dfl_cgrp: at("css_set", "dfl_cgrp")?,
        cgroup_kn: at("cgroup", "kn")?,
        kernfs_node_id: at("kernfs_node", "id")?,
        signal_live: at("signal_struct", "live")?,
        mm_arg_start: at("mm_struct", "arg_start")?,
        mm_arg_end: at("mm_struct", "arg_end")?,
        files_fdt: at("files_struct", "fdt")?,
        fdtable_max_fds: at("fdtable", "max_fds")?,
        fdtable_fd: at("fdtable", "fd")?,
        file_inode: at("file", "f_inode")?,
        file_mode: at("file", "f_mode")?,
        file_private_data: at("file", "private_data")?,
        inode_mode: at("inode", "i_mode")?,
        inode_rdev: at("inode", "i_rdev")?,
        inode_ino: at("inode", "i_ino")?,
        inode_sb: at("inode", "i_sb")?,
        inode_pipe: at("inode", "i_pipe")?,
        pipe_head: at("pipe_inode_info", "head")?,
        pipe_tail: at("pipe_inode_info", "tail")?,
        pipe_ring_size: at("pipe_inode_info", "ring_size")?,
        pipe_bufs: at("pipe_inode_info", "bufs")?,
        pipe_buffer_len: at("pipe_buffer", "len")?,
        pipe_buffer_size: btf.size("pipe_buffer")?,
        sb_dev: at("super_block", "s_dev")?,
        socket_sk: at("socket", "sk")?,
        socket_type: at("socket", "type")?,
        socket_file: at("socket", "file")?,
        socket_alloc_inode: at("socket_alloc", "vfs_inode")?,
        sock_family: at("sock", "__sk_common.skc_family")?,
        sock_socket: at("sock", "sk_socket")?,
        sock_wmem_alloc: at("sock", "sk_wmem_alloc")?,
        sock_net: at("sock", "__sk_common.skc_net.net")?,
        sock_peer_pid: at("sock", "sk_peer_pid")?,
        sock_state: at("sock", "__sk_common.skc_state")?,
        sock_port: at("sock", "__sk_common.skc_num")?,
        sock_peer_port: at("sock", "__sk_common.skc_dport")?,
        sock_address: at("sock", "__sk_common.skc_rcv_saddr")?,
        sock_peer_address: at("sock", "__sk_common.skc_daddr")?,
        sock_address6: optional("sock", "__sk_common.skc_v6_rcv_saddr"),
        sock_peer_address6: optional("sock", "__sk_common.skc_v6_daddr"),
        sock_protocol: at("sock", "sk_protocol")?,
        sock_max_backlog: at("sock", "sk_max_ack_backlog")?,
        tcp_layer: at("inet_connection_sock", "icsk_ulp_ops")?,
        tcp_acked: at("tcp_sock", "bytes_acked")?,
        tcp_write: at("tcp_sock", "write_seq")?,
        tcp_unacked: at("tcp_sock", "snd_una")?,
        tcp_received: at("tcp_sock", "bytes_received")?,
        tcp_next: at("tcp_sock", "rcv_nxt")?,
        tcp_copied: at("tcp_sock", "copied_seq")?,
        unix_peer: at("unix_sock", "peer")?,
        unix_addr: at("unix_sock", "addr")?,
        unix_address_len: at("unix_address", "len")?,
        unix_address_name: at("unix_address", "name")?,
        pid_numbers: at("pid", "numbers")?,
        net_cookie: at("net", "net_cookie")?,
        kiocb_file: optional("io_kiocb", "file"),
        kiocb_opcode: optional("io_kiocb", "opcode"),
        rw_addr: optional("io_rw", "addr"),
        rw_len: optional("io_rw", "len"),
        msg_buf: optional("io_sr_msg", "umsg"),
        msg_flags: optional("io_sr_msg", "msg_flags"),
        ..KernelLayout::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_kernel_has_every_field() {
        let path = std::path::Path::new("/sys/kernel/btf/vmlinux");
        assert!(path.exists(), "the tests need a kernel with BTF");
        let btf = Btf::from_file(path).unwrap();
        let layout = resolve(&btf).unwrap();
        assert_ne!(layout.task_files, 0);
        assert_ne!(layout.inode_ino, 0);
        let layout = resolve_iterators(&btf, layout).unwrap();
        assert_ne!(layout.iter_is_ubuf, layout.iter_is_iovec);
        assert_ne!(layout.task_files, 0);
        assert_eq!(btf.functions(&["unix_stream_sendmsg", "no_such_function"]), ["unix_stream_sendmsg"]);
        assert!(btf.tracepoint_arguments("sys_exit") == Some(2));
        assert!(btf.tracepoint_arguments("no_such_tracepoint").is_none());
    }
}
