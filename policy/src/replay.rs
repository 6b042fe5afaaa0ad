//! Recordings: frames and facts that an [`Engine`] is fed with again.
//!
//! One JSON object a line: `{"t": seconds, "session": "s1", "server": "a", "dir": "c2s" | "s2c", "frame": "…"}` or
//! `{"t": seconds, "session": "s1", "server": "a", "event": "exec", "argv": […]}`, which may say `program`, the path of the
//! executable or script that serves, and `uid`, `executable` and `cgroup` of the client; or, for a decision made by hand,
//! `{"t": seconds, "server": "a", "event": "approve" | "deny", "tool": "t", "by": "who"}`, with `"hash"` where only that
//! definition is meant, and `"uid"` or `"program"` where several have a server of this name. A frame may say its `"turn"`.
//! The same lines give the same events: nothing is read but them.

use std::collections::HashMap;

use serde::Deserialize;

use crate::engine::{ByHand, Decide, Definitions, Engine, Exec, Input, Output, Process};
use crate::registry::RegistryError;
use crate::terms::{ConnectionId, Direction, ServerId, SessionId, Timestamp};

/// What is wrong with a line of a recording.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It is no JSON, or not of the form above.
    #[error(transparent)]
    Form(#[from] serde_json::Error),
    /// `t` is out of range.
    #[error("`t` must be seconds, from 0 to less than 10000000000: {0}")]
    Time(f64),
    /// It has neither a frame nor an event, or both, or what belongs to another kind of line.
    #[error(
        "a line is either `dir` and `frame`, beside which `turn` may stand, or `event`: exec may say `argv`, `program`, \
         `uid`, `executable` and `cgroup`"
    )]
    Kind,
    /// A decision lacks a part, or has something beside it.
    #[error(
        "`event` approve and deny need `tool` and `by`, beside which `hash`, `uid` and `program` may stand; they hold for \
         every session"
    )]
    Decision,
    /// A decision that cannot be taken.
    #[error(transparent)]
    Refused(#[from] RegistryError),
}

/// One line of a recording.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Seconds since the beginning, or since the epoch.
    t: f64,
    #[serde(default)]
    session: Option<String>,
    server: String,
    #[serde(default)]
    dir: Option<Dir>,
    #[serde(default)]
    frame: Option<String>,
    /// The turn of the model that it belongs to.
    #[serde(default)]
    turn: Option<String>,
    #[serde(default)]
    event: Option<Event>,
    #[serde(default)]
    argv: Vec<String>,
    /// The client's and the server's; of a decision: whose server.
    #[serde(default)]
    uid: Option<u32>,
    /// The client's.
    #[serde(default)]
    executable: Option<String>,
    #[serde(default)]
    cgroup: Option<String>,
    /// The tool that is approved or denied, by whom, and which definition of it.
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    hash: Option<String>,
    /// The server's executable or script; of a decision: which of several with the server's name.
    #[serde(default)]
    program: Option<String>,
}

impl Line {
    /// Whether a program's start is described.
    fn is_of_exec(&self) -> bool {
        !self.argv.is_empty() || self.executable.is_some() || self.cgroup.is_some()
    }

    /// Whether something was sent.
    fn is_of_frame(&self) -> bool {
        self.dir.is_some() || self.frame.is_some() || self.turn.is_some()
    }

