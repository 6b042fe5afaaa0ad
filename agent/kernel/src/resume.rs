//! An agent that goes on with the programs and tables of the one before it: nothing of what happened in between is unseen.

use std::path::PathBuf;

use mcpwarden_abi as abi;

use super::{
    Addresses, Kernel, KernelError, Setup,
    backend::Loaded,
    pins::{self, Kept, Left, PinsError, refused_records},
};

/// What was there when the agent began to go on with it.
pub struct Resumed {
    /// What the agent before left.
    pub(super) left: Left,
    met: Option<Met>,
}

/// What the kernel half knew of then, and the agent did not.
pub struct Met {
    /// Connections over stdio, and how far they were.
    pub streams: Vec<(u64, [abi::Stream; 2])>,
    /// TCP connections: key and number.
    pub sockets: Vec<(u64, u64)>,
}

impl Kernel {
    /// Goes on with what an agent of the same build left, where there is one. `Err`: it cannot be used, and is let go like
    /// that of any other.
    pub(super) fn resume<E: From<KernelError>>(
        setup: &Setup<'_>,
        prepare: impl FnOnce(&mut Addresses) -> Result<(), E>,
    ) -> Option<Result<Self, E>> {
        let (pins, _) = setup.keep?;
        let directory = pins.same(&setup.build())?;
        Some(Self::continue_with(setup, directory, prepare))
    }

    fn continue_with<E: From<KernelError>>(
        setup: &Setup<'_>,
        directory: PathBuf,
        prepare: impl FnOnce(&mut Addresses) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (tables, place) = (pins::tables(&directory), directory.clone());
        let (kept, programs) = Kept::again(directory).map_err(KernelError::from)?;
        let mut loaded = Loaded::new(setup.ring_bytes, &tables)?;
        if !loaded.has_all(&tables) {
            return Err(KernelError::from(PinsError::incomplete(place)).into());
        }
        let mut addresses = Addresses::take(&mut loaded.ebpf)?;
        prepare(&mut addresses)?;
        let mut kernel = Self::of(loaded.resume(&programs)?, addresses)?;
        if !kernel.gate.is_kept(&kept) {
            kernel.gate.clear()?;
        }
        kernel.sockets.forget_found();
        let met = Met {
            streams: kernel
                .connections()
                .into_iter()
                .map(|(id, entry)| (id, entry.positions.streams))
                .collect(),
            sockets: kernel.sockets.keys(),
        };
        let left = Left {
            programs: programs.len() as u64,
            is_resumed: true,
            unread: refused_records(&kernel.counters),
        };
        kernel.kept = kept;
        kernel.resumed = Some(Resumed { left, met: Some(met) });
        Ok(kernel)
    }

    /// What was there already, where the agent goes on with what another left. Once.
    pub fn met(&mut self) -> Option<Met> {
        self.resumed.as_mut().and_then(|resumed| resumed.met.take())
    }
}
