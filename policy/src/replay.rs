//! Recordings: frames and facts that an [`Engine`] is fed with again.
//!
//! One JSON object a line: `{"t": seconds, "session": "s1", "server": "a", "dir": "c2s" | "s2c", "frame": "…"}` or
//! `{"t": seconds, "session": "s1", "server": "a", "event": "exec", "argv": […]}`, which may say `uid`, `executable` and
//! `cgroup` of the client, or, for a decision made by hand,
//! `{"t": seconds, "server": "a", "event": "approve" | "deny", "tool": "t", "by": "who"}`, with `"hash"` where only that
//! definition is meant. The same lines give the same events: nothing is read but them.

use std::collections::HashMap;

use serde::Deserialize;

use crate::registry::RegistryError;
use crate::{
    Approve, ConnectionId, Direction, Engine, Exec, Input, Output, Process, ServerId, SessionId, Timestamp,
};

/// What is wrong with a line of a recording.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It is no JSON, or not of the form above.
    #[error(transparent)]
    Form(#[from] serde_json::Error),
    /// `t` is out of range.
    #[error("`t` must be seconds, not negative: {0}")]
    Time(f64),
    /// It has neither a frame nor an event, or both.
    #[error("either `dir` and `frame`, or `event` is needed")]
    Kind,
    /// A decision lacks a part, or has something beside it.
    #[error("`event` approve and deny need `tool` and `by`, and nothing that was sent")]
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
    /// The client's.
    #[serde(default)]
    uid: Option<u32>,
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
            return self.decide(&line, matches!(event, Event::Approve), out);
        }
        let session = line.session.unwrap_or_else(|| "replay".to_owned());
        let next = ConnectionId(self.connections.len() as u64 + 1);
        let key = (session, line.server);
        let known = self.connections.get(&key).copied();
        let connection = known.unwrap_or(next);
        match (line.event, line.dir, &line.frame) {
            (Some(Event::Exec), None, None) => {
                let known = line.uid.is_some() || line.executable.is_some() || line.cgroup.is_some();
                let Line { uid, executable, cgroup, argv, .. } = line;
                let client = known.then(|| Process { uid, executable, cgroup, ..Process::default() });
                let process = Process { pid: connection.0 as u32, argv, ..Process::default() };
                self.hand_in(Input::Exec(Exec { connection, time, adopted: false, process, client }), out);
            }
            (None, Some(_), Some(_)) => {}
            _ => return Err(ReplayError::Kind),
        }
        if known.is_none() {
            let (session, server) = (SessionId(key.0.as_str().into()), ServerId(key.1.as_str().into()));
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

    fn decide(&mut self, line: &Line, grant: bool, out: &mut Vec<Output>) -> Result<(), ReplayError> {
        let (Some(tool), Some(by), None, None) = (&line.tool, &line.by, line.dir, &line.frame) else {
            return Err(ReplayError::Decision);
        };
        let (server, hash) = (ServerId(line.server.as_str().into()), line.hash.as_deref());
        let approve = Approve { server: &server, uid: None, program: None, tool, hash, by, grant };
        self.hand_in(Input::Approve(approve), out);
        match out.pop_if(|output| matches!(output, Output::Failed(_))) {
            Some(Output::Failed(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn hand_in(&mut self, input: Input<'_>, out: &mut Vec<Output>) {
        self.engine.handle(input, self.now, out);
    }
}
