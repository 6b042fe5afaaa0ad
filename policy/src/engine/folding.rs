//! Repeated events, folded: what is reported of a connection or a user is bounded, however often it happens, and how often that
//! was is a number.
//!
//! The same finding (rule, server, tool, field) is reported at once a few times within a [`PERIOD`]. What comes then is one event
//! at the end of the period: the last of them, with `repeats`, how many it stands for. So is the same denial, after many more.
//! Findings that are not the same are bounded as well: each is paid for from a budget of the connection and one of its user,
//! which grow with time and with the bytes of their messages. Where one is spent, findings of one rule of one user are the same.
//! Events about the definitions themselves have budgets of their own, as large as the largest list whose definitions are pinned:
//! each tool of an honest server has its own event, however many there are, and lists that go on changing are bounded all the same.
//!
//! Calls that were allowed, answers, servers' starts and ends, and what operators do are never folded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::io::Output;
use super::memory::User;
use crate::event::{Action, Event, EventBody, ToolStatus};
use crate::registry::ITEMS_PER_SERVER;
use crate::terms::{ConnectionId, Timestamp};

/// How long repeats are gathered before they are reported.
pub(super) const PERIOD: Duration = Duration::from_secs(10);
/// How often the same finding is reported at once within a period.
pub(super) const FINDINGS: u64 = 4;
/// How often the same denial is, the same gap, and the same connection.
pub(super) const DENIALS: u64 = 64;
/// Most groups of repeats at once. Beyond, all events of a type are one.
const GROUPS_MOST: usize = 4096;
/// Most budgets at once that are not whole.
const BUDGETS_MOST: usize = 8192;
/// Bytes of messages that pay for one event.
const BYTES_PER_EVENT: u64 = 256;

/// How many events a connection may cause at once, and how many more each second. Its user may cause [`PER_USER`] times as many.
struct Budget {
    burst: u64,
    per_second: u64,
}

/// How many connections a user may have that spend all that they may.
const PER_USER: u64 = 4;

/// What events are paid for from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Purse {
    /// What is found.
    Findings,
    /// Definitions that are new, changed or gone: each that can be pinned is seen once and may change once.
    Definitions,
}

impl Purse {
    const ALL: [Self; 2] = [Self::Findings, Self::Definitions];

    fn budget(self, who: Who) -> Budget {
        let burst = match self {
            Self::Findings => 256,
            Self::Definitions => 2 * ITEMS_PER_SERVER as u64,
        };
        let times = if let Who::Connection(_) = who { 1 } else { PER_USER };
        Budget { burst: burst * times, per_second: 4 * times }
    }
}

/// Whose events are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Who {
    Connection(ConnectionId),
    User(User),
    All,
}

/// Events that are the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    who: Who,
    kind: &'static str,
    what: String,
}

/// What there was of them in this period.
#[derive(Debug)]
struct Group {
    end: Timestamp,
    reported: u64,
    /// The last that was not reported, and how many were not.
    last: Option<Event>,
    repeats: u64,
}

impl Group {
    fn fold(&mut self, mut event: Event) {
        self.repeats += 1;
        if let (EventBody::CaptureGap(gap), Some(EventBody::CaptureGap(before))) =
            (&mut event.body, self.last.as_ref().map(|last| &last.body))
        {
            gap.bytes = gap.bytes.saturating_add(before.bytes);
            gap.offset = None;
        }
        self.last = Some(event);
    }

    /// The event that stands for those that were not reported.
    fn take(&mut self) -> Option<Event> {
        let repeats = std::mem::take(&mut self.repeats);
        // One alone is itself.
        self.last.take().map(|last| Event { repeats: (repeats > 1).then_some(repeats), ..last })
    }
}

/// What is left of a budget, in bytes of messages, and when that was.
#[derive(Clone, Copy, Debug)]
struct Left {
    bytes: u64,
    at: Timestamp,
}

/// The events that were not reported yet, and who may report how many more.
#[derive(Debug, Default)]
pub(super) struct Folding {
    groups: BTreeMap<Key, Group>,
    ends: BTreeSet<(Timestamp, Key)>,
    budgets: HashMap<(Who, Purse), Left>,
}

impl Folding {
    /// When the next period is over.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// A connection of a user has sent a message of so many bytes.
    pub(super) fn earn(&mut self, connection: ConnectionId, user: User, bytes: u64) {
        for who in [Who::Connection(connection), Who::User(user)] {
            for purse in Purse::ALL {
                if let Some(left) = self.budgets.get_mut(&(who, purse)) {
                    left.bytes = left.bytes.saturating_add(bytes);
                }
            }
        }
    }

