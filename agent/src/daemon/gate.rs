//! The gate's table, made anew when something that it goes by changes, and what the gate says it did.
//!
//! What is known of connections is compared with what the table that counts was made of. Only where that differs a table is
//! compiled, written beside the one that counts, and made to count with one value. On any error the one before stays: who is
//! of a kind that it does not know is undecided.

mod blocks;
mod hear;
mod sessions;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use mcpwarden_abi::{self as abi, GateMember, GateSettings};
use mcpwarden_client::listing as own;
use mcpwarden_kernel::{GateLeft, requirements};
use mcpwarden_policy::{
    ConnectionId, ServerId, SessionId, Timestamp,
    gate::{GateCaller, GateCompiler, GateError, GateOutcome, GateSubject, MOST_SUBJECTS, NO_SUBJECT},
    guard::Listing,
    guards::CallBlock,
};

use super::Agent;
use crate::{
    config::{AllowDeny, Config, StdioEnforcement},
    output::escaped,
};
use sessions::Sessions;

/// Of how many tables it is remembered what their numbers mean: records of theirs may lie in the ring.
const TABLES_REMEMBERED: usize = 16;

/// How often full buckets are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Most kinds of connections that are in the table before they are judged.
const SOON: usize = 64;

/// When a table that could not be made is tried again, where nothing changes before.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// A connection that is judged.
struct Judged {
    /// Which kind it is of; [`abi::GATE_NOBODY`]: it is judged only while it is blocked.
    kind: u32,
    /// Which kind while it is blocked by hand, and until when; nanoseconds since boot.
    blocked: Option<(u32, u64)>,
    /// Whose calls its calls are.
    caller: GateCaller,
}

/// The connections that are judged.
type Members = BTreeMap<ConnectionId, Judged>;

/// What the gate goes by.
#[derive(Default)]
pub struct Gate {
    /// Why nothing is stopped on this kernel, though that is wanted.
    unusable: Option<String>,
    /// Nothing can be neutralized here: what is denied is refused.
    is_blunt: bool,
    /// Why the newest table could not be made: the one before counts.
    failed: Option<String>,
    /// Something may have changed.
    is_stale: bool,
    /// Since when: of what a message told, when its bytes came.
    news_since: Option<Timestamp>,
    /// What makes tables of the configuration; `None`: that changed.
    compiler: Option<GateCompiler>,
    /// Whether the table that counts is of another configuration.
    is_outdated: bool,
    /// Whose calls an operator blocks.
    blocks: Vec<CallBlock>,
    /// Servers that list more tools than there is room for in it.
    crowded: Vec<ServerId>,
    /// What the table that counts was made of, and until when it says what is right.
    subjects: Vec<GateSubject>,
    until: Option<Timestamp>,
    half: u32,
    generation: u32,
    /// What the kernel was told of connections.
    known: BTreeMap<u64, GateMember>,
    /// Those that an agent before told it of, for as long as they last.
    met: BTreeSet<ConnectionId>,
    /// Connections that it had no room for.
    untold: BTreeSet<u64>,
    sessions: Sessions,
    /// When full buckets were last looked for.
    swept: Timestamp,
    /// What the numbers of tables mean, the newest last.
    tables: VecDeque<(u32, Vec<GateOutcome>)>,
    counters: GateCounters,
}

/// What the agent counts of the gate.
#[derive(Clone, Copy, Default)]
pub struct GateCounters {
    /// Tables that were made.
    pub tables: u64,
    /// Tables that could not be made.
    pub tables_refused: u64,
    /// Connections that the kernel's table had no room for.
    pub connections_refused: u64,
    /// Connections whose session, or whose server in it, there was no room for.
    pub sessions_refused: u64,
}

impl Gate {
    /// Something may have changed that it goes by.
    pub fn touch(&mut self) {
        self.is_stale = true;
    }

    /// The engine says that something has changed: by a message that was captured then, or by something else.
    pub fn is_stale_since(&mut self, since: Option<Timestamp>) {
        self.is_stale = true;
        self.news_since = self.news_since.or(since);
    }

