//! Tables of inputs and what is said of them.

mod across;
mod answers;
mod approvals;
mod apps;
mod bounds;
mod capability_checks;
mod declared;
mod eras;
mod external;
mod files;
mod folding;
mod gate;
mod heads;
mod http2;
mod inputs;
mod inspect;
mod intents;
mod judge;
mod life;
mod limited;
mod listing;
mod long;
mod muted;
mod network;
mod pairs;
mod phases;
mod reads;
mod relays;
mod remote;
mod request_state;
mod rounds;
mod shadows;
mod speakers;
mod stopped;
mod subjects;
mod tasks;
mod timeouts;
mod totals;
mod traces;
mod turns;
mod unlisted;
mod upgrades;
mod violations;
mod wishes;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::config::Config;
use crate::discovery::Declared;
use crate::event::{
    Connecting, EventBody, GapCause, GateAction, GateDecided, ServerType, ServerVersionChanged,
};
use crate::guards::SessionRule;
use crate::terms::{ConnectionId, ServerId, SessionId};

/// One millisecond, the unit of time in these tests.
pub(super) const MS: u64 = 1_000_000;

pub(super) const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}"#;

/// An engine with a clock that tests turn.
pub(super) struct Bench {
    pub(super) engine: Engine,
    pub(super) now: u64,
    pub(super) out: Vec<Output>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(super) fn with(change: impl FnOnce(&mut EngineConfig)) -> Self {
        let mut config = EngineConfig::new([1; 32]);
        config.payloads = Payloads::Full;
        // Servers are announced at once, but where that is what is looked at.
        config.limits.start_wait = std::time::Duration::ZERO;
        change(&mut config);
        Self { engine: Engine::new(config), now: 1_000 * MS, out: Vec::new() }
    }

    /// One with the guards of this configuration, and all else that it says of servers.
    pub(super) fn judged(config: &Config, sessions: Vec<SessionRule>) -> Self {
        let mut bench = Self::with(|settings| {
            settings.declared = crate::settings::declared(config);
            settings.registry = crate::settings::registry(config);
            settings.inspection = Some(Inspect {
                detector: Arc::clone(&inspect::DETECTOR),
                alert_threshold: config.inspection.alert_threshold,
            });
        });
        bench.engine = bench.engine.with_judge(Judge::new(config, sessions, &inspect::DETECTOR).unwrap());
        bench
    }

    pub(super) fn input(&mut self, input: Input<'_>) {
        self.now += 1;
        self.engine.handle_at_once(input, Timestamp(self.now), &mut self.out);
    }

    pub(super) fn wait(&mut self, ms: u64) {
        self.now += ms * MS;
        self.engine.tick(Timestamp(self.now), &mut self.out);
    }

    /// A process `pid` runs a command; its client is `client`.
    pub(super) fn exec(&mut self, connection: u64, pid: u32, command: &str, client: u32) {
        self.exec_as(connection, pid, command, client, &[], false);
    }

    pub(super) fn exec_as(
        &mut self,
        connection: u64,
        pid: u32,
        command: &str,
        client: u32,
        ancestors: &[u32],
        adopted: bool,
    ) {
        let process = Process {
            pid,
            start_ns: u64::from(pid),
            argv: command.split(' ').map(str::to_owned).collect(),
            ancestors: std::iter::once(client).chain(ancestors.iter().copied()).collect(),
            ..Process::default()
        };
        let argv = vec!["client".to_owned()];
        let client = Process { pid: client, argv, ancestors: ancestors.to_vec(), ..Process::default() };
        let exec = Exec {
            connection: ConnectionId(connection),
            time: Timestamp(self.now),
            adopted,
            process,
            client: Some(client),
            session: None,
        };
        self.input(Input::Exec(exec));
    }

    /// A process of this user.
    pub(super) fn exec_of(&mut self, connection: u64, pid: u32, command: &str, uid: u32) {
        let argv = command.split(' ').map(str::to_owned).collect();
        let process = Process { pid, uid: Some(uid), argv, ..Process::default() };
        let (connection, time) = (ConnectionId(connection), Timestamp(self.now));
        self.input(Input::Exec(Exec {
            connection,
            time,
            adopted: false,
            process,
            client: None,
            session: None,
        }));
    }

    /// A process whose client is known by its executable alone.
    pub(super) fn exec_by(
        &mut self,
        connection: u64,
        pid: u32,
        command: &str,
        client: u32,
        executable: &str,
    ) {
        let argv = command.split(' ').map(str::to_owned).collect();
        let process = Process { pid, argv, ancestors: vec![client], ..Process::default() };
        let executable = Some(executable.to_owned());
        let client = Some(Process { pid: client, executable, ..Process::default() });
        let (connection, time) = (ConnectionId(connection), Timestamp(self.now));
        self.input(Input::Exec(Exec { connection, time, adopted: false, process, client, session: None }));
    }

    /// What all connections say that they keep.
    pub(super) fn booked(&self) -> usize {
        self.engine.connections.values().map(Connection::bytes).sum()
    }

