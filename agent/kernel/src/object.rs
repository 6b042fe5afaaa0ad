//! The loaded object: the programs and tables that aya has, and the programs of a type that it lacks.

use std::{
    ops::{Deref, DerefMut},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use aya::{Ebpf, programs::links::FdLink};

use super::{brief::brief, modify_return::ModifyReturn, relocated::Tables, sys};

/// See above. Dropping it detaches everything but links that were taken out.
pub struct Object {
    ebpf: Ebpf,
    /// The same programs, attached in the other way.
    pub modify_return: ModifyReturn,
    tables: Tables,
}

impl Object {
    /// What aya has just loaded.
    ///
    /// # Errors
    /// A table of it cannot be opened once more.
    pub fn new(ebpf: Ebpf) -> Result<Self, String> {
        let tables = Tables::of(&ebpf)?;
        Ok(Self { ebpf, modify_return: ModifyReturn::of(tables.clone()), tables })
    }

    /// Its tables.
    pub fn tables(&self) -> Tables {
        self.tables.clone()
    }

    /// The programs that are loaded, by name: each in whichever way it is.
    pub fn loaded(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        let by_aya = self.ebpf.programs();
        let by_aya = by_aya.filter_map(|(name, program)| Some((name, program.fd().ok()?.as_fd())));
        by_aya.chain(self.modify_return.programs())
    }

    /// Pins a program, if it is loaded.
    ///
    /// # Errors
    /// Why the file system refuses.
    pub fn pin(&mut self, name: &str, path: &Path) -> Result<(), String> {
        if let Some(program) = self.modify_return.program(name) {
            return sys::pin(program, path).map_err(|error| error.to_string());
        }
        let Some(program) = self.ebpf.program_mut(name) else { return Ok(()) };
        program.pin(path).map_err(|error| brief(&error))
    }
}

impl Deref for Object {
    type Target = Ebpf;

    fn deref(&self) -> &Ebpf {
        &self.ebpf
    }
}

impl DerefMut for Object {
    fn deref_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }
}

/// A link apart from its object: what it attached stays so until this is dropped, and where it is pinned, longer.
pub enum Link {
    /// As aya made it.
    Aya(FdLink),
    /// As the kernel gave it.
    Own(OwnedFd),
}

impl Link {
    /// Pins it.
    ///
    /// # Errors
    /// Why the file system refuses.
    pub fn pin(self, path: &Path) -> Result<Self, String> {
        match self {
            Self::Aya(link) => {
                link.pin(path).map(|pinned| Self::Aya(pinned.into())).map_err(|error| brief(&error))
            }
            Self::Own(link) => {
                sys::pin(link.as_fd(), path).map_err(|error| error.to_string())?;
                Ok(Self::Own(link))
            }
        }
    }
}