    /// An event of a session is reported.
    pub fn see_session(&mut self, session: Option<&SessionId>) {
        self.sessions.see(session);
    }

    /// Goes on with what another agent left: its table counts until there is one of this.
    fn go_on(&mut self, left: GateLeft) {
        let GateLeft { settings, generation, members } = left;
        (self.half, self.generation) = (settings.half & 1, generation);
        self.sessions.begin_behind(members.values().map(|member| member.session).max().unwrap_or(0));
        self.met = members.keys().copied().map(ConnectionId).collect();
        self.known = members;
    }

    /// Whether anything may have to be stopped.
    fn is_wanted(&self, config: &Config) -> bool {
        config.enforcement.stdio != StdioEnforcement::Observe || !self.blocks.is_empty()
    }

    /// What it counts.
    pub fn counters(&self) -> GateCounters {
        self.counters
    }

    /// Why calls are not stopped, or not by what is known now, though that is wanted.
    pub fn troubles(&self) -> impl Iterator<Item = String> {
        let unusable = self.unusable.as_ref().map(|why| format!("calls are reported and not stopped: {why}"));
        let failed = self.failed.as_ref().map(|why| format!("calls are stopped by an older policy: {why}"));
        let blunt = self.is_blunt.then(|| {
            "denied calls are refused, not neutralized: that takes CAP_SYS_ADMIN and a kernel that is not locked down"
                .to_owned()
        });
        let crowded = self.crowded.first().map(|server| {
            let others = match self.crowded.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            format!(
                "there is no room for the tools that {}{others} lists: which of them is called is undecided",
                escaped(&server.0)
            )
        });
        unusable.into_iter().chain(failed).chain(blunt).chain(crowded)
    }

    /// When the table that counts is to be made anew.
    pub fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// The number of a kind of connection in the table that counts.
    fn place(&self, subject: &GateSubject) -> Option<u32> {
        let place = self.subjects.iter().position(|known| known == subject)?;
        u32::try_from(place).ok()
    }

    fn remember(&mut self, outcomes: Vec<GateOutcome>) {
        if self.tables.len() == TABLES_REMEMBERED {
            self.tables.pop_front();
        }
        self.tables.push_back((self.generation, outcomes));
    }

    fn outcome(&self, generation: u32, number: u16) -> Option<&GateOutcome> {
        let (_, outcomes) = self.tables.iter().rev().find(|(known, _)| *known == generation)?;
        outcomes.get(mcpwarden_policy::gate::index_of(number)?)
    }
}

impl Agent {
    /// Attaches the gate, or lets it go, as this configuration says. Why it cannot stop anything is said.
    pub(super) fn set_gate(&mut self, config: &Config) {
        self.gate.touch();
        (self.gate.compiler, self.gate.is_outdated) = (None, true);
        if !self.gate.is_wanted(config) {
            self.switch_gate(config, abi::GATE_OFF);
            self.let_gate_go();
            // It begins anew when it is switched on.
            let Gate { half, generation, counters, .. } = self.gate;
            let tables = std::mem::take(&mut self.gate.tables);
            self.gate = Gate { half, generation, counters, tables, ..Gate::default() };
            return;
        }
        self.gate.unusable = match self.kernel.attach_gate() {
            Ok(left) => {
                left.into_iter().for_each(|left| self.gate.go_on(left));
                None
            }
            Err(why) => Some(why),
        };
        self.gate.is_blunt =
            config.enforcement.stdio == StdioEnforcement::Neutralize && !requirements::may_write_memory();
        self.say_troubles();
    }

    fn let_gate_go(&mut self) {
        if let Err(error) = self.kernel.detach_gate() {
            tracing::error!("gate: {error}");
        }
    }

    fn say_troubles(&self) {
        for trouble in self.gate.troubles() {
            tracing::warn!("enforcement.stdio: {trouble}; `mcpwarden doctor` says more");
        }
    }

