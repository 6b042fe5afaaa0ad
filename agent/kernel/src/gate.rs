//! The gate as the agent holds it: its programs, which are attached while something is enforced, and its tables.

use std::{collections::BTreeMap, io::Write as _, path::Path};

use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData, MapError},
    sys::{Stats, enable_stats},
};
use mcpwarden_abi::{self as abi, Endpoint, GateBucket, GateCaller, GateMember, GateSettings, GateTexts};
use mcpwarden_gate::{ENTRIES, Head, Turn, View};

use super::{
    Kernel, KernelError,
    brief::brief,
    hooks::{self, Ground, Hook, Way},
    maps::{clear, remove_if, take},
    pins::Kept,
    stats,
};

/// Programs and tables of the gate.
pub struct Gate {
    /// Or why it cannot be used on this kernel.
    hooks: Result<Vec<Hook>, String>,
    is_attached: bool,
    settings: Array<MapData, GateSettings>,
    heads: Array<MapData, Head>,
    next: Array<MapData, [u16; ENTRIES]>,
    texts: Array<MapData, GateTexts>,
    members: HashMap<MapData, u64, GateMember>,
    endpoints: HashMap<MapData, Endpoint, GateMember>,
    gated: HashMap<MapData, u64, [u64; abi::GATED_WORDS]>,
    sessions: HashMap<MapData, u32, [u64; size_of::<mcpwarden_gate::Session>() / 8]>,
    calls: HashMap<MapData, GateCaller, [u64; size_of::<mcpwarden_gate::Calls>() / 8]>,
    turns: HashMap<MapData, u32, Turn>,
    buckets: HashMap<MapData, GateBucket, u64>,
}

/// What an agent before left of the gate, which went on judging.
pub struct GateLeft {
    /// How it is set.
    pub settings: GateSettings,
    /// The number of the table that counts.
    pub generation: u32,
    /// What connections are, also of those that are gone.
    pub members: BTreeMap<u64, GateMember>,
    /// The endpoints of which it said what connections to them are.
    pub endpoints: Vec<Endpoint>,
}

impl Gate {
    pub(super) fn take(ebpf: &mut Ebpf, hooks: Result<Vec<Hook>, String>) -> Result<Self, KernelError> {
        Ok(Self {
            hooks,
            is_attached: false,
            settings: take(ebpf, "GATE_SETTINGS")?,
            heads: take(ebpf, "GATE_HEADS")?,
            next: take(ebpf, "GATE_NEXT")?,
            texts: take(ebpf, "GATE_TEXTS")?,
            members: take(ebpf, "GATE_MEMBERS")?,
            endpoints: take(ebpf, "GATE_ENDPOINTS")?,
            gated: take(ebpf, "GATED")?,
            sessions: take(ebpf, "GATE_SESSIONS")?,
            calls: take(ebpf, "GATE_CALLS")?,
            turns: take(ebpf, "GATE_TURNS")?,
            buckets: take(ebpf, "GATE_BUCKETS")?,
        })
    }

    /// Whether its programs stayed attached when the agent before ended.
    pub(super) fn is_kept(&self, kept: &Kept) -> bool {
        self.hooks.as_ref().is_ok_and(|hooks| kept.has(hooks))
    }

    /// What was left of it.
    fn left(&self) -> Result<GateLeft, MapError> {
        let settings = self.settings.get(&0, 0)?;
        let generation = self.heads.get(&settings.half, 0)?.generation;
        let members = self.members.iter().collect::<Result<_, _>>()?;
        let endpoints = self.endpoints.keys().collect::<Result<_, _>>()?;
        Ok(GateLeft { settings, generation, members, endpoints })
    }