    /// Folds the events in `out` from `from` on, behind those whose period is over. `user` says whose a connection is. Returns
    /// how many were folded.
    pub(super) fn pass(
        &mut self,
        from: usize,
        now: Timestamp,
        out: &mut Vec<Output>,
        user: impl Fn(ConnectionId) -> User,
    ) -> u64 {
        let is_due = self.next().is_some_and(|end| end <= now);
        if !is_due && !out.iter().skip(from).any(|output| matches!(output, Output::Event(_))) {
            return 0;
        }
        let added = out.split_off(from.min(out.len()));
        self.expire(now, out);
        let mut folded = 0;
        for output in added {
            let Output::Event(event) = output else {
                out.push(output);
                continue;
            };
            if let (EventBody::ServerExited(_), Some(connection)) = (&event.body, event.connection) {
                self.end(connection, out);
            }
            let user = event.connection.map_or_else(|| event.body.uid(), &user);
            match self.take(event, user, now) {
                Some(event) => out.push(Output::Event(event)),
                None => folded += 1,
            }
        }
        folded
    }

    /// Reports all that was not reported yet.
    pub(super) fn finish(&mut self, out: &mut Vec<Output>) {
        self.expire(Timestamp(u64::MAX), out);
    }

    /// An event to be reported now, unless it is one of many.
    fn take(&mut self, event: Event, user: User, now: Timestamp) -> Option<Event> {
        let Some(Kind { same, alike, at_once }) = Kind::of(&event.body) else { return Some(event) };
        let kind = event.kind();
        let who = event.connection.map_or(Who::User(user), Who::Connection);
        let same = same.map(|what| Key { who, kind, what });
        let group = same.as_ref().and_then(|same| self.groups.get_mut(same));
        if let Some(group) = group.filter(|group| group.reported >= at_once) {
            group.fold(event);
            return None;
        }
        let unpaid = alike
            .filter(|(purse, _)| !(self.spend(who, *purse, now) && self.spend(Who::User(user), *purse, now)));
        let Some((_, alike)) = unpaid else {
            if let Some(same) = same {
                self.count(same, now);
            }
            return Some(event);
        };
        let mut alike = Key { who: Who::User(user), kind, what: alike };
        if self.groups.len() >= GROUPS_MOST && !self.groups.contains_key(&alike) {
            alike = Key { who: Who::All, kind, what: String::new() };
        }
        if let Some(group) = self.groups.get_mut(&alike) {
            group.fold(event);
            return None;
        }
        self.begin(alike, 1, now);
        Some(event)
    }

    /// Counts an event that is reported.
    fn count(&mut self, key: Key, now: Timestamp) {
        if let Some(group) = self.groups.get_mut(&key) {
            group.reported += 1;
        } else if self.groups.len() < GROUPS_MOST {
            self.begin(key, 1, now);
        }
    }

    fn begin(&mut self, key: Key, reported: u64, now: Timestamp) {
        let end = now.after(PERIOD);
        self.ends.insert((end, key.clone()));
        self.groups.insert(key, Group { end, reported, last: None, repeats: 0 });
    }

    /// Whether this budget pays for one more event, which it does then.
    fn spend(&mut self, who: Who, purse: Purse, now: Timestamp) -> bool {
        let (key, budget) = ((who, purse), purse.budget(who));
        let whole = budget.burst * BYTES_PER_EVENT;
        if self.budgets.len() >= BUDGETS_MOST && !self.budgets.contains_key(&key) {
            return false;
        }
        let left = self.budgets.entry(key).or_insert(Left { bytes: whole, at: now });
        let passed_ms = now.nanos_since(left.at) / 1_000_000;
        if passed_ms > 0 {
            let earned = passed_ms.saturating_mul(budget.per_second * BYTES_PER_EVENT) / 1000;
            *left = Left { bytes: left.bytes.saturating_add(earned), at: now };
        }
        left.bytes = left.bytes.min(whole);
        match left.bytes.checked_sub(BYTES_PER_EVENT) {
            Some(rest) => left.bytes = rest,
            None => return false,
        }
        true
    }

    /// Reports the repeats of groups whose period is over. What goes on is gathered for another one.
    fn expire(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        while self.next().is_some_and(|end| end <= now)
            && let Some((end, key)) = self.ends.pop_first()
        {
            let Some(group) = self.groups.get_mut(&key) else { continue };
            match group.take() {
                Some(event) if now < Timestamp(u64::MAX) => {
                    out.push(Output::Event(event));
                    group.end = end.max(now).after(PERIOD);
                    self.ends.insert((group.end, key));
                }
                last => {
                    out.extend(last.map(Output::Event));
                    self.groups.remove(&key);
                }
            }
        }
        if self.ends.is_empty() {
            self.budgets.retain(|(who, purse), left| {
                let budget = purse.budget(*who);
                let seconds = now.nanos_since(left.at) / 1_000_000_000;
                left.bytes / BYTES_PER_EVENT + seconds.saturating_mul(budget.per_second) < budget.burst
            });
        }
    }