    /// A configuration as far as this kernel can carry it out.
    pub(super) fn enforced(&self, config: &Config) -> Config {
        let mut config = config.clone();
        if self.gate.unusable.is_some() {
            config.enforcement.stdio = StdioEnforcement::Observe;
        }
        config
    }

    /// Brings the gate's table up to what is known now.
    pub(super) fn renew_gate(&mut self) {
        let now = self.clock.now();
        let Self { gate, engine, kernel, clock, .. } = self;
        gate.sessions.tell(|session| engine.gate_turn(session), clock, kernel.gate());
        let is_over = self.gate.until.is_some_and(|until| until <= now);
        let is_due = std::mem::take(&mut self.gate.is_stale) || is_over;
        let config = self.reload.current().0;
        if !is_due || !self.gate.is_wanted(config) || self.gate.unusable.is_some() {
            return;
        }
        let config = config.clone();
        let (subjects, mut members) = self.subjects(&config);
        let news_since = self.gate.news_since.take();
        // One that says more than is asked of it will do: servers come back.
        let places: Vec<Option<u32>> = subjects.iter().map(|subject| self.gate.place(subject)).collect();
        let fits = !self.gate.is_outdated && !is_over && places.iter().all(Option::is_some);
        let outcome = if fits {
            Ok(false)
        } else {
            self.install_gate(&config, &subjects, &members, now).map(|()| true)
        };
        if outcome != Ok(true) {
            let half = self.gate.half;
            for (id, judged) in &mut members {
                let before = self.gate.known.get(&id.0);
                if judged.kind != abi::GATE_NOBODY {
                    judged.kind =
                        in_older_table(judged.kind, &places, before.map(|known| known.subjects), half);
                }
                if let Some((kind, _)) = &mut judged.blocked {
                    *kind = in_older_table(*kind, &places, before.map(|known| known.blocked), half);
                }
            }
        }
        match outcome {
            Ok(is_new) => {
                self.gate.failed = None;
                if let Some(since) = news_since.filter(|_| is_new) {
                    self.metrics.gate(since, self.clock.now());
                }
            }
            Err(error) => {
                self.gate.counters.tables_refused += 1;
                self.gate.until = Some(now.after(TRY_AGAIN));
                if self.gate.failed.as_ref() != Some(&error) {
                    tracing::error!("gate: {error}; what was denied before still is");
                    self.gate.failed = Some(error);
                }
            }
        }
        self.tell_members(&members, self.gate.half, now);
        if let Some(last) = self.gate.sessions.take_before() {
            self.kernel.gate().forget_sessions(last);
        }
        self.forget_calls(&config, &members, now);
        let gone: Vec<u64> =
            self.gate.known.keys().copied().filter(|id| !members.contains_key(&ConnectionId(*id))).collect();
        for id in gone {
            self.gate.known.remove(&id);
            self.gate.untold.remove(&id);
            self.kernel.gate().forget(id);
        }
    }

    /// Whether a table can be made of this configuration.
    ///
    /// # Errors
    /// What is too large.
    pub(super) fn check_gate(&mut self, config: &Config) -> Result<(), String> {
        let (subjects, _) = self.subjects(config);
        let compile = || {
            let mut compiler = self.engine.gate_compiler(config)?;
            let now = self.clock.now();
            // Together with what there is, and alone: there may be nothing now.
            compiler.compile(&subjects, 0, now)?;
            compiler.compile(&GateSubject::of(config), 0, now)
        };
        compile().map(drop).map_err(|error: GateError| format!("enforcement.stdio: {error}"))
    }

