//! What codes in records mean to the policy core.

use mcpwarden_abi as abi;
use mcpwarden_policy::{ExitStatus, GapCause};

/// Why a gap record says that bytes were not captured.
pub fn cause(code: u8) -> GapCause {
    match code {
        abi::GAP_SPLICE => GapCause::Splice,
        abi::GAP_VMSPLICE => GapCause::Vmsplice,
        abi::GAP_TEE => GapCause::Tee,
        abi::GAP_SENDFILE => GapCause::Sendfile,
        abi::GAP_IO_URING => GapCause::IoUringFixed,
        abi::GAP_STARTED_LATE => GapCause::StartedLate,
        abi::GAP_USER_SHARE => GapCause::UserShare,
        abi::GAP_AGENT_ENDED => GapCause::AgentEnded,
        abi::GAP_UNREADABLE | abi::GAP_TOO_MANY_BUFFERS => GapCause::Unreadable,
        _ => GapCause::RingFull,
    }
}

/// `wait(2)`: the low seven bits are the signal, the next byte the code.
pub fn exit_status(status: u32) -> ExitStatus {
    match status & 0x7f {
        0 => ExitStatus::Code((status >> 8 & 0xff) as i32),
        signal => ExitStatus::Signal(signal as i32),
    }
}
