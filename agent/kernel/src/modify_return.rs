//! Programs of the gate as `fmod_ret`: where `bpf` is not among the kernel's security modules, its hooks are never asked, but
//! the functions that ask them (`security_…`) have the same arguments, and a program may answer in their place (5.7).
//!
//! aya has no such type: see [`crate::relocated`]. What differs from the other way: the kernel leaves out a program of this type where
//! another task on that processor is in it already, which takes a kernel that preempts itself. Such runs are counted (`recursion_misses`).

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use aya_obj::btf::BtfKind;

use super::{
    brief::brief,
    relocated::{Relocated, Tables},
    sys,
};

/// Programs of one object that are, or may be, attached so.
pub struct ModifyReturn {
    tables: Tables,
    /// What was read of the object, once it was needed.
    relocated: Option<Relocated>,
    attached: Vec<Program>,
}

/// One that was loaded.
struct Program {
    name: &'static str,
    program: OwnedFd,
    /// While this is open, it is attached. `None`: it is held elsewhere.
    _link: Option<OwnedFd>,
}

impl ModifyReturn {
    /// None yet, of the object that has these tables.
    pub fn of(tables: Tables) -> Self {
        Self { tables, relocated: None, attached: Vec::new() }
    }

    /// Loads a program and has it run before `function`. The link is given where it is wanted `apart`; else the program is attached as
    /// long as this lives, or until it is [let go](Self::unload).
    ///
    /// # Errors
    /// What could not be done, and why.
    pub fn attach(
        &mut self,
        name: &'static str,
        function: &str,
        types: &aya::Btf,
        apart: bool,
    ) -> Result<Option<OwnedFd>, (&'static str, String)> {
        let load = |error: String| ("load", error);
        let target = types.id_by_type_name_kind(function, BtfKind::Func);
        let target = target.map_err(|error| load(brief(&error)))?;
        let relocated = match &mut self.relocated {
            Some(relocated) => relocated,
            none => {
                let wanted = OFFERED.map(|(program, _)| program);
                none.insert(Relocated::of(&self.tables, types, &wanted).map_err(load)?)
            }
        };
        let program = relocated.load(name, sys::Kind::ModifyReturn { target }).map_err(load)?;
        let link = sys::attach(program.as_fd()).map_err(|error| ("attach", error.to_string()))?;
        self.unload(name);
        let (held, given) = if apart { (None, Some(link)) } else { (Some(link), None) };
        self.attached.push(Program { name, program, _link: held });
        Ok(given)
    }

    /// Lets go of a program: it is detached, unless its link is held elsewhere.
    pub fn unload(&mut self, name: &str) {
        self.attached.retain(|program| program.name != name);
    }

    /// Lets go of all.
    pub fn unload_all(&mut self) {
        self.attached.clear();
    }

    /// Those that are loaded, by name.
    pub fn programs(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.attached.iter().map(|program| (program.name, program.program.as_fd()))
    }

    /// One that is loaded.
    pub fn program(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.programs().find(|(found, _)| *found == name).map(|(_, program)| program)
    }
}

/// Programs of the object that can be attached so: program, and the function that it runs before.
pub const OFFERED: [(&str, &str); 2] =
    [("file_permission", "security_file_permission"), ("socket_sendmsg", "security_socket_sendmsg")];
