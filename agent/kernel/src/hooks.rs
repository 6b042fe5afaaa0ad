//! The hooks: which there are on this kernel, and how each is attached.

mod scan;
mod way;

use std::{fs::File, path::Path};

use aya::{
    Ebpf,
    programs::{
        BtfTracePoint, CgroupAttachMode, CgroupSock, CgroupSockAddr, FEntry, FExit, Lsm, Program,
        ProgramError, TracePoint, links::FdLink,
    },
};

use super::{
    KernelError,
    brief::brief,
    btf::Btf,
    modify_return::OFFERED,
    object::{Link, Object},
};
pub use scan::{Scan, load_scan};
pub use way::Way;

/// The hooks of a backend on this kernel.
#[derive(Debug)]
pub struct Hooks {
    /// What to attach.
    pub hooks: Vec<Hook>,
    /// Places that cannot be hooked here, and what follows from it.
    pub blind_spots: Vec<(String, String)>,
}

/// Where exec begins on every kernel. They take tracefs, and on Debian 12 CAP_SYS_ADMIN (`kernel.perf_event_paranoid` 3).
const EXEC_CALLS: [Hook; 2] = [
    Hook::Classic { program: "sys_enter_execve", tracepoint: "sys_enter_execve" },
    Hook::Classic { program: "sys_enter_execveat", tracepoint: "sys_enter_execveat" },
];

/// What tells of processes, whatever captures.
pub fn processes(btf: &Btf) -> Vec<Hook> {
    let mut hooks = Vec::new();
    if btf.tracepoint_arguments("sched_prepare_exec").is_some() {
        hooks.push(Hook::Btf { program: "sched_prepare_exec", tracepoint: "sched_prepare_exec" });
    } else if !btf.functions(&["begin_new_exec"]).is_empty() {
        hooks.push(Hook::Entry { program: "begin_new_exec", function: "begin_new_exec" });
    } else {
        hooks.extend(EXEC_CALLS);
    }
    for name in ["sched_process_exec", "sched_process_fork", "sched_process_exit"] {
        hooks.push(Hook::Btf { program: name, tracepoint: name });
    }
    hooks
}

/// The tracepoint backend.
pub fn tracepoints(btf: &Btf) -> Hooks {
    let hooks = vec![Hook::Btf { program: "sys_exit", tracepoint: "sys_exit" }];
    let programs = ["io_uring_complete", "io_uring_complete_cqe"];
    with_io_uring(hooks, btf, programs, "what clients write and read through io_uring shows as gaps")
}

/// Functions of which every kernel has one set or the other: all pipes, or those without a name and those with one.
const PIPES: [&[&str]; 2] = [
    &["anon_pipe_write", "anon_pipe_read", "fifo_pipe_write", "fifo_pipe_read"],
    &["pipe_write", "pipe_read"],
];
/// Where one of them is part of a module, its functions are not the kernel's own, and the backend cannot be used: the
/// module may be loaded at any time.
const SOCKETS: [&str; 8] = [
    "unix_stream_connect",
    "unix_release",
    "unix_stream_sendmsg",
    "unix_stream_recvmsg",
    "inet_sendmsg",
    "inet_recvmsg",
    "inet6_sendmsg",
    "inet6_recvmsg",
];
/// System calls whose bytes go through none of these, and those that duplicate descriptors: program and function.
const CALLS: [(&str, &str); 7] = [
    ("sys_splice", "__x64_sys_splice"),
    ("sys_tee", "__x64_sys_tee"),
    ("sys_vmsplice", "__x64_sys_vmsplice"),
    ("sys_sendfile64", "__x64_sys_sendfile64"),
    ("sys_dup", "__x64_sys_dup"),
    ("sys_dup2", "__x64_sys_dup2"),
    ("sys_dup3", "__x64_sys_dup3"),
];
/// The same of 32-bit programs; a kernel can be without them.
const CALLS_OF_32_BITS: [(&str, &str); 8] = [
    ("ia32_sys_splice", "__ia32_sys_splice"),
    ("ia32_sys_tee", "__ia32_sys_tee"),
    ("ia32_sys_vmsplice", "__ia32_sys_vmsplice"),
    ("ia32_compat_sys_sendfile", "__ia32_compat_sys_sendfile"),
    ("ia32_sys_sendfile64", "__ia32_sys_sendfile64"),
    ("ia32_sys_dup", "__ia32_sys_dup"),
    ("ia32_sys_dup2", "__ia32_sys_dup2"),
    ("ia32_sys_dup3", "__ia32_sys_dup3"),
];