    /// Forgets what an agent before wrote, and what programs of its knew, where no program of the gate runs.
    ///
    /// # Errors
    /// How it is set cannot be written.
    pub(super) fn clear(&mut self) -> Result<(), KernelError> {
        let set = self.settings.set(0, GateSettings::default(), 0);
        set.map_err(|source| KernelError::Map { name: "GATE_SETTINGS", source })?;
        clear(&mut self.members);
        clear(&mut self.endpoints);
        clear(&mut self.gated);
        clear(&mut self.sessions);
        clear(&mut self.calls);
        clear(&mut self.turns);
        clear(&mut self.buckets);
        Ok(())
    }

    /// From now on writes are judged so.
    pub fn set(&mut self, settings: GateSettings) -> Result<(), MapError> {
        self.settings.set(0, settings, 0)
    }

    /// Writes a table in the half that does not count, without its number: whoever reads the half that is written over sees that
    /// there is none, and believes nothing that it read. What connections are in it is said next, and then
    /// [its number](Self::number).
    pub fn write(&mut self, half: u32, table: &View<'_>) -> Result<(), MapError> {
        self.heads.set(half, Head { generation: 0, ..*table.head }, 0)?;
        self.next.set(half, table.next, 0)
    }

    /// Writes what is said of the denials of the table in this half.
    pub fn write_texts(&mut self, half: u32, texts: &GateTexts) -> Result<(), MapError> {
        self.texts.set(half, texts, 0)
    }

    /// Gives the table in this half its number.
    pub fn number(&mut self, half: u32, table: &View<'_>) -> Result<(), MapError> {
        self.heads.set(half, table.head, 0)
    }

    /// Says what a connection is. False where there is no room.
    pub fn set_member(&mut self, connection: u64, member: GateMember) -> bool {
        self.members.insert(connection, member, 0).is_ok()
    }

    /// Says what connections to an endpoint are, until something is said of them. False where there is no room.
    pub fn set_endpoint(&mut self, endpoint: &Endpoint, member: GateMember) -> bool {
        self.endpoints.insert(endpoint, member, 0).is_ok()
    }

    /// Nothing is known of connections to an endpoint.
    pub fn forget_endpoint(&mut self, endpoint: &Endpoint) {
        // What is not there is as good as removed.
        let _ = self.endpoints.remove(endpoint);
    }

    /// A connection is judged no more.
    pub fn forget(&mut self, connection: u64) {
        // What is not there is as good as removed.
        let _ = self.members.remove(&connection);
        let _ = self.gated.remove(&connection);
    }

    /// A connection over a socket is over. It may have been judged by where it led alone, and be known to nobody else.
    pub fn end(&mut self, connection: u64) {
        if self.is_attached {
            let _ = self.gated.remove(&connection);
        }
    }

    /// Says what a session's turn is. What finds no room is not said.
    pub fn set_turn(&mut self, session: u32, turn: Turn) {
        let _ = self.turns.insert(session, turn, 0);
    }

    /// A session of so many servers is over.
    pub fn forget_session(&mut self, session: u32, servers: usize) {
        let _ = self.sessions.remove(&session);
        let _ = self.turns.remove(&session);
        for server in (0..servers).filter_map(|server| u32::try_from(server).ok()) {
            let _ = self.calls.remove(&GateCaller { session, server });
        }
    }

    /// Sessions with numbers up to this one are over.
    pub fn forget_sessions(&mut self, last: u32) {
        remove_if(&mut self.sessions, |session| *session <= last);
        remove_if(&mut self.turns, |session| *session <= last);
        remove_if(&mut self.calls, |caller| caller.session <= last);
    }

    /// Takes out the buckets that are full by now (nanoseconds since boot): a full one is as good as none.
    pub fn forget_full_buckets(&mut self, now: u64) {
        let full: Vec<GateBucket> = self
            .buckets
            .iter()
            .flatten()
            .filter(|(_, full_at)| *full_at <= now)
            .map(|(key, _)| key)
            .collect();
        for key in full {
            let _ = self.buckets.remove(&key);
        }
    }
}

impl Kernel {
    /// The tables of the gate.
    pub fn gate(&mut self) -> &mut Gate {
        &mut self.gate
    }