    /// The kinds of connections that there are, and which of them each connection is that is judged: [`NO_SUBJECT`] where
    /// there are more than have room.
    ///
    /// Where nothing is enforced, only what is blocked by hand is judged.
    fn subjects(&mut self, config: &Config) -> (Vec<GateSubject>, Members) {
        let is_enforcing = config.enforcement.stdio != StdioEnforcement::Observe;
        let mut subjects: Vec<GateSubject> = Vec::new();
        let mut members = BTreeMap::new();
        let is_ours = |id: &ConnectionId| !own::is_own(*id);
        let mut gated: Vec<ConnectionId> = self.engine.gated().filter(is_ours).collect();
        // That these are servers was known before this agent was.
        self.gate.met.retain(|id| self.engine.gate_caller(*id).is_some());
        gated.extend(&self.gate.met);
        gated.sort_unstable();
        gated.dedup();
        let soon: Vec<ConnectionId> = self.engine.soon_gated().filter(is_ours).take(SOON).collect();
        for (id, is_gated) in
            gated.into_iter().map(|id| (id, true)).chain(soon.into_iter().map(|id| (id, false)))
        {
            if !is_gated && (subjects.len() >= MOST_SUBJECTS || !is_enforcing) {
                break;
            }
            let block = self.engine.gate_block(id).cloned();
            if !is_enforcing && block.is_none() {
                continue;
            }
            let Some(mut subject) = self.engine.gate_subject(id) else { continue };
            let Some(caller) = self.engine.gate_caller(id) else { continue };
            if !config.policy.fail_closed {
                // Nobody asks for it then, and each server that has not listed its tools yet would be one of its kind.
                subject.listing = Listing::Unknown;
            }
            let blocked = block.map(|block| {
                let until = block.until.map_or(u64::MAX, |until| self.clock.boot(until));
                (number_of(subject.blocked(&block), &mut subjects), until)
            });
            let kind = if is_enforcing { number_of(subject, &mut subjects) } else { abi::GATE_NOBODY };
            if is_gated {
                members.insert(id, Judged { kind, blocked, caller });
            }
        }
        (subjects, members)
    }

    fn install_gate(
        &mut self,
        config: &Config,
        subjects: &[GateSubject],
        members: &Members,
        now: Timestamp,
    ) -> Result<(), String> {
        let generation = self.gate.generation.wrapping_add(1).max(1);
        let say = |error: GateError| error.to_string();
        let compiler = match &mut self.gate.compiler {
            Some(compiler) => compiler,
            none => none.insert(self.engine.gate_compiler(config).map_err(say)?),
        };
        let table = compiler.compile(subjects, generation, now).map_err(say)?;
        let half = 1 - self.gate.half;
        self.kernel.gate().write(half, &table.view()).map_err(|error| error.to_string())?;
        self.tell_members(members, half, now);
        self.kernel.gate().number(half, &table.view()).map_err(|error| error.to_string())?;
        (self.gate.half, self.gate.generation) = (half, generation);
        let mode = match config.enforcement.stdio {
            // For what is blocked by hand.
            StdioEnforcement::Observe | StdioEnforcement::Neutralize => abi::GATE_NEUTRALIZE,
            StdioEnforcement::Deny => abi::GATE_DENY,
        };
        self.switch_gate(config, mode);
        (self.gate.until, self.gate.is_outdated) = (table.until(), false);
        let crowded = table.crowded().to_vec();
        self.gate.remember(table.into_outcomes());
        self.gate.subjects = subjects.to_vec();
        self.gate.counters.tables += 1;
        if self.gate.crowded != crowded {
            self.gate.crowded = crowded;
            self.say_troubles();
        }
        Ok(())
    }

    /// Says what each connection is in this half of the table.
    fn tell_members(&mut self, members: &Members, half: u32, now: Timestamp) {
        let index = usize::from(half == 1);
        for (id, Judged { kind, blocked, caller }) in members {
            let known = self.gate.known.get(&id.0).copied();
            let mut fresh = self.gate.sessions.member(caller, now);
            let (subjects, blocks) = known
                .map_or(([abi::GATE_NOBODY; 2], [NO_SUBJECT; 2]), |known| (known.subjects, known.blocked));
            (fresh.subjects, fresh.blocked) = (subjects, blocks);
            fresh.subjects[index] = *kind;
            if let Some((kind, until)) = blocked {
                (fresh.blocked[index], fresh.blocked_until_ns) = (*kind, *until);
            }
            if known != Some(fresh) {
                self.gate.sessions.see(Some(&caller.session));
                if self.kernel.gate().set_member(id.0, fresh) {
                    self.gate.counters.sessions_refused += u64::from(known.is_none() && fresh.session == 0);
                    self.gate.known.insert(id.0, fresh);
                } else {
                    // Tried again with whatever comes next.
                    let is_new = self.gate.untold.insert(id.0);
                    self.gate.counters.connections_refused += u64::from(is_new);
                }
            }
        }
    }

