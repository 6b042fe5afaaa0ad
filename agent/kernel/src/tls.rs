//! Probes on the functions of TLS libraries, in one process each.

use std::{num::NonZeroU32, path::Path};

use aya::programs::{
    ProbeKind, ProgramError, UProbe,
    uprobe::{UProbeAttachPoint, UProbeLink, UProbeScope},
};
use mcpwarden_abi::{TLS_WRITE, TlsCookie};

use super::{Kernel, KernelError, brief::brief, hooks::program, object::Object};

/// What runs when a function is called, and when it returns.
const CALLED: (&str, ProbeKind) = ("tls_called", ProbeKind::Entry);
const JUDGED: (&str, ProbeKind) = ("tls_judged", ProbeKind::Entry);
const RETURNED: (&str, ProbeKind) = ("tls_returned", ProbeKind::Return);

/// A function that is to be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsFunction {
    /// Where it begins in its file: its return is probed by that. Bytes.
    pub start: u64,
    /// Where its entry is probed. Bytes.
    pub entry: u64,
    /// Whether something is known when it returns.
    pub returns: bool,
    /// What it does, and where its arguments are.
    pub cookie: TlsCookie,
}

/// The programs that run at probes. They are apart from the object: to attach and detach probes takes the kernel milliseconds each, which
/// is done on a thread of its own.
pub struct TlsPrograms {
    called: UProbe,
    /// The gate's.
    judged: Option<UProbe>,
    returned: UProbe,
}

/// The probes of a process. They are detached with it, which takes milliseconds.
#[derive(Default)]
pub struct TlsProbes {
    links: Vec<UProbeLink>,
    functions: usize,
}

impl TlsProbes {
    /// How many functions are probed.
    pub fn functions(&self) -> usize {
        self.functions
    }

    /// Adds those of another file.
    pub fn add(&mut self, mut other: Self) {
        self.links.append(&mut other.links);
        self.functions += other.functions;
    }
}

impl Kernel {
    /// The programs of probes, which are loaded when they are asked for first.
    ///
    /// # Errors
    /// The kernel refuses one.
    pub fn tls_programs(&mut self) -> Result<TlsPrograms, KernelError> {
        let (can_judge, ebpf) = (self.gate.can_be_used(), &mut self.ebpf);
        let judged = can_judge.then(|| load(ebpf, JUDGED)).transpose().unwrap_or_else(|error| {
            tracing::warn!("calls over TLS are not stopped: {error}");
            None
        });
        Ok(TlsPrograms { called: load(ebpf, CALLED)?, judged, returned: load(ebpf, RETURNED)? })
    }
}

impl TlsPrograms {
    /// Probes functions of a file in a process that has it mapped; `file` is a path that leads to it from here.
    ///
    /// # Errors
    /// The kernel refuses one of them: none is probed.
    pub fn attach(
        &mut self,
        pid: u32,
        file: &Path,
        functions: &[TlsFunction],
    ) -> Result<TlsProbes, KernelError> {
        let mut links = Vec::new();
        for function in functions {
            if function.returns {
                // First: a call whose return is not told is forgotten, a return without a call is nothing.
                links.push(attach(&mut self.returned, (pid, file), function.start, function.cookie)?);
            }
            links.push(attach(&mut self.called, (pid, file), function.entry, function.cookie)?);
            if let Some(judged) = self.judged.as_mut().filter(|_| function.cookie.role == TLS_WRITE) {
                links.push(attach(judged, (pid, file), function.entry, function.cookie)?);
            }
        }
        Ok(TlsProbes { links, functions: functions.len() })
    }
}

fn load(ebpf: &mut Object, (name, kind): (&'static str, ProbeKind)) -> Result<UProbe, KernelError> {
    let fail = |error: ProgramError| KernelError::Hook {
        action: "load",
        hook: format!("uprobe/{name}"),
        reason: brief(&error),
    };
    let program: &mut UProbe = program(ebpf, name)?;
    match program.load() {
        Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
        Err(error) => return Err(fail(error)),
    }
    let info = program.info().map_err(fail)?;
    // SAFETY: it is the information of a program of that type and kind.
    unsafe { UProbe::from_program_info(info, name.into(), kind) }.map_err(fail)
}

fn attach(
    program: &mut UProbe,
    (pid, file): (u32, &Path),
    offset: u64,
    cookie: TlsCookie,
) -> Result<UProbeLink, KernelError> {
    let fail = |error: ProgramError| KernelError::Hook {
        action: "attach",
        hook: format!("uprobe at {offset:#x} of {} in process {pid}", file.display()),
        reason: brief(&error),
    };
    let point = UProbeAttachPoint { location: offset.into(), cookie: Some(cookie.pack()) };
    let scope = NonZeroU32::new(pid).map_or(UProbeScope::CallingProcess, UProbeScope::OneProcess);
    let link = program.attach(point, file, scope).map_err(fail)?;
    program.take_link(link).map_err(fail)
}
