//! Enforcement over stdio: the table of the kernel's gate, compiled anew when something that it depends on changes.
//!
//! The facts about connections are compared with what the table in force was made of. Only where that differs a table is
//! compiled, written beside the one in force, and put in force with one value. On any error the one before stays: calls of
//! connections that it does not know are undecidable.

mod decisions;
mod endpoints;
mod members;
mod pace;
mod sessions;
mod subjects;
mod table;
mod texts;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mcpwarden_abi::{self as abi, Endpoint, GateInfo, GateSettings, RecordHeader};
use mcpwarden_capture::socket::Sockets;
use mcpwarden_kernel::{GateLeft, Kernel, requirements};
use mcpwarden_policy::{
    ConnectionId, Engine, ServerId, SessionId, Timestamp,
    event::GateDecided,
    gate::{GateCompiler, GateError, GateSubject},
    guards::{CallBlock, Callee},
};

use crate::{
    config::{AllowDeny, Config, Fallback, StdioEnforcement},
    host::clock::Clock,
    network::BlockError,
    output::escaped,
};
use endpoints::{Endpoints, Expected};
use members::{Members, in_older_table};
use pace::Pace;
use sessions::Sessions;
use subjects::Subjects;
use table::Table;
use texts::texts;

/// How often full buckets are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Why nothing can be overwritten.
const BLUNT: &str = "neutralizing requires CAP_SYS_ADMIN and a kernel that is not locked down";

/// When a table that could not be made is tried again, where nothing changes before.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// The gate, as the daemon controls it.
#[derive(Default)]
pub struct Gate {
    /// Why nothing is stopped on this kernel, though that is configured.
    unusable: Option<String>,
    /// Nothing can be neutralized here: denied calls are refused.
    is_blunt: bool,
    /// Why the newest table could not be made: the one before is in force.
    failed: Option<String>,
    /// Something may have changed.
    is_stale: bool,
    /// When the message was captured that made it stale, where it was one.
    stale_since: Option<Timestamp>,
    /// What makes tables of the configuration; `None`: the configuration changed.
    compiler: Option<GateCompiler>,
    /// Whether the table in force is of another configuration.
    is_outdated: bool,
    /// The calls that an operator blocks.
    blocks: Vec<CallBlock>,
    /// Servers that list more tools than the table has capacity for.
    crowded: Vec<ServerId>,
    table: Table,
    members: Members,
    endpoints: Endpoints,
    sessions: Sessions,
    /// When connections that came and went are followed that carry HTTP.
    pace: Pace,
    /// When full buckets were last looked for.
    swept: Timestamp,
    counters: GateCounters,
}

/// What the agent counts of the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateCounters {
    /// Tables that were made.
    pub tables: u64,
    /// Tables that could not be made.
    pub tables_refused: u64,
    /// Connections that the kernel's table had no capacity for.
    pub connections_refused: u64,
    /// Servers over sockets that the kernel's table had no capacity for: the first message to them is not judged.
    pub endpoints_refused: u64,
    /// Connections whose session, or whose server in it, there was no capacity for.
    pub sessions_refused: u64,
}

impl Gate {
    /// Something may have changed that the table depends on.
    pub fn touch(&mut self) {
        self.is_stale = true;
    }

    /// Something has changed that the table depends on: by a message that was captured then, or by something else.
    pub fn is_stale_since(&mut self, since: Option<Timestamp>) {
        self.is_stale = true;
        self.stale_since = self.stale_since.or(since);
    }

    /// An event of a session is reported: its turn may have changed.
    pub fn see_session(&mut self, session: Option<&SessionId>) {
        self.sessions.see(session);
    }

    /// What it counts.
    pub fn counters(&self) -> GateCounters {
        self.counters
    }

    /// When the table in force is to be made anew, or held against the connections of then.
    pub fn until(&self) -> Option<Timestamp> {
        [self.table.until, self.pace.until()].into_iter().flatten().min()
    }