    /// Attaches the programs of the gate, where they are not, and makes them run once. Where they stayed attached when the agent before
    /// ended, it goes on with what that left.
    ///
    /// # Errors
    /// Why calls cannot be stopped on this kernel.
    pub fn attach_gate(&mut self) -> Result<Option<GateLeft>, String> {
        if self.gate.is_attached {
            return Ok(None);
        }
        let hooks = self.gate.hooks.clone()?;
        if self.kept.has(&hooks) {
            let left = self.gate.left().map_err(|error| error.to_string())?;
            self.gate_is_attached(&hooks);
            return Ok(Some(left));
        }
        // A program that ran while they were detached may have known something still.
        self.gate.clear().map_err(|error| error.to_string())?;
        // Some 30 MB, and gone when the programs are attached.
        let btf = aya::Btf::from_sys_fs().map_err(|error| brief(&error))?;
        let ground = Ground { btf: &btf, cgroup: Path::new("") };
        let apart = self.to_keep.is_some() || self.kept.is_kept();
        let links = hooks::attach_all(&mut self.ebpf, &hooks, &ground, apart);
        let links = links.map_err(|error| error.to_string())?;
        if let Some(silent) = self.silent_gate(&hooks) {
            hooks::detach_all(&mut self.ebpf, &hooks);
            return Err(format!("{}: attached, and does not run", silent.place()));
        }
        match &mut self.to_keep {
            Some(to_keep) => to_keep.links.extend(links),
            None => self.kept.add(links, &mut self.ebpf).map_err(|error| {
                hooks::detach_all(&mut self.ebpf, &hooks);
                error.to_string()
            })?,
        }
        self.gate_is_attached(&hooks);
        Ok(None)
    }

    fn gate_is_attached(&mut self, hooks: &[Hook]) {
        self.gate.is_attached = true;
        self.attached.extend(hooks.iter().map(gate_place));
    }

    /// Detaches them, also those that an agent before left, and forgets what they knew: what goes by from now on nobody reads.
    ///
    /// # Errors
    /// How it is set cannot be written.
    pub fn detach_gate(&mut self) -> Result<(), KernelError> {
        if let Ok(hooks) = &self.gate.hooks
            && (self.gate.is_attached || self.kept.has(hooks))
        {
            if let Some(to_keep) = &mut self.to_keep {
                to_keep.links.retain(|(name, _)| hooks.iter().all(|hook| hook.program() != *name));
            }
            self.kept.detach(hooks);
            hooks::detach_all(&mut self.ebpf, hooks);
            let gone: Vec<String> = hooks.iter().map(gate_place).collect();
            self.attached.retain(|place| !gone.contains(place));
            self.gate.is_attached = false;
            self.gate.clear()?;
        }
        Ok(())
    }

    /// How the gate is asked on this kernel, where it can be.
    pub fn gate_way(&self) -> Option<Way> {
        Way::of(self.gate.hooks.as_ref().ok()?)
    }

    /// A hook that did not run when this process wrote to a pipe: the kernel loads and attaches programs of modules that are
    /// switched off. Where the kernel does not count runs, that is not known.
    fn silent_gate(&self, hooks: &[Hook]) -> Option<Hook> {
        let counting = enable_stats(Stats::RunTime).ok()?;
        let runs = |hook: &Hook| {
            let all = stats::of_programs(&self.ebpf);
            all.into_iter().find(|program| program.name == hook.program()).map_or(0, |program| program.runs)
        };
        let probe = *hooks.iter().find(|hook| hook.program() == "file_permission")?;
        let before = runs(&probe);
        let (reader, mut writer) = std::io::pipe().ok()?;
        writer.write_all(b".").ok()?;
        drop((reader, writer));
        let is_silent = runs(&probe) == before;
        drop(counting);
        is_silent.then_some(probe)
    }
}

/// What a program of the gate hangs on, for people: others may hang there too.
fn gate_place(hook: &Hook) -> String {
    format!("gate {}", hook.place())
}
