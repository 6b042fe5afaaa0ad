//! The programs of a connection: what they are called, which of them serves, whose pins are theirs.

use super::Connection;
use crate::discovery::{self, Declared};
use crate::engine::io::{Exec, Process};
use crate::event::Identity;
use crate::terms::{PinKey, ServerId};

/// Most names of one server that are remembered.
const MAX_IDS: usize = 64;

impl Connection {
    /// Adds a program to the chain. Whether there was room.
    pub(in crate::engine) fn run(&mut self, exec: Exec, limit: usize) -> bool {
        let Exec { adopted, process, client, .. } = exec;
        self.adopted = if self.chain.is_empty() { adopted } else { self.adopted && adopted };
        self.client = self.client.take().or(client);
        self.live.insert(process.pid);
        self.ended = None;
        self.exit_at = None;
        self.status = None;
        let (cwd, executable) = (process.cwd.as_deref(), process.executable.as_deref());
        let (rank, id) =
            (discovery::specificity(&process.argv, cwd), discovery::server_id(&process.argv, cwd));
        if rank >= discovery::PROGRAM {
            self.call(id.clone());
        }
        if let Some(bridge) = discovery::bridge_id(&process.argv, cwd) {
            self.call(bridge);
        }
        if self.chain.len() >= limit {
            // The first programs name the server; the last is the one that serves.
            self.chain.pop();
            self.push(process);
            return false;
        }
        self.runs_container |= discovery::runs_in_container(&process.argv);
        let version = || discovery::version(&process.argv, executable);
        self.version = self.version.take().or_else(version);
        if self.best.as_ref().is_none_or(|(best, ..)| rank > *best) {
            self.best = Some((rank, id, self.chain.len()));
        }
        self.push(process);
        true
    }

    /// It is called so as well. Of more names than are kept, the first and the last are.
    pub(in crate::engine) fn call(&mut self, id: ServerId) {
        if !self.ids.contains(&id) {
            self.ids.truncate(MAX_IDS - 1);
            self.ids.push(id);
        }
    }

    /// All that its programs are called.
    pub(in crate::engine) fn ids(&self) -> &[ServerId] {
        &self.ids
    }

    /// What it is called besides: what is denied of any of these names is denied of it. A declared server is what its
    /// declaration says, whatever its programs are called.
    pub(in crate::engine) fn also(&self) -> &[ServerId] {
        match self.identity() {
            Identity::Declared => &[],
            Identity::Derived => &self.ids,
        }
    }

    fn push(&mut self, process: Process) {
        self.chain.push(process);
        self.chain_bytes = self.chain.iter().map(Process::bytes).sum();
    }

    /// Forgets the programs that neither name the server nor serve. How many.
    pub(in crate::engine) fn shorten_chain(&mut self) -> usize {
        let before = self.chain.len();
        let Some(last) = self.chain.pop() else { return 0 };
        if let Some((_, _, at)) = &mut self.best
            && *at < self.chain.len()
        {
            self.chain = vec![self.chain.swap_remove(*at)];
            *at = 0;
        } else {
            self.chain.clear();
            self.best = self.best.take().map(|(rank, id, _)| (rank, id, 0));
        }
        self.push(last);
        before - self.chain.len()
    }

    /// The program that names the server.
    pub(in crate::engine) fn naming(&self) -> Option<&Process> {
        self.best.as_ref().and_then(|(_, _, at)| self.chain.get(*at))
    }

    /// Who serves, whatever its version and the directory of the day, as far as it is known: part of whose pins these are. A
    /// program that has another one serve in its place keeps its pins, whatever it calls the other.
    pub(in crate::engine) fn program(&self) -> String {
        if let Some(at) = &self.at {
            return at.program();
        }
        self.handing_over().unwrap_or_else(|| self.last_program())
    }

    /// Whose pins those of a server of this name on this connection are.
    pub(in crate::engine) fn pin_key(&self, server: &ServerId) -> PinKey {
        let is_shared = self.is_shared();
        PinKey {
            uid: self.account.user.filter(|_| !is_shared),
            server: server.clone(),
            program: if is_shared { String::new() } else { self.program() },
        }
    }

    /// Whether the server is the same to all who speak with it, and to the agent that lists it, whichever of its addresses
    /// answers: it is declared at a URL. What is read in the memory of a client is its user's word, and counts for nobody else.
    pub(in crate::engine) fn is_shared(&self) -> bool {
        self.at.as_ref().is_some_and(|at| !at.read_in_client) && self.declared.is_some()
    }

    /// Whether a program has another one serve in its place.
    pub(in crate::engine) fn hands_over(&self) -> bool {
        self.at.is_none() && self.handing_over().is_some()
    }

    fn handing_over(&self) -> Option<String> {
        let (last, before) = self.chain.split_last()?;
        let first = before.iter().find(|process| discovery::is_itself(&process.argv))?;
        // The arguments have its target.
        let program = self.identity_of_any_target(first);
        let is_other = !program.is_empty() && program != self.identity_of_any_target(last);
        is_other.then(|| discovery::with_arguments(&program, &first.argv))
    }

    /// What serves in the end, as pins knew it that were made before [`Connection::program`] went by the first.
    pub(in crate::engine) fn last_program(&self) -> String {
        self.chain.last().map(|last| self.identity_of(last)).unwrap_or_default()
    }

    /// The same, as pins knew it before the target of a bridge was part of it.
    pub(in crate::engine) fn last_program_of_any_target(&self) -> String {
        self.chain.last().map(|last| self.identity_of_any_target(last)).unwrap_or_default()
    }

    fn identity_of_any_target(&self, process: &Process) -> String {
        let package = self.chain.iter().find_map(|process| discovery::package(&process.argv));
        let (cwd, executable) = (process.cwd.as_deref(), process.executable.as_deref());
        discovery::identity_of_any_target(&process.argv, cwd, executable, package.as_deref())
    }

    fn identity_of(&self, process: &Process) -> String {
        let package = self.chain.iter().find_map(|process| discovery::package(&process.argv));
        let (cwd, executable) = (process.cwd.as_deref(), process.executable.as_deref());
        discovery::identity(&process.argv, cwd, executable, package.as_deref())
    }

    /// The URL of what serves, or the path of the script or the executable: what its pins were kept under by earlier
    /// versions.
    pub(in crate::engine) fn program_path(&self) -> String {
        match (&self.at, self.chain.last()) {
            (Some(at), _) => at.program(),
            (None, Some(last)) => {
                discovery::program(&last.argv, last.cwd.as_deref(), last.executable.as_deref())
            }
            (None, None) => String::new(),
        }
    }

    /// Whether what serves is what this declaration demands.
    pub(in crate::engine) fn is_served_by(&self, declared: &Declared) -> bool {
        let nothing = Process::default();
        let last = self.chain.last().unwrap_or(&nothing);
        discovery::is_served_by(declared, &last.running(self.adopted))
    }

    /// The last program that a live process has run since it was announced.
    pub(in crate::engine) fn successor(&self) -> Option<&Process> {
        let is_live =
            |process: &&Process| self.live.contains(&process.pid) && self.later.contains(&process.pid);
        self.chain.iter().rev().find(is_live)
    }
}