    /// Why calls are not stopped, or not by the newest facts, though that is configured.
    pub fn troubles(&self) -> impl Iterator<Item = String> {
        let unusable = self.unusable.as_ref().map(|why| format!("calls are reported and not stopped: {why}"));
        let failed = self.failed.as_ref().map(|why| format!("calls are stopped by an older policy: {why}"));
        let blunt = self
            .is_blunt
            .then(|| format!("denied calls are refused, not neutralized (`enforcement.fallback`): {BLUNT}"));
        let crowded = self.crowded.first().map(|server| {
            let others = match self.crowded.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            format!(
                "the gate has no capacity for the tools that {}{others} lists: calls of them are undecidable",
                escaped(&server.0)
            )
        });
        unusable.into_iter().chain(failed).chain(blunt).chain(crowded)
    }

    /// Whether nothing is known that keeps it from stopping calls on this kernel.
    pub fn is_usable(&self) -> bool {
        self.unusable.is_none()
    }

    /// A configuration as far as this kernel can enforce it.
    pub fn enforced(&self, config: &Config) -> Config {
        let mut config = config.clone();
        if self.unusable.is_some() {
            config.enforcement.stdio = StdioEnforcement::Observe;
        }
        config
    }

    /// What the gate did, by one of its records.
    pub fn decided(&self, header: &RecordHeader, info: &GateInfo) -> GateDecided {
        decisions::decided(header, info, self.table.outcome(info.generation, info.outcome))
    }

    /// Attaches or detaches the gate, as this configuration requires. A warning is logged where it cannot stop anything.
    pub fn configure(&mut self, config: &Config, kernel: &mut Kernel) {
        self.touch();
        (self.compiler, self.is_outdated) = (None, true);
        self.endpoints.forget_idle();
        if !self.is_required(config) {
            self.switch(config, abi::GATE_OFF, kernel);
            detach(kernel);
            // It begins anew when it is switched on.
            let (counters, mut table) = (self.counters, std::mem::take(&mut self.table));
            table.clear();
            *self = Self { counters, table, ..Self::default() };
            return;
        }
        let is_blunt =
            config.enforcement.stdio == StdioEnforcement::Neutralize && !requirements::may_write_memory();
        if is_blunt && config.enforcement.fallback == Fallback::Observe {
            self.switch(config, abi::GATE_OFF, kernel);
            detach(kernel);
            self.unusable = Some(format!("{BLUNT}, and `enforcement.fallback` is `observe`"));
            self.is_blunt = false;
            self.warn();
            return;
        }
        self.unusable = match kernel.attach_gate() {
            Ok(left) => {
                left.into_iter().for_each(|left| self.resume(left));
                None
            }
            Err(why) => Some(why),
        };
        self.is_blunt = is_blunt && self.unusable.is_none();
        self.warn();
    }

    /// Whether a table can be made of this configuration.
    ///
    /// # Errors
    /// What is too large.
    pub fn check(&mut self, config: &Config, engine: &mut Engine, clock: &Clock) -> Result<(), String> {
        let subjects = Subjects::of(config, engine, clock, &mut self.members.inherited, |_| Vec::new());
        let now = clock.now();
        let compile = || {
            let mut compiler = engine.gate_compiler(config)?;
            // With the connections that there are, and alone: there may be none now.
            compiler.compile(&subjects.kinds, 0, now)?;
            compiler.compile(&GateSubject::of(config), 0, now)
        };
        compile().map(drop).map_err(|error: GateError| format!("enforcement.stdio: {error}"))
    }

    /// Whether calls of `callee` can be blocked on this host.
    ///
    /// # Errors
    /// There is no gate, or no such session.
    pub fn can_block(
        &self,
        callee: &Callee,
        config: &Config,
        engine: &Engine,
        kernel: &mut Kernel,
    ) -> Result<(), BlockError> {
        if let Callee::Session(id) = callee
            && engine.connections_of(callee) == 0
        {
            return Err(BlockError::NoSession(escaped(&id.0)));
        }
        if let Some(why) = &self.unusable {
            return Err(BlockError::NoGate(why.clone()));
        }
        // Attaching shows whether it runs here.
        if !self.is_required(config) {
            kernel.attach_gate().map_err(BlockError::NoGate)?;
        }
        Ok(())
    }

    /// A block was refused for which the gate may have been attached: detaches it where nothing else requires it.
    pub fn block_was_refused(&self, config: &Config, kernel: &mut Kernel) {
        if !self.is_required(config) {
            detach(kernel);
        }
    }

    /// Takes the calls that an operator blocks. Whether they are others than before.
    pub fn set_blocks(&mut self, blocks: &[CallBlock]) -> bool {
        let changed = self.blocks != blocks;
        if changed {
            self.blocks = blocks.to_vec();
        }
        changed
    }