/// The trampoline backend; or which function this kernel does not have.
pub fn trampolines(btf: &Btf) -> Result<Hooks, String> {
    let same = |names: &[&'static str]| names.iter().map(|name| (*name, *name)).collect::<Vec<_>>();
    let is_there = |pairs: &[(&'static str, &'static str)]| {
        let functions: Vec<&str> = pairs.iter().map(|(_, function)| *function).collect();
        let found = btf.functions(&functions);
        functions.into_iter().find(|function| !found.contains(function))
    };
    let mut wanted =
        PIPES.map(same).into_iter().find(|pairs| is_there(pairs).is_none()).unwrap_or(same(PIPES[1]));
    wanted.extend(same(&SOCKETS));
    wanted.extend(CALLS);
    if let Some(missing) = is_there(&wanted) {
        return Err(format!("this kernel has no function {missing}"));
    }
    if is_there(&CALLS_OF_32_BITS).is_none() {
        wanted.extend(CALLS_OF_32_BITS);
    }
    let hooks = wanted.into_iter().map(|(program, function)| Hook::Exit { program, function }).collect();
    let programs = ["io_uring_spliced", "io_uring_spliced_cqe"];
    Ok(with_io_uring(hooks, btf, programs, "what clients splice through io_uring shows as gaps"))
}

/// The gate: what asks whether something may be written, and what tells when it was; or which function this kernel does
/// not have.
pub fn gate(btf: &Btf, way: Way) -> Result<Vec<Hook>, String> {
    const SOCKETS: [(&str, &str); 3] = [
        ("gate_unix_stream_sendmsg", "unix_stream_sendmsg"),
        ("gate_inet_sendmsg", "inet_sendmsg"),
        ("gate_inet6_sendmsg", "inet6_sendmsg"),
    ];
    // As in `PIPES`.
    const PIPES: [&[(&str, &str)]; 2] = [
        &[("gate_anon_pipe_write", "anon_pipe_write"), ("gate_fifo_pipe_write", "fifo_pipe_write")],
        &[("gate_pipe_write", "pipe_write")],
    ];
    let has = |function: &str| !btf.functions(&[function]).is_empty();
    let pipes = PIPES.into_iter().find(|pairs| pairs.iter().all(|(_, function)| has(function)));
    let Some(pipes) = pipes else {
        return Err("this kernel has no function pipe_write or anon_pipe_write".to_owned());
    };
    if let Some((_, function)) = SOCKETS.iter().find(|(_, function)| !has(function)) {
        return Err(format!("this kernel has no function {function}"));
    }
    if let (Way::ModifyReturn, Some((_, function))) =
        (way, OFFERED.iter().find(|(_, function)| !has(function)))
    {
        return Err(format!("this kernel has no function {function}"));
    }
    let exits = pipes.iter().copied().chain(SOCKETS);
    let mut hooks: Vec<Hook> = exits.map(|(program, function)| Hook::Exit { program, function }).collect();
    hooks.extend(way.hooks());
    Ok(hooks)
}

fn with_io_uring(mut hooks: Vec<Hook>, btf: &Btf, programs: [&'static str; 2], what: &str) -> Hooks {
    let mut blind_spots = Vec::new();
    match io_uring_program(btf.tracepoint_arguments("io_uring_complete"), programs, what) {
        Ok(Some(program)) => hooks.push(Hook::Btf { program, tracepoint: "io_uring_complete" }),
        // A kernel without io_uring.
        Ok(None) => {}
        Err(reason) => blind_spots.push(("tp_btf/io_uring_complete".to_owned(), reason)),
    }
    Hooks { hooks, blind_spots }
}

/// The program for a tracepoint with so many arguments, if there is one: the first where it has 7, the second where it
/// has 3.
fn io_uring_program(
    arguments: Option<usize>,
    programs: [&'static str; 2],
    what: &str,
) -> Result<Option<&'static str>, String> {
    match arguments {
        None => Ok(None),
        Some(7) => Ok(Some(programs[0])),
        Some(3) => Ok(Some(programs[1])),
        Some(other) => Err(format!(
            "not used: it has {other} arguments on this kernel, and this version knows it with 3 or 7; {what}"
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
    /// The entry of a function of the kernel.
    Entry {
        /// Name of the program.
        program: &'static str,
        /// Name of the function.
        function: &'static str,
    },
    /// The exit of a function of the kernel.
    Exit {
        /// Name of the program.
        program: &'static str,
        /// Name of the function.
        function: &'static str,
    },
    /// Where the kernel asks its security modules.
    Lsm {
        /// Name of the program, which is that of the hook.
        program: &'static str,
    },
    /// A function of the kernel, before which the program may answer in its place.
    ModifyReturn {
        /// Name of the program.
        program: &'static str,
        /// Name of the function.
        function: &'static str,
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
    /// Name of the program.
    pub fn program(&self) -> &'static str {
        match self {
            Self::Btf { program, .. }
            | Self::Entry { program, .. }
            | Self::Exit { program, .. }
            | Self::Lsm { program }
            | Self::ModifyReturn { program, .. }
            | Self::Cgroup { program }
            | Self::Release { program }
            | Self::Classic { program, .. } => program,
        }
    }

    /// What does the same where this cannot be attached: a kernel without trampolines.
    pub fn instead(&self) -> &'static [Self] {
        match self {
            Self::Entry { .. } => &EXEC_CALLS,
            _ => &[],
        }
    }

    /// What it hangs on, for people.
    pub fn place(&self) -> String {
        match self {
            Self::Btf { tracepoint, .. } => format!("tp_btf/{tracepoint}"),
            Self::Entry { function, .. } => format!("fentry/{function}"),
            Self::Exit { function, .. } => format!("fexit/{function}"),
            Self::Lsm { program } => format!("lsm/{program}"),
            Self::ModifyReturn { function, .. } => format!("fmod_ret/{function}"),
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

/// Loads and attaches one program. It is detached with its object, or where that is not wanted (`apart`), with the link
/// that comes of it.
pub fn attach(
    ebpf: &mut Object,
    hook: &Hook,
    ground: &Ground<'_>,
    apart: bool,
) -> Result<Option<Link>, KernelError> {
    let fail = |action| {
        move |error: ProgramError| KernelError::Hook { action, hook: hook.place(), reason: brief(&error) }
    };
    /// Takes the link out of the object.
    macro_rules! link {
        ($program:ident, $id:ident) => {
            apart.then(|| {
                let link = $program.take_link($id).map_err(|error| brief(&error))?;
                FdLink::try_from(link).map_err(|error| brief(&error))
            })
        };
    }
    let link: Option<Result<FdLink, String>> = match hook {
        Hook::Btf { program: name, tracepoint } => {
            let program: &mut BtfTracePoint = program(ebpf, name)?;
            program.load(tracepoint, ground.btf).map_err(fail("load"))?;
            let id = program.attach().map_err(fail("attach"))?;
            link!(program, id)
        }
        Hook::Entry { program: name, function } => {
            let program: &mut FEntry = program(ebpf, name)?;
            program.load(function, ground.btf).map_err(fail("load"))?;
            let id = program.attach().map_err(fail("attach"))?;
            link!(program, id)
        }
        Hook::Exit { program: name, function } => {
            let program: &mut FExit = program(ebpf, name)?;
            program.load(function, ground.btf).map_err(fail("load"))?;
            let id = program.attach().map_err(fail("attach"))?;
            link!(program, id)
        }
        Hook::Lsm { program: name } => {
            let program: &mut Lsm = program(ebpf, name)?;
            program.load(name, ground.btf).map_err(fail("load"))?;
            let id = program.attach().map_err(fail("attach"))?;
            link!(program, id)
        }
        Hook::ModifyReturn { program: name, function } => {
            let link = ebpf.modify_return.attach(name, function, ground.btf, apart);
            let fail = |(action, reason)| KernelError::Hook { action, hook: hook.place(), reason };
            return link.map(|link| link.map(Link::Own)).map_err(fail);
        }
        Hook::Classic { program: name, tracepoint } => {
            let program: &mut TracePoint = program(ebpf, name)?;
            program.load().map_err(fail("load"))?;
            let id = program.attach("syscalls", tracepoint).map_err(fail("attach"))?;
            link!(program, id)
        }
        Hook::Cgroup { program: name } => {
            let program: &mut CgroupSockAddr = program(ebpf, name)?;
            program.load().map_err(fail("load"))?;
            // A link, beside which other programs keep running; other modes are those of attachments without a link.
            let id = program.attach(ground.open(hook)?, CgroupAttachMode::Single).map_err(fail("attach"))?;
            link!(program, id)
        }
        Hook::Release { program: name } => {
            let program: &mut CgroupSock = program(ebpf, name)?;
            program.load().map_err(fail("load"))?;
            let id = program.attach(ground.open(hook)?, CgroupAttachMode::Single).map_err(fail("attach"))?;
            link!(program, id)
        }
    };
    let link = link.map(|link| link.map(Link::Aya)).transpose();
    link.map_err(|reason| KernelError::Hook { action: "keep", hook: hook.place(), reason })
}

/// Attaches hooks one by one, and what does the same in place of those that cannot be: what came of each.
pub fn attach_each(
    ebpf: &mut Object,
    hooks: impl IntoIterator<Item = Hook>,
    ground: &Ground<'_>,
    apart: bool,
) -> Vec<(Hook, Result<Option<Link>, KernelError>)> {
    let mut tried = Vec::new();
    for hook in hooks {
        let result = attach(ebpf, &hook, ground, apart);
        if result.is_err() && !hook.instead().is_empty() {
            tried.extend(attach_each(ebpf, hook.instead().iter().copied(), ground, apart));
        } else {
            tried.push((hook, result));
        }
    }
    tried
}

/// Links by program, apart from their object.
pub type Links = Vec<(&'static str, Link)>;

/// Attaches all of a backend, or nothing. With their links by program, where they are wanted `apart`.
pub fn attach_all(
    ebpf: &mut Object,
    hooks: &[Hook],
    ground: &Ground<'_>,
    apart: bool,
) -> Result<Links, KernelError> {
    let mut links = Vec::new();
    for hook in hooks {
        match attach(ebpf, hook, ground, apart) {
            Ok(link) => links.extend(link.map(|link| (hook.program(), link))),
            Err(error) => {
                detach_all(ebpf, hooks);
                return Err(error);
            }
        }
    }
    Ok(links)
}

/// Detaches what can be attached and detached again.
pub fn detach_all(ebpf: &mut Object, hooks: &[Hook]) {
    for hook in hooks {
        // Those that were not loaded say so, and that is what is wanted.
        let _ = match hook {
            Hook::Exit { program: name, .. } => program::<FExit>(ebpf, name).map(FExit::unload).is_ok(),
            Hook::Lsm { program: name } => program::<Lsm>(ebpf, name).map(Lsm::unload).is_ok(),
            Hook::ModifyReturn { program: name, .. } => {
                ebpf.modify_return.unload(name);
                true
            }
            _ => false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_uring_program_follows_argument_count() {
        let cases = [(None, Ok(None)), (Some(3), Ok(Some("three"))), (Some(7), Ok(Some("seven")))];
        for (arguments, expected) in cases {
            assert_eq!(io_uring_program(arguments, ["seven", "three"], ""), expected);
        }
        let error = io_uring_program(Some(4), ["seven", "three"], "and so on").unwrap_err();
        assert!(error.contains("4 arguments") && error.ends_with("; and so on"), "{error}");
    }
}
