//! The hooks: which there are on this kernel, and how each is attached.

use std::{fs::File, path::Path};

use aya::{
    Ebpf,
    programs::{BtfTracePoint, CgroupAttachMode, CgroupSock, CgroupSockAddr, Iter, Program, TracePoint},
};

use super::{KernelError, brief, btf::Btf};

/// The hooks of the tracepoint backend on this kernel.
#[derive(Debug)]
pub struct Hooks {
    /// What to attach.
    pub hooks: Vec<Hook>,
    /// Places that cannot be hooked here, and what follows from it.
    pub blind_spots: Vec<(String, String)>,
}

/// What this kernel offers.
pub fn tracepoints(btf: &Btf) -> Hooks {
    let mut hooks = Vec::new();
    if btf.tracepoint_arguments("sched_prepare_exec").is_some() {
        hooks.push(Hook::Btf { program: "sched_prepare_exec", tracepoint: "sched_prepare_exec" });
    } else {
        hooks.push(Hook::Classic { program: "sys_enter_execve", tracepoint: "sys_enter_execve" });
        hooks.push(Hook::Classic { program: "sys_enter_execveat", tracepoint: "sys_enter_execveat" });
    }
    for name in ["sched_process_exec", "sched_process_fork", "sched_process_exit", "sys_exit"] {
        hooks.push(Hook::Btf { program: name, tracepoint: name });
    }
    let mut blind_spots = Vec::new();
    match io_uring_program(btf.tracepoint_arguments("io_uring_complete")) {
        Ok(Some(program)) => hooks.push(Hook::Btf { program, tracepoint: "io_uring_complete" }),
        // A kernel without io_uring.
        Ok(None) => {}
        Err(reason) => blind_spots.push(("tp_btf/io_uring_complete".to_owned(), reason)),
    }
    Hooks { hooks, blind_spots }
}

/// The program for a tracepoint with so many arguments, if there is one.
fn io_uring_program(arguments: Option<usize>) -> Result<Option<&'static str>, String> {
    match arguments {
        None => Ok(None),
        Some(3) => Ok(Some("io_uring_complete_cqe")),
        Some(7) => Ok(Some("io_uring_complete")),
        Some(other) => Err(format!(
            "not used: it has {other} arguments on this kernel, and this version knows it with 3 or 7; what clients \
             write and read through io_uring shows as gaps"
        )),
    }
}

/// One hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// A BTF tracepoint.
    Btf {
        /// Name of the program.
        program: &'static str,
        /// Name of the tracepoint.
        tracepoint: &'static str,
    },
    /// A hook of a cgroup, for all processes in it and below.
    Cgroup {
        /// Name of the program, which is that of the hook.
        program: &'static str,
    },
    /// The hook of a cgroup at the end of sockets.
    Release {
        /// Name of the program, which is that of the hook.
        program: &'static str,
    },
    /// A classic tracepoint of the category `syscalls`; needs tracefs.
    Classic {
        /// Name of the program.
        program: &'static str,
        /// Name of the tracepoint.
        tracepoint: &'static str,
    },
}

impl Hook {
    /// What it hangs on, for people.
    pub fn place(&self) -> String {
        match self {
            Self::Btf { tracepoint, .. } => format!("tp_btf/{tracepoint}"),
            Self::Classic { tracepoint, .. } => format!("tracepoint/syscalls/{tracepoint}"),
            Self::Cgroup { program } | Self::Release { program } => format!("cgroup/{program}"),
        }
    }
}

/// What hooks are attached to.
pub struct Ground<'a> {
    /// The kernel's types.
    pub btf: &'a aya::Btf,
    /// Directory of a cgroup (v2).
    pub cgroup: &'a Path,
}

impl Ground<'_> {
    /// The cgroup that a hook is attached to.
    fn open(&self, hook: &Hook) -> Result<File, KernelError> {
        File::open(self.cgroup).map_err(|error| KernelError::Hook {
            action: "attach",
            hook: hook.place(),
            reason: format!("cannot open {}: {error}", self.cgroup.display()),
        })
    }
}

/// The hooks that judge where processes connect, and tell when a connection ends.
pub fn connections() -> Vec<Hook> {
    let mut hooks =
        ["connect4", "connect6", "sendmsg4", "sendmsg6"].map(|program| Hook::Cgroup { program }).to_vec();
    hooks.push(Hook::Release { program: "sock_release" });
    hooks
}

/// A program of the object.
pub fn program<'a, T>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut T, KernelError>
where
    &'a mut T: TryFrom<&'a mut Program>,
{
    ebpf.program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| KernelError::Missing(name.to_owned()))
}

/// Loads and attaches one program.
pub fn attach(ebpf: &mut Ebpf, hook: &Hook, ground: &Ground<'_>) -> Result<(), KernelError> {
    let fail = |action| {
        move |error: aya::programs::ProgramError| KernelError::Hook {
            action,
            hook: hook.place(),
            reason: brief(&error),
        }
    };
    match hook {
        Hook::Btf { program: name, tracepoint } => {
            let program: &mut BtfTracePoint = program(ebpf, name)?;
            program.load(tracepoint, ground.btf).map_err(fail("load"))?;
            program.attach().map_err(fail("attach"))?;
        }
        Hook::Classic { program: name, tracepoint } => {
            let program: &mut TracePoint = program(ebpf, name)?;
            program.load().map_err(fail("load"))?;
            program.attach("syscalls", tracepoint).map_err(fail("attach"))?;
        }
        Hook::Cgroup { program: name } => {
            let program: &mut CgroupSockAddr = program(ebpf, name)?;
            program.load().map_err(fail("load"))?;
            // A link, beside which other programs keep running; other modes are those of attachments without a link.
            program.attach(ground.open(hook)?, CgroupAttachMode::Single).map_err(fail("attach"))?;
        }
        Hook::Release { program: name } => {
            let program: &mut CgroupSock = program(ebpf, name)?;
            program.load().map_err(fail("load"))?;
            program.attach(ground.open(hook)?, CgroupAttachMode::Single).map_err(fail("attach"))?;
        }
    }
    Ok(())
}

/// Loads the iterator over all descriptors.
pub fn load_census(ebpf: &mut Ebpf, btf: &aya::Btf) -> Result<(), KernelError> {
    program::<Iter>(ebpf, "census")?.load("task_file", btf).map_err(|error| KernelError::Hook {
        action: "load",
        hook: "iter/task_file".into(),
        reason: brief(&error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_uring_by_the_number_of_arguments() {
        let cases = [
            (None, Ok(None)),
            (Some(3), Ok(Some("io_uring_complete_cqe"))),
            (Some(7), Ok(Some("io_uring_complete"))),
        ];
        for (arguments, expected) in cases {
            assert_eq!(io_uring_program(arguments), expected);
        }
        assert!(io_uring_program(Some(4)).unwrap_err().contains("4 arguments"));
    }
}
