//! A byte of a write is overwritten in the memory of the process that writes it, where that may be.

use core::{arch::asm, ffi::c_void};

use aya_ebpf::{
    bindings::task_struct,
    helpers::generated::{bpf_find_vma, bpf_loop, bpf_probe_write_user},
};
use mcpwarden_abi::NEUTRAL_BYTE;

use crate::{
    kernel::{self, Ptr, load, offset},
    source::read,
};

/// Whether this kernel lets programs write into the memory of processes (under lockdown it refuses one that could).
#[unsafe(no_mangle)]
pub static MAY_NEUTRALIZE: u32 = 0;

/// `linux/mm.h`
const VM_WRITE: u64 = 2;
const VM_SHARED: u64 = 8;
/// The number of `bpf_probe_write_user`.
const PROBE_WRITE_USER: i32 = 36;
/// `linux/errno.h`
const EBUSY: i64 = -16;
/// How often it is tried to look at a process's memory while another of its threads changes what it has. That takes
/// microseconds. Where that thread waits for this processor no number of tries helps: with 16,384, as many calls were refused (6.1).
const VMA_TRIES: u32 = 256;

/// See [`overwrite`].
pub const NOT_OVERWRITTEN: u32 = 256;

/// Overwrites the byte at an address with one that is in no name. What it was; [`NOT_OVERWRITTEN`] where that cannot be.
#[inline(always)]
pub fn overwrite(address: u64) -> u32 {
    if !may_overwrite(address) {
        return NOT_OVERWRITTEN;
    }
    let Some(original) = read::<u8>(address) else { return NOT_OVERWRITTEN };
    let neutralized = NEUTRAL_BYTE;
    // SAFETY: the helper checks the address.
    if unsafe { bpf_probe_write_user(address as *mut c_void, (&raw const neutralized).cast(), 1) } != 0 {
        return NOT_OVERWRITTEN;
    }
    original as u32
}

/// Whether a byte may be overwritten: of the process alone, and as the process could.
#[inline(always)]
pub fn may_overwrite(address: u64) -> bool {
    // SAFETY: a static of this program, which the agent sets before the load.
    if unsafe { core::ptr::read_volatile(&raw const MAY_NEUTRALIZE) } == 0 {
        return false;
    }
    // Shared memory is somebody else's too, and perhaps a file.
    memory_flags(address) & (VM_WRITE | VM_SHARED) == VM_WRITE
}

/// Writes `size` bytes of a program's memory, at least one and no more than `N`, into that of the process. Whether they are there.
///
/// The bound stands right before the call: see [`kernel::copy_bytes`].
#[inline(always)]
pub fn write_bytes<const N: usize>(address: u64, from: *const [u8; N], size: u64) -> bool {
    let failed: i64;
    // SAFETY: `from` is N long and no more is read; the helper is `(to, from, size)` and checks the address. Helpers take r1 to
    // r5, of which nothing is left, and answer in r0.
    unsafe {
        asm!(
            "if r3 > 0 goto +1",
            "r3 = 1",
            "if r3 <= {limit} goto +1",
            "r3 = {limit}",
            "call {helper}",
            limit = const N,
            helper = const PROBE_WRITE_USER,
            inout("r1") address => _,
            inout("r2") from => _,
            inout("r3") size => _,
            out("r0") failed,
            out("r4") _,
            out("r5") _,
        );
    }
    failed == 0
}

/// What is asked of a process's memory, and what is found.
struct Asked {
    address: u64,
    flags: u64,
}

/// What may be done with the memory at an address of this process (`vm_flags`); 0 where there is none.
#[inline(always)]
fn memory_flags(address: u64) -> u64 {
    let mut asked = Asked { address, flags: 0 };
    // SAFETY: the callback's signature is the one bpf_loop wants, and `asked` outlives the call.
    unsafe {
        bpf_loop(VMA_TRIES, look as *mut c_void, (&raw mut asked).cast(), 0);
    }
    asked.flags
}

/// One try: returns 1 unless another thread is changing what memory there is.
unsafe extern "C" fn look(_index: u64, context: *mut c_void) -> i64 {
    let task = kernel::current() as *mut task_struct;
    // SAFETY: bpf_loop hands back the pointer that `memory_flags` gave it; the callback's signature is the one that
    // bpf_find_vma wants.
    let found = unsafe {
        let address = (*context.cast::<Asked>()).address;
        bpf_find_vma(task, address, flags_of as *mut c_void, context, 0)
    };
    (found != EBUSY) as i64
}

/// The memory that was asked for.
unsafe extern "C" fn flags_of(_task: *mut c_void, vma: *mut c_void, context: *mut c_void) -> i64 {
    let flags: u64 = load(vma as Ptr, offset!(vma_flags));
    // SAFETY: bpf_find_vma hands back the pointer that `look` gave it.
    unsafe { (*context.cast::<Asked>()).flags = flags };
    0
}