    /// Has the kernel forget what no call to come is judged by.
    fn forget_calls(&mut self, config: &Config, members: &Members, now: Timestamp) {
        let current: BTreeSet<_> = members.values().map(|judged| &judged.caller.session).collect();
        let idle = config.cross_server.session_idle.0;
        self.gate.sessions.forget_idle(&current, idle, now, self.kernel.gate());
        if now > self.gate.swept.after(SWEEP_EVERY) {
            self.gate.swept = now;
            self.kernel.gate().forget_full_buckets(self.clock.boot(now));
        }
    }

    fn switch_gate(&mut self, config: &Config, mode: u32) {
        let settings = GateSettings {
            half: self.gate.half,
            mode,
            refuse_undecided: u32::from(
                config.enforcement.undecided == AllowDeny::Deny || config.policy.fail_closed,
            ),
            window: u32::try_from(config.enforcement.window_bytes.0)
                .map_or(abi::GATE_WINDOW_MOST, |bytes| bytes.min(abi::GATE_WINDOW_MOST)),
        };
        if let Err(error) = self.kernel.gate().set(settings) {
            tracing::error!("gate: {error}");
        }
    }
}

/// The number of a kind among those that there are, to which it is added; [`NO_SUBJECT`] where there is no room.
fn number_of(subject: GateSubject, subjects: &mut Vec<GateSubject>) -> u32 {
    let place = match subjects.iter().position(|known| *known == subject) {
        Some(place) => Some(place),
        None if subjects.len() >= MOST_SUBJECTS => None,
        None => {
            subjects.push(subject);
            Some(subjects.len() - 1)
        }
    };
    place.and_then(|place| u32::try_from(place).ok()).unwrap_or(NO_SUBJECT)
}

/// Which kind a connection is of in the table that counts, where there is none of what is known now: `place` is its kind's number
/// among those that there are, `places` what each of these is in that table, and `before` what the kernel was told of it.
///
/// What is denied by that table stays so: a server that lists one tool more is of its kind from before.
fn in_older_table(place: u32, places: &[Option<u32>], before: Option<[u32; 2]>, half: u32) -> u32 {
    let known = usize::try_from(place).ok().and_then(|place| places.get(place).copied().flatten());
    let before = before.map(|before| before[usize::from(half == 1)]);
    known.or(before.filter(|place| *place != abi::GATE_NOBODY)).unwrap_or(NO_SUBJECT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previous_gate_table_applies_without_a_new_one() {
        const NOBODY: u32 = abi::GATE_NOBODY;
        // Its kind now, what the kinds are in the table that counts, what it was in both halves, which half counts.
        let cases = [
            ("as before", 1, &[None, Some(4)][..], Some([4, NOBODY]), 0, 4),
            ("of another kind that is known", 1, &[None, Some(4)], Some([2, 3]), 0, 4),
            ("of a kind that is not known", 0, &[None, Some(4)], Some([2, 3]), 0, 2),
            ("the same in the other half", 0, &[None, Some(4)], Some([2, 3]), 1, 3),
            ("new, of a kind that is not known", 0, &[None], None, 0, NO_SUBJECT),
            ("told, and not of this half", 0, &[None], Some([NOBODY, 3]), 0, NO_SUBJECT),
            ("more kinds than there is room for", NO_SUBJECT, &[Some(1)], None, 0, NO_SUBJECT),
        ];
        for (name, place, places, before, half, expected) in cases {
            assert_eq!(in_older_table(place, places, before, half), expected, "{name}");
        }
    }
}