    /// A connection has ended: reports what there was of it.
    fn end(&mut self, connection: ConnectionId, out: &mut Vec<Output>) {
        let who = Who::Connection(connection);
        let first = Key { who, kind: "", what: String::new() };
        let keys = self.groups.range(first..).map(|(key, _)| key).take_while(|key| key.who == who);
        for key in keys.cloned().collect::<Vec<_>>() {
            if let Some(mut group) = self.groups.remove(&key) {
                self.ends.remove(&(group.end, key));
                out.extend(group.take().map(Output::Event));
            }
        }
        for purse in Purse::ALL {
            self.budgets.remove(&(who, purse));
        }
    }
}

/// Which events are the same as this one.
struct Kind {
    /// Of the same connection; `None` where there is no other one.
    same: Option<String>,
    /// Of the same user, where this purse is empty; `None` of what is not paid for.
    alike: Option<(Purse, String)>,
    /// How many of them are reported at once.
    at_once: u64,
}

impl Kind {
    fn finding(same: String, alike: &str) -> Option<Self> {
        let alike = Some((Purse::Findings, alike.to_owned()));
        Some(Self { same: Some(same), alike, at_once: FINDINGS })
    }

    fn definition(same: Option<String>) -> Option<Self> {
        Some(Self { same, alike: Some((Purse::Definitions, String::new())), at_once: FINDINGS })
    }

    fn denial(same: String) -> Option<Self> {
        Some(Self { same: Some(same), alike: None, at_once: DENIALS })
    }

    /// `None`: it is never folded.
    fn of(body: &EventBody) -> Option<Self> {
        match body {
            EventBody::Detected(found) => {
                let (tool, rule) = (found.tool_name.as_deref().unwrap_or_default(), &found.detection.pattern);
                // Those that are no alerts do not take the place of those that are.
                let rule = if found.muted { format!("{rule} muted") } else { rule.clone() };
                let same = format!("{:?} {rule} {} {tool}", found.subject, found.detection.field);
                Self::finding(same, &rule)
            }
            // A pin is made once.
            EventBody::ToolSeen(tool) if tool.status == ToolStatus::New => Self::definition(None),
            EventBody::InterfaceSeen(seen) if seen.status == ToolStatus::New => Self::definition(None),
            EventBody::InterfaceSeen(seen) => {
                Self::definition(Some(format!("{:?} {}", seen.interface_hash, seen.uri)))
            }
            EventBody::ToolSeen(tool) => {
                Self::definition(Some(format!("{} {}", tool.tool_hash, tool.tool_name)))
            }
            EventBody::ToolChanged(tool) => Self::definition(Some(tool.tool_name.clone())),
            EventBody::ToolRemoved(tool) => Self::definition(Some(tool.tool_name.clone())),
            EventBody::DefinitionChanged(item) => {
                Self::definition(Some(format!("{:?} {}", item.kind, item.name)))
            }
            EventBody::ListChanged(changed) => Self::finding(format!("{:?}", changed.list), ""),
            EventBody::RequestWarned(warned) => {
                Self::finding(format!("{} {}", warned.method, warned.warnings.join(" ")), "")
            }
            EventBody::RequestTimedOut(late) => Self::finding(
                format!("{} {}", late.method, late.tool_name.as_deref().unwrap_or_default()),
                "",
            ),
            EventBody::ConcurrencyExceeded(_) => Self::finding(String::new(), ""),
            EventBody::CaptureGap(gap) => Some(Self {
                same: Some(format!("{:?} {:?}", gap.direction, gap.cause)),
                alike: Some((Purse::Findings, format!("{:?}", gap.cause))),
                at_once: DENIALS,
            }),
            EventBody::ToolCalled(call) if call.decided.action == Action::Block => Self::denial(format!(
                "{} {}",
                call.decided.code.as_deref().unwrap_or_default(),
                call.tool_name
            )),
            EventBody::CrossServerBlocked(blocked) => {
                Self::denial(format!("{} {}", blocked.rule, blocked.blocked_tool_name))
            }
            EventBody::RequestBlocked(blocked) => {
                Self::denial(format!("{} {}", blocked.code, blocked.method))
            }
            EventBody::GateDecided(decided) => Self::denial(format!("{:?} {}", decided.action, decided.code)),
            EventBody::NetworkConnection(connection) => {
                let to = &connection.connecting;
                Self::denial(format!("{:?} {:?} {}", to.action, to.protocol, to.remote_addr))
            }
            EventBody::ServerEgress(egress) => {
                let to = &egress.connecting;
                Self::denial(format!("{:?} {:?} {}", to.action, to.protocol, to.remote_addr))
            }
            _ => None,
        }
    }
}