    /// Whether somebody decided.
    fn is_of_decision(&self) -> bool {
        self.tool.is_some() || self.by.is_some() || self.hash.is_some()
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Dir {
    C2s,
    S2c,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    Exec,
    Approve,
    Deny,
}

/// An engine, and what of the recording it has seen.
pub struct Replay {
    engine: Engine,
    now: Timestamp,
    connections: HashMap<(String, String), ConnectionId>,
}

impl Replay {
    /// A recording at its beginning.
    pub fn new(engine: Engine) -> Self {
        Self { engine, now: Timestamp(0), connections: HashMap::new() }
    }

    /// Takes the next line, and appends what follows from it.
    ///
    /// # Errors
    /// It is no record. What was appended holds.
    pub fn line(&mut self, text: &[u8], out: &mut Vec<Output>) -> Result<(), ReplayError> {
        let line: Line = serde_json::from_slice(text)?;
        if !(0.0..1e10).contains(&line.t) {
            return Err(ReplayError::Time(line.t));
        }
        let time = Timestamp((line.t * 1e9).round() as u64);
        // Records may be a little out of order; time is not.
        self.now = self.now.max(time);
        if let Some(event @ (Event::Approve | Event::Deny)) = line.event {
            let decision = if matches!(event, Event::Approve) { ByHand::Approve } else { ByHand::Deny };
            return self.decide(&line, decision, out);
        }
        let is_exec = line.event.is_some();
        let mixed = if is_exec {
            line.is_of_frame()
        } else {
            line.is_of_exec() || line.uid.is_some() || line.program.is_some()
        };
        if mixed || line.is_of_decision() || !is_exec && (line.dir.is_none() || line.frame.is_none()) {
            return Err(ReplayError::Kind);
        }
        let session = line.session.unwrap_or_else(|| "replay".to_owned());
        let next = ConnectionId(self.connections.len() as u64 + 1);
        let key = (session, line.server);
        let known = self.connections.get(&key).copied();
        let connection = known.unwrap_or(next);
        let session = SessionId(key.0.as_str().into());
        if is_exec {
            self.engine.in_session(connection, time, session.clone(), out);
            let known = line.uid.is_some() || line.executable.is_some() || line.cgroup.is_some();
            let Line { uid, executable, cgroup, argv, program, .. } = line;
            let client = known.then(|| Process { uid, executable, cgroup, ..Process::default() });
            let process =
                Process { pid: connection.0 as u32, uid, argv, executable: program, ..Process::default() };
            self.hand_in(Input::Exec(Exec { connection, time, adopted: false, process, client }), out);
        }
        if known.is_none() {
            let server = ServerId(key.1.as_str().into());
            self.hand_in(Input::Open { connection, time, session, server }, out);
            self.connections.insert(key, connection);
        }
        if let (Some(dir), Some(frame)) = (line.dir, &line.frame) {
            self.engine.in_turn(line.turn);
            let direction = match dir {
                Dir::C2s => Direction::ClientToServer,
                Dir::S2c => Direction::ServerToClient,
            };
            self.hand_in(
                Input::Frame { connection, direction, time, bytes: frame.as_bytes(), http: None },
                out,
            );
        }
        Ok(())
    }

    /// Takes the end of the recording: what was waited for comes no more. Appends what the next deadline brings; `false`
    /// where there is none.
    pub fn wait(&mut self, out: &mut Vec<Output>) -> bool {
        let Some(due) = self.engine.next_deadline() else { return false };
        self.now = self.now.max(due);
        self.engine.tick(self.now, out);
        true
    }

    fn decide(&mut self, line: &Line, decision: ByHand, out: &mut Vec<Output>) -> Result<(), ReplayError> {
        let (Some(tool), Some(by), None) = (&line.tool, &line.by, &line.session) else {
            return Err(ReplayError::Decision);
        };
        if line.is_of_frame() || line.is_of_exec() {
            return Err(ReplayError::Decision);
        }
        let server = ServerId(line.server.as_str().into());
        let (uid, program, hash) = (line.uid, line.program.as_deref(), line.hash.as_deref());
        let what = Definitions::Tool { name: tool, hash };
        self.hand_in(Input::Decide(Decide { server: &server, uid, program, what, by, decision }), out);
        match out.pop_if(|output| matches!(output, Output::Failed(_))) {
            Some(Output::Failed(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// How many frames were no JSON-RPC.
    pub fn invalid_frames(&self) -> u64 {
        self.engine.counters().invalid_frames
    }

    /// How many connections were not followed since there were too many.
    pub fn refused_connections(&self) -> u64 {
        self.engine.counters().connections_refused
    }

    fn hand_in(&mut self, input: Input<'_>, out: &mut Vec<Output>) {
        self.engine.handle(input, self.now, out);
    }
}