    pub(super) fn c2s(&mut self, connection: u64, text: &str) {
        self.frame(connection, Direction::ClientToServer, text);
    }

    pub(super) fn s2c(&mut self, connection: u64, text: &str) {
        self.frame(connection, Direction::ServerToClient, text);
    }

    pub(super) fn frame(&mut self, connection: u64, direction: Direction, text: &str) {
        let (connection, time) = (ConnectionId(connection), Timestamp(self.now));
        self.input(Input::Frame {
            connection,
            direction,
            time,
            bytes: text.as_bytes(),
            http: None,
            turn: None,
        });
    }

    pub(super) fn gap(&mut self, connection: u64, direction: Direction, bytes: u64) {
        let (connection, time) = (ConnectionId(connection), Timestamp(self.now));
        let cause = GapCause::RingFull;
        self.input(Input::Gap { connection, direction, time, bytes, cause, pid: None, offset: Some(3) });
    }

    pub(super) fn exit(&mut self, connection: u64, pid: u32, code: i32) {
        let (connection, time) = (ConnectionId(connection), Timestamp(self.now));
        self.input(Input::Exit { connection, pid, time, status: Some(ExitStatus::Code(code)) });
    }

    pub(super) fn close(&mut self, connection: u64) {
        self.input(Input::Closed { connection: ConnectionId(connection), time: Timestamp(self.now) });
    }

    /// What came out since the last time, in short: `kind connection server …`.
    pub(super) fn said(&mut self) -> Vec<String> {
        let said = self.out.drain(..).filter(|output| !matches!(output, Output::GateStale { .. }));
        said.map(|output| short(&output)).collect()
    }

    /// What came out since the last time, as JSON.
    pub(super) fn events(&mut self) -> Vec<Value> {
        let events = self.out.drain(..).filter_map(|output| match output {
            Output::Event(event) => Some(serde_json::to_value(event).unwrap()),
            _ => None,
        });
        events.collect()
    }