    /// An operator decided something: what is remembered of servers without a connection may be another thing now.
    pub fn forget_idle_endpoints(&mut self) {
        self.endpoints.forget_idle();
        self.touch();
    }

    /// A connection to an endpoint is no server's, after all.
    pub fn forget_endpoint(&mut self, endpoint: &Endpoint) {
        self.endpoints.forget(endpoint);
        self.touch();
    }

    /// Brings the gate's tables up to the facts of now. Where a new table is in force for it: when the message was captured that made
    /// the table before stale, if it was one.
    pub fn renew(
        &mut self,
        config: &Config,
        engine: &mut Engine,
        kernel: &mut Kernel,
        clock: &Clock,
        sockets: &Sockets,
    ) -> Option<Timestamp> {
        let now = clock.now();
        self.sessions.send_turns(|session| engine.gate_turn(session), clock, kernel.gate());
        let is_over = self.table.until.is_some_and(|until| until <= now);
        let has_other_streams = self.pace.is_due(sockets.changes(), now);
        let is_due = std::mem::take(&mut self.is_stale) || is_over || has_other_streams;
        if !is_due || !self.is_required(config) || self.unusable.is_some() {
            return None;
        }
        let streams = |link| sockets.streams(link).collect();
        let mut subjects = Subjects::of(config, engine, clock, &mut self.members.inherited, streams);
        let is_enforcing = config.enforcement.stdio != StdioEnforcement::Observe;
        let endpoint =
            |id: ConnectionId| Some(kernel.socket(sockets.key(id.0)?, id.0)?.endpoint).filter(is_somewhere);
        let mut expected =
            self.endpoints.expect(&mut subjects, &self.blocks, (is_enforcing, clock), endpoint);
        let stale_since = self.stale_since.take();
        // A table that has more kinds than these will do: servers come back.
        let indices = self.table.indices(&subjects.kinds);
        let fits = !self.is_outdated && !is_over && indices.iter().all(Option::is_some);
        let installed = if fits {
            Ok(false)
        } else {
            self.install(config, (&subjects, &expected), engine, kernel, now).map(|()| true)
        };
        if installed != Ok(true) {
            let half = self.table.half;
            self.members.keep_kinds(&mut subjects.members, &indices, half);
            self.endpoints
                .keep_kinds(&mut expected, |kind, before| in_older_table(kind, &indices, before, half));
        }
        let is_new = self.note(installed, now);
        self.write_members((&subjects, &expected), self.table.half, kernel, now);
        if let Some(last) = self.sessions.take_before() {
            kernel.gate().forget_sessions(last);
        }
        self.forget_calls(config, &subjects, kernel, clock, now);
        for id in self.members.forget_gone(&subjects.members) {
            kernel.gate().forget(id);
        }
        stale_since.filter(|_| is_new)
    }

    /// Takes down whether the newest table was made; whether one was.
    fn note(&mut self, installed: Result<bool, String>, now: Timestamp) -> bool {
        match installed {
            Ok(is_new) => {
                self.failed = None;
                is_new
            }
            Err(error) => {
                self.counters.tables_refused += 1;
                self.table.until = Some(now.after(TRY_AGAIN));
                if self.failed.as_ref() != Some(&error) {
                    tracing::error!(
                        "gate: cannot install the new table: {error}; the table before stays in force"
                    );
                    self.failed = Some(error);
                }
                false
            }
        }
    }

    /// Continues with what another agent left: its table is in force until there is one of this agent.
    fn resume(&mut self, left: GateLeft) {
        let GateLeft { settings, generation, members, endpoints } = left;
        self.endpoints.inherit(endpoints.into_iter());
        (self.table.half, self.table.generation) = (settings.half & 1, generation);
        self.sessions.begin_behind(members.values().map(|member| member.session).max().unwrap_or(0));
        self.members.inherited = members.keys().copied().map(ConnectionId).collect();
        self.members.known = members;
    }

    /// Whether anything may have to be stopped.
    fn is_required(&self, config: &Config) -> bool {
        config.enforcement.stdio != StdioEnforcement::Observe || !self.blocks.is_empty()
    }

