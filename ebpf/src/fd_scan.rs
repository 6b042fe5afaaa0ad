//! Who holds which channel: one pass over every descriptor of every process.
//!
//! The agent runs it at start (to adopt servers that already run) and from time to time (to find holders that
//! came by a descriptor unseen, and channels that nobody holds any more). It reads [`Holder`] entries.

use aya_ebpf::{helpers::generated::bpf_seq_write, macros::map, maps::Array};
use mcpwarden_abi::{ChannelKey, Holder, PENDING_UNKNOWN};

use crate::{
    exec,
    kernel::{self, Ptr, load, offset},
    tables,
};

/// 1 while the agent wants unknown processes with two channels to be registered.
#[map(name = "ADOPT")]
static ADOPT: Array<u32> = Array::with_max_entries(1, 0);

/// `struct bpf_iter__task_file { meta; task; u32 fd; file }`, each field 8 bytes wide.
#[inline(always)]
pub fn visit(ctx: *const u64) {
    // SAFETY: the verifier types the context.
    let (meta, task, fd, file) =
        unsafe { (*ctx as *const u64, *ctx.add(1) as Ptr, *(ctx.add(2) as *const u32), *ctx.add(3) as Ptr) };
    if task.is_null() || file.is_null() {
        return;
    }
    let tgid: u32 = load(task, offset!(task_tgid));
    let adopt = match ADOPT.get(0) {
        Some(adopt) => *adopt != 0,
        None => false,
    };
    hold(meta, tgid, fd, file);
    if fd == 0
        && let Some(carrier) = kernel::uncaptured(task)
    {
        let key = ChannelKey { inode: carrier, device: 0, generation: 0 };
        write(meta, &Holder { key, pid: tgid, fd, pending: PENDING_UNKNOWN });
    }
    // Last: the verifier goes through what follows once for each way through this. Who is registered now shows as a holder
    // in the next fd scan.
    if adopt && fd == 0 {
        exec::adopt(task, tgid);
    }
}

/// Tells of a descriptor that is a channel.
#[inline(always)]
fn hold(meta: *const u64, tgid: u32, fd: u32, file: Ptr) {
    let Some(key) = kernel::key_of_file(file) else { return };
    let Some(roles) = tables::channel(&key) else { return };
    tables::watch(tgid);
    let mut pending = PENDING_UNKNOWN;
    // SAFETY: a live map value.
    if unsafe { (*roles).read_capture } != 0
        && let Some(bytes) = kernel::pending(file)
    {
        pending = bytes;
    }
    write(meta, &Holder { key, pid: tgid, fd, pending });
}

#[inline(always)]
fn write(meta: *const u64, holder: &Holder) {
    // SAFETY: `meta->seq` is the first field of `struct bpf_iter_meta`; the buffer is `holder`.
    unsafe {
        bpf_seq_write(
            *meta as *mut _,
            core::ptr::from_ref(holder).cast_mut().cast(),
            size_of::<Holder>() as u32,
        );
    }
}