    /// A server on a connection that has said hello; nothing of it is left in the output.
    pub(super) fn server(&mut self, connection: u64, pid: u32, command: &str, client: u32) {
        self.exec(connection, pid, command, client);
        self.c2s(connection, HELLO);
        self.s2c(connection, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
        self.wait(251);
        self.out.clear();
    }
}

pub(super) fn short(output: &Output) -> String {
    let event = match output {
        Output::Confirm { connection, .. } => return format!("confirm {}", connection.0),
        Output::Drop(id) => return format!("drop {}", id.0),
        Output::Refuse(id) => return format!("refuse {}", id.0),
        Output::Found(found) => return format!("found {} at {}", found.server, found.address),
        Output::GateStale { since } => return format!("gate stale {}", since.is_some()),
        Output::Failed(error) => return format!("failed: {error}"),
        Output::Ask(question) => return format!("ask {}", question.guard.name),
        Output::Event(event) => event,
    };
    let connection = event.connection.map_or(0, |id| id.0);
    let server = event.server_id.as_ref().map_or("-", |id| &*id.0);
    let via: Vec<&str> = event.via.iter().map(|id| &*id.0).collect();
    let via = if via.is_empty() { String::new() } else { format!(" via {}", via.join(",")) };
    let what = match &event.body {
        EventBody::ServerStarted(started) => format!("started {:?}", started.matched_by),
        EventBody::ServerExecuted(executed) => {
            let serves = if executed.serves { " serves" } else { "" };
            let lost = executed.mistaken_for.as_ref().map_or(String::new(), |id| format!(" no {id}"));
            format!("executed {}{serves} {:?}{lost}", executed.pid, executed.identity)
        }
        EventBody::ServerPreloaded(preloaded) => {
            format!("preloads {}", [&preloaded.variables[..], &preloaded.options].concat().join(","))
        }
        EventBody::ServerVersionChanged(changed) => {
            let ServerVersionChanged { version, previous_version, definitions_changed } = changed;
            format!("version {previous_version} to {version}, {definitions_changed} changed")
        }
        EventBody::CapacityExceeded(exceeded) => format!("full {:?} {}", exceeded.table, exceeded.refused),
        EventBody::ServerInitialized(_) => "initialized".to_owned(),
        EventBody::ProtocolViolation(violation) => format!("violation {:?}", violation.violation),
        EventBody::InterfaceSeen(seen) => format!("interface {} {:?}", seen.uri, seen.status),
        EventBody::ToolSeen(tool) => format!("tool {}", tool.tool_name),
        EventBody::ToolCallIntercepted(wanted) => format!("wants {}", wanted.tool_name),
        EventBody::ToolCalled(call) => format!("called {} {}", call.tool_name, call.jsonrpc_id),
        EventBody::ToolResult(result) => {
            format!("result {} {} {:?} {}", result.tool_name, result.jsonrpc_id, result.status, result.result)
        }
        EventBody::Message(message) => {
            let id = message.jsonrpc_id.as_ref().map_or(String::new(), |id| format!(" {id}"));
            format!("message {:?} {}{id}", message.kind, message.method.as_deref().unwrap_or("-"))
        }
        EventBody::ServerExited(exited) => format!("exited {:?} calls {}", exited.exit_code, exited.calls),
        EventBody::CaptureGap(gap) => format!("gap {}", gap.bytes),
        EventBody::ToolChanged(changed) => format!("changed {}", changed.tool_name),
        EventBody::DefinitionChanged(changed) => format!("changed {:?} {}", changed.kind, changed.name),
        EventBody::ToolRemoved(removed) => format!("removed {}", removed.tool_name),
        EventBody::ListChanged(changed) => format!("list changed {:?}", changed.list),
        EventBody::Detected(found) => {
            let of = found.tool_name.as_deref().unwrap_or("-");
            format!("found {} in {:?} of {of}", found.detection.pattern, found.subject)
        }
        EventBody::DetectionMuted(_) | EventBody::DetectionUnmuted(_) => event.body.kind().to_owned(),
        EventBody::CrossServerBlocked(blocked) => format!("blocked by {}", blocked.rule),
        EventBody::RequestBlocked(blocked) => {
            format!("blocked {:?} {} {:?}", blocked.kind, blocked.method, blocked.guard)
        }
        EventBody::GateDecided(gate) => format!("gate {:?} {}", gate.action, gate.code),
        EventBody::RequestWarned(warned) => {
            let (warnings, left_out) = (warned.warnings.join("; "), warned.tools_left_out.join(","));
            format!("warned {:?} {} [{warnings}] [{left_out}]", warned.kind, warned.method)
        }
        EventBody::ApprovalRequested(asked) => {
            format!("asked {} {:?} {}", asked.tool_name, asked.guard, asked.code)
        }
        EventBody::DefinitionApproved(approved) => format!("approved {} by {}", approved.name, approved.by),
        EventBody::SessionSet(set) => format!("set {} by {}", set.key, set.by),
        EventBody::PinsReset(reset) => format!("forgot {} pins by {}", reset.pins, reset.by),
        EventBody::ApprovalGranted(granted) => format!("granted {} by {}", granted.tool_name, granted.by),
        EventBody::ApprovalEnded(ended) => format!("ended {} {:?}", ended.tool_name, ended.reason),
        EventBody::ApprovalDenied(denied) => format!("denied {} by {}", denied.tool_name, denied.by),
        EventBody::ApprovalTimedOut(given_up) => format!("given up {}", given_up.tool_name),
        EventBody::RequestTimedOut(late) => {
            format!("late {} {} {} ms", late.method, late.jsonrpc_id, late.age_ns / MS)
        }
        EventBody::ConcurrencyExceeded(crowded) => {
            format!("crowded {} of {}", crowded.open_requests, crowded.max_concurrent)
        }
        EventBody::NetworkConnection(connection) => {
            format!("connects to {} {:?}", connection.connecting.remote_addr, connection.connecting.action)
        }
        EventBody::RequestRefused(refused) => {
            let id = refused.jsonrpc_id.as_ref().map_or("-".to_owned(), Value::to_string);
            format!("refused {id} {}", refused.status)
        }
        EventBody::NetworkUninspected(found) => {
            format!("uninspected {} {}: {}", found.pid, found.remote_addr, found.reason)
        }
        EventBody::ServerUncaptured(found) => {
            format!("uncaptured {} {:?}", found.pid, found.transport)
        }
        EventBody::ServerEgress(egress) => {
            let first = if egress.first_seen { " first" } else { "" };
            let Connecting { remote_addr, action, .. } = &egress.connecting;
            format!("egress {remote_addr} {action:?} {:?}{first}", egress.severity)
        }
        EventBody::AgentStarted(_)
        | EventBody::AgentLoss(_)
        | EventBody::ConfigReloaded(_)
        | EventBody::ConfigRefused(_)
        | EventBody::AgentStopped(_)
        | EventBody::SinkFailing(_)
        | EventBody::SinkRecovered(_)
        | EventBody::GuardLoaded(_)
        | EventBody::GuardFailing(_)
        | EventBody::GuardRecovered(_)
        | EventBody::GuardDenied(_)
        | EventBody::GuardModified(_)
        | EventBody::NetworkClosed(_)
        | EventBody::ServerDenied(_)
        | EventBody::NetworkBlocked(_)
        | EventBody::NetworkUnblocked(_)
        | EventBody::CallsBlocked(_)
        | EventBody::CallsUnblocked(_)
        | EventBody::ServerReachable(_)
        | EventBody::ServerUnreachable(_)
        | EventBody::TlsMismatch(_)
        | EventBody::StoreFailing(_)
        | EventBody::AuditHead(_)
        | EventBody::ClockStep(_)
        | EventBody::StoreReadersCut(_)
        | EventBody::StoreTrimmed(_)
        | EventBody::StoreRecovered(_)
        | EventBody::StoreReplaced(_) => "agent".to_owned(),
    };
    format!("{connection} {server} {what}{via}")
}

pub(super) fn call(id: u32, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"a":1}}}}}}"#
    )
}

pub(super) fn answer(id: u32, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}