    fn warn(&self) {
        for trouble in self.troubles() {
            tracing::warn!("enforcement.stdio: {trouble}; `mcpwarden doctor` shows the details");
        }
    }

    fn install(
        &mut self,
        config: &Config,
        (subjects, expected): (&Subjects, &BTreeMap<Endpoint, Expected>),
        engine: &Engine,
        kernel: &mut Kernel,
        now: Timestamp,
    ) -> Result<(), String> {
        let generation = self.table.generation.wrapping_add(1).max(1);
        let text = |error: GateError| error.to_string();
        let compiler = match &mut self.compiler {
            Some(compiler) => compiler,
            none => none.insert(engine.gate_compiler(config).map_err(text)?),
        };
        let table = compiler.compile(&subjects.kinds, generation, now).map_err(text)?;
        let half = 1 - self.table.half;
        kernel.gate().write(half, &table.view()).map_err(|error| error.to_string())?;
        let texts = texts(table.outcomes(), &config.enforcement);
        kernel.gate().write_texts(half, &texts).map_err(|error| error.to_string())?;
        self.write_members((subjects, expected), half, kernel, now);
        kernel.gate().number(half, &table.view()).map_err(|error| error.to_string())?;
        (self.table.half, self.table.generation) = (half, generation);
        let mode = match config.enforcement.stdio {
            // For what is blocked by hand.
            StdioEnforcement::Observe | StdioEnforcement::Neutralize => abi::GATE_NEUTRALIZE,
            StdioEnforcement::Deny => abi::GATE_DENY,
        };
        self.switch(config, mode, kernel);
        self.is_outdated = false;
        let crowded = table.crowded().to_vec();
        self.table.put_in_force(subjects.kinds.clone(), table.until(), table.into_outcomes());
        self.counters.tables += 1;
        if self.crowded != crowded {
            self.crowded = crowded;
            self.warn();
        }
        Ok(())
    }

    /// Writes what each connection is in this half of the table, and what those to come are.
    fn write_members(
        &mut self,
        (subjects, expected): (&Subjects, &BTreeMap<Endpoint, Expected>),
        half: u32,
        kernel: &mut Kernel,
        now: Timestamp,
    ) {
        self.endpoints.write(expected, half, |at, member| match member {
            Some(member) => kernel.gate().set_endpoint(at, member),
            None => {
                kernel.gate().forget_endpoint(at);
                true
            }
        });
        self.counters.endpoints_refused += self.endpoints.take_refused();
        let refused = self.members.write(&subjects.members, half, &mut self.sessions, now, |id, member| {
            kernel.gate().set_member(id, member)
        });
        self.counters.sessions_refused += refused.sessions;
        self.counters.connections_refused += refused.connections;
    }

    /// Has the kernel forget what no call to come is judged by.
    fn forget_calls(
        &mut self,
        config: &Config,
        subjects: &Subjects,
        kernel: &mut Kernel,
        clock: &Clock,
        now: Timestamp,
    ) {
        let current: BTreeSet<_> = subjects.members.values().map(|judged| &judged.caller.session).collect();
        let idle = config.cross_server.session_idle.0;
        self.sessions.forget_idle(&current, idle, now, kernel.gate());
        if now > self.swept.after(SWEEP_EVERY) {
            self.swept = now;
            kernel.gate().forget_full_buckets(clock.boot(now));
        }
    }

    fn switch(&self, config: &Config, mode: u32, kernel: &mut Kernel) {
        let settings = GateSettings {
            half: self.table.half,
            mode,
            refuse_undecided: u32::from(
                config.enforcement.undecided == AllowDeny::Deny || config.policy.fail_closed,
            ),
            window: u32::try_from(config.enforcement.window_bytes.0)
                .map_or(abi::GATE_WINDOW_MOST, |bytes| bytes.min(abi::GATE_WINDOW_MOST)),
        };
        if let Err(error) = kernel.gate().set(settings) {
            tracing::error!("gate: cannot write its settings: {error}");
        }
    }
}

/// Whether an endpoint is known: an unnamed socket has none.
fn is_somewhere(endpoint: &Endpoint) -> bool {
    *endpoint != Endpoint::default()
}

fn detach(kernel: &mut Kernel) {
    if let Err(error) = kernel.detach_gate() {
        tracing::error!("gate: cannot detach: {error}");
    }
}

#[cfg(test)]
mod tests;
