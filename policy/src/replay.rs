//! Recordings: frames and facts that an [`Engine`] is fed with again.
//!
//! One JSON object a line: `{"t": seconds, "session": "s1", "server": "a", "dir": "c2s" | "s2c", "frame": "…"}` or
//! `{"t": seconds, "session": "s1", "server": "a", "event": "exec", "argv": […]}`, which may say `program`, the path of the
//! executable or script that serves, and `uid`, `executable` and `cgroup` of the client; or, for a decision made by hand,
//! `{"t": seconds, "server": "a", "event": "approve" | "deny", "tool": "t", "by": "who"}`, with `"hash"` where only that
//! definition is meant, and `"uid"` or `"program"` where several have a server of this name; `"event": "forget"` resets its
//! pin, or those of all that the server offers where there is no `tool`. `{"t": seconds, "event": "block" | "unblock",
//! "target": "server=a" | "session=s1"}` blocks calls, a block with `"until"`, in seconds like `t`, and `"reason"`.
//! `{"t": seconds, "event": "set", "session": "s1", "set": {"key": "mode", "value": "planning"}, "by": "who"}` sets something
//! of the profile of a session, `"reset": "mode"` in place of `"set"` has the configuration decide it again.
//! `{"t": seconds, "event": "mute", "rule": "r", "server": "a", "tool": "t", "until": seconds, "reason": "why", "by": "who"}`
//! mutes detections, with `"any_definition": true`, `"hash"`, `"uid"` or `"program"` as the command has them; `"event": "unmute"` ends the
//! mute with the id `"mute"`.
//! `{"t": seconds, "event": "answer", "question": "ID", "reply": {"decision": "allow"}}`, or `"failure"` in place of `"reply"`, is
//! what a guard that others wrote answers to the question with this id, whenever it is asked: such lines come before the frames
//! that it is asked about.
//! A frame may name its `"turn"`. The same lines give the same events: nothing is read but them.

mod blocks;
mod mutes;

use std::collections::{HashMap, VecDeque};

use serde::Deserialize;

use crate::config::ArgumentTests;
use crate::engine::{
    ByHand, CommandError, Decide, Definitions, Engine, Exec, GuardQuestion, Input, OperatorCommand, Output,
    Process,
};
use crate::guard::CallBlock;
use crate::guards::{ProfileChange, ProfileKey, Setting};
use crate::protocol;
use crate::registry::ApprovalLimits;
use crate::terms::contract::{GuardFailure, GuardReply};
use crate::terms::{ConnectionId, Direction, ServerId, SessionId, Timestamp};
use crate::wire::{Cut, FrameCutter, Framing, Limits};

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
        "`event` approve and deny need `tool` and `by`, beside which `hash`, `uid` and `program` may stand, and \
         `arguments`, `once` and `until` beside approve; they hold for every session"
    )]
    Decision,
    /// It names no server.
    #[error("missing field `server`")]
    Server,
    /// A block lacks a part, or has something beside it.
    #[error(
        "`event` block and unblock need `target`, server=ID or session=ID; beside that of a block `until` and `reason` may \
         stand"
    )]
    Block,
    /// A setting lacks a part, or has something beside it.
    #[error("`event` set needs `session`, `by`, and either `set` or `reset`")]
    Setting,
    /// A mute lacks a part, or has something beside it.
    #[error(
        "`event` mute needs `until`, `reason` and `by`, beside which `rule`, `server`, `uid`, `program`, `tool`, `hash` \
         and `any_definition` may stand; unmute needs `mute` and `by`"
    )]
    Mute,
    /// An answer lacks a part, or has something beside it.
    #[error("`event` answer needs `question`, and either `reply` or `failure`")]
    Answer,
    /// A command that cannot be executed.
    #[error(transparent)]
    Refused(#[from] CommandError),
}

/// One line of a recording.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Seconds since the beginning, or since the epoch.
    t: f64,
    #[serde(default)]
    session: Option<String>,
    #[serde(default)]
    server: Option<String>,
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
    /// The calls that an approval is for, with `until`.
    #[serde(default)]
    arguments: Option<ArgumentTests>,
    #[serde(default)]
    once: bool,
    /// The server's executable or script; of a decision: which of several with the server's name.
    #[serde(default)]
    program: Option<String>,
    /// Whose calls are blocked, until when, and why.
    #[serde(default)]
    target: Option<String>,
    #[serde(default)]
    until: Option<f64>,
    #[serde(default)]
    reason: Option<String>,
    /// The rules that are muted, and whether that is for any definition of the tool; the id of a mute that is ended.
    #[serde(default)]
    rule: Option<String>,
    #[serde(default)]
    any_definition: bool,
    #[serde(default)]
    mute: Option<String>,
    /// What becomes of the profile of a session.
    #[serde(default)]
    set: Option<Setting>,
    #[serde(default)]
    reset: Option<ProfileKey>,
    /// What a guard that others wrote answers to a question.
    #[serde(default)]
    question: Option<String>,
    #[serde(default)]
    reply: Option<GuardReply>,
    #[serde(default)]
    failure: Option<GuardFailure>,
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
        self.tool.is_some()
            || self.by.is_some()
            || self.hash.is_some()
            || self.arguments.is_some()
            || self.once
    }

    /// Whether calls are blocked or not.
    fn is_of_block(&self) -> bool {
        self.target.is_some() || self.until.is_some() || self.reason.is_some()
    }

    /// Whether something of a session is set.
    fn is_of_setting(&self) -> bool {
        self.set.is_some() || self.reset.is_some()
    }

    /// Whether a guard answers.
    fn is_of_answer(&self) -> bool {
        self.question.is_some() || self.reply.is_some() || self.failure.is_some()
    }

    /// Whether it says something that belongs to no operator's command.
    fn is_of_stream(&self) -> bool {
        self.is_of_frame() || self.is_of_exec()
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
    Answer,
    Exec,
    Approve,
    Deny,
    Forget,
    Block,
    Unblock,
    Set,
    Mute,
    Unmute,
}

/// What a guard that others wrote answers.
pub type GuardAnswer = Result<GuardReply, GuardFailure>;

/// Whoever answers questions to guards that others wrote; `None`: nobody does.
pub type Answering<'a> = Box<dyn FnMut(&GuardQuestion) -> Option<GuardAnswer> + 'a>;

/// An engine, and what of the recording it has seen.
pub struct Replay<'a> {
    engine: Engine,
    now: Timestamp,
    connections: HashMap<(String, String), ConnectionId>,
    /// For what is spread over several frames: each is a line as it was captured.
    cutters: HashMap<(ConnectionId, Direction), FrameCutter>,
    /// The blocks of calls that are in force.
    blocks: Vec<CallBlock>,
    /// What guards that others wrote answer, by question.
    answers: HashMap<String, GuardAnswer>,
    /// Who answers what no line of the recording does.
    answering: Answering<'a>,
    unanswered: u64,
}

impl<'a> Replay<'a> {
    /// A recording at its beginning.
    pub fn new(engine: Engine) -> Self {
        let (connections, cutters) = (HashMap::new(), HashMap::new());
        let (blocks, answers) = (Vec::new(), HashMap::new());
        let answering: Answering<'a> = Box::new(|_| None);
        Self { engine, now: Timestamp(0), connections, cutters, blocks, answers, answering, unanswered: 0 }
    }

    /// The same, with somebody who answers what no line of the recording does.
    #[must_use]
    pub fn with_guards(self, answering: Answering<'a>) -> Self {
        Self { answering, ..self }
    }

    /// Takes the next line, and appends what follows from it.
    ///
    /// # Errors
    /// It is no record. What was appended holds.
    pub fn line(&mut self, text: &[u8], out: &mut Vec<Output>) -> Result<(), ReplayError> {
        let line: Line = serde_json::from_slice(text)?;
        let time = timestamp(line.t)?;
        // Records may be a little out of order; time is not.
        self.now = self.now.max(time);
        if line.is_of_mute() && !matches!(line.event, Some(Event::Mute | Event::Unmute)) {
            return Err(ReplayError::Mute);
        }
        match line.event {
            Some(Event::Mute) => return self.mute(&line, out),
            Some(Event::Unmute) => return self.unmute(&line, out),
            Some(Event::Approve) => return self.decide(&line, ByHand::Approve, out),
            Some(Event::Deny) => return self.decide(&line, ByHand::Deny, out),
            Some(Event::Forget) => return self.decide(&line, ByHand::Forget, out),
            Some(Event::Block) => return self.block(line, out),
            Some(Event::Unblock) => return self.unblock(&line, out),
            Some(Event::Set) => return self.set_session(line, out),
            Some(Event::Answer) => return self.keep_answer(line),
            Some(Event::Exec) | None => {}
        }
        let is_exec = line.event.is_some();
        let mixed = if is_exec {
            line.is_of_frame()
        } else {
            line.is_of_exec() || line.uid.is_some() || line.program.is_some()
        };
        let is_of_operator =
            line.is_of_decision() || line.is_of_block() || line.is_of_setting() || line.is_of_answer();
        if line.server.is_none() {
            return Err(ReplayError::Server);
        }
        if mixed || is_of_operator || !is_exec && (line.dir.is_none() || line.frame.is_none()) {
            return Err(ReplayError::Kind);
        }
        let server = line.server.ok_or(ReplayError::Server)?;
        let session = line.session.unwrap_or_else(|| "replay".to_owned());
        let next = ConnectionId(self.connections.len() as u64 + 1);
        let key = (session, server);
        let known = self.connections.get(&key).copied();
        let connection = known.unwrap_or(next);
        let session = SessionId(key.0.as_str().into());
        if is_exec {
            let known = line.uid.is_some() || line.executable.is_some() || line.cgroup.is_some();
            let Line { uid, executable, cgroup, argv, program, .. } = line;
            let client = known.then(|| Process { uid, executable, cgroup, ..Process::default() });
            let process =
                Process { pid: connection.0 as u32, uid, argv, executable: program, ..Process::default() };
            let session = Some(session.clone());
            self.hand_in(
                Input::Exec(Exec { connection, time, adopted: false, process, client, session }),
                out,
            );
        }
        if known.is_none() {
            let server = ServerId(key.1.as_str().into());
            self.hand_in(Input::Open { connection, time, session, server }, out);
            self.connections.insert(key, connection);
        }
        if let (Some(dir), Some(frame)) = (line.dir, &line.frame) {
            let turn = line.turn.as_deref();
            let direction = match dir {
                Dir::C2s => Direction::ClientToServer,
                Dir::S2c => Direction::ServerToClient,
            };
            self.frame((connection, direction, time), frame.as_bytes(), turn, out);
        }
        Ok(())
    }

    /// Hands in a frame, and the value that ends with it where that is spread over this and frames before.
    fn frame(
        &mut self,
        (connection, direction, time): (ConnectionId, Direction, Timestamp),
        frame: &[u8],
        turn: Option<&str>,
        out: &mut Vec<Output>,
    ) {
        self.hand_in(Input::Frame { connection, direction, time, bytes: frame, http: None, turn }, out);
        let is_json = protocol::parse(frame, &mut String::new()).is_ok();
        let limits = Limits::default();
        let cutter = self.cutters.entry((connection, direction)).or_insert_with(|| FrameCutter::new(limits));
        if is_json && cutter.pending_bytes() == 0 {
            return;
        }
        let (mut last, mut spread) = (Vec::new(), Vec::new());
        for piece in [frame, b"\n"] {
            cutter.push(piece, time, &mut |cut| match cut {
                Cut::Frame { bytes, .. } => last = bytes.to_vec(),
                Cut::Ambiguous(Framing::Spread) => spread.push(std::mem::take(&mut last)),
                _ => {}
            });
        }
        for bytes in &spread {
            self.hand_in(Input::Frame { connection, direction, time, bytes, http: None, turn }, out);
            self.hand_in(Input::Ambiguous { connection, direction, time, framing: Framing::Spread }, out);
        }
    }

    /// Takes the end of the recording: what was waited for comes no more. Appends what the next deadline brings; `false`
    /// where there is none.
    pub fn wait(&mut self, out: &mut Vec<Output>) -> bool {
        let Some(due) = self.engine.next_deadline() else { return false };
        self.now = self.now.max(due);
        let from = out.len();
        self.engine.tick(self.now, out);
        self.answer(from, out);
        true
    }

    fn decide(&mut self, line: &Line, decision: ByHand, out: &mut Vec<Output>) -> Result<(), ReplayError> {
        let what = match (&line.tool, &line.hash) {
            (Some(name), hash) => Definitions::Tool { name, hash: hash.as_deref() },
            (None, None) if decision == ByHand::Forget => Definitions::All,
            _ => return Err(ReplayError::Decision),
        };
        let limits = ApprovalLimits {
            arguments: line.arguments.clone().unwrap_or_default(),
            once: line.once,
            until: line.until.map(timestamp).transpose()?,
        };
        let is_limited = !limits.is_unlimited();
        let is_of_block = line.target.is_some() || line.reason.is_some();
        let is_mixed = line.is_of_stream()
            || is_of_block
            || line.is_of_setting()
            || is_limited && (decision != ByHand::Approve || line.tool.is_none());
        let (Some(by), None, false) = (&line.by, &line.session, is_mixed) else {
            return Err(ReplayError::Decision);
        };
        let server = ServerId(line.server.as_deref().ok_or(ReplayError::Server)?.into());
        let (uid, program) = (line.uid, line.program.as_deref());
        let decide = Decide { server: &server, uid, program, what, by, decision, limits: Some(&limits) };
        self.command(OperatorCommand::Decide(decide), out)
    }

    fn set_session(&mut self, line: Line, out: &mut Vec<Output>) -> Result<(), ReplayError> {
        let is_mixed =
            line.is_of_stream() || line.is_of_block() || line.tool.is_some() || line.hash.is_some();
        let is_other = line.server.is_some() || line.uid.is_some() || line.program.is_some();
        let change = match (line.set, line.reset) {
            (Some(setting), None) => ProfileChange::Set(setting),
            (None, Some(key)) => ProfileChange::Reset(key),
            _ => return Err(ReplayError::Setting),
        };
        let (Some(session), Some(by), false) = (line.session, &line.by, is_mixed || is_other) else {
            return Err(ReplayError::Setting);
        };
        self.command(OperatorCommand::SetSession { session: SessionId(session.into()), change, by }, out)
    }

    fn command(&mut self, command: OperatorCommand<'_>, out: &mut Vec<Output>) -> Result<(), ReplayError> {
        self.hand_in(Input::Operator(command), out);
        let failed = out.extract_if(.., |output| matches!(output, Output::Failed(_))).last();
        match failed {
            Some(Output::Failed(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn keep_answer(&mut self, line: Line) -> Result<(), ReplayError> {
        let is_mixed =
            line.is_of_stream() || line.is_of_block() || line.is_of_decision() || line.is_of_setting();
        let answer = match (line.reply, line.failure) {
            (Some(reply), None) => Ok(reply),
            (None, Some(failure)) => Err(failure),
            _ => return Err(ReplayError::Answer),
        };
        let question = line.question.filter(|_| !is_mixed && line.session.is_none() && line.server.is_none());
        self.answers.insert(question.ok_or(ReplayError::Answer)?, answer);
        Ok(())
    }

    /// Answers the questions among the outputs from `from` on, and those that follow.
    fn answer(&mut self, from: usize, out: &mut Vec<Output>) {
        let asked = |out: &mut Vec<Output>, from: usize| -> Vec<GuardQuestion> {
            let asked = out.extract_if(from.., |output| matches!(output, Output::Ask(_)));
            let question = |output| if let Output::Ask(question) = output { Some(question) } else { None };
            asked.filter_map(question).collect()
        };
        let mut open: VecDeque<GuardQuestion> = asked(out, from).into();
        while let Some(question) = open.pop_front() {
            let recorded = self.answers.get(&*question.id).cloned();
            let Some(answer) = recorded.or_else(|| (self.answering)(&question)) else {
                self.unanswered += 1;
                continue;
            };
            let from = out.len();
            let answer = Input::Answered { id: &question.id, answer: answer.as_ref() };
            self.engine.handle_at_once(answer, self.now, out);
            open.extend(asked(out, from));
        }
    }

    /// How many questions to guards that others wrote nobody answered: they count as failures of these guards.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
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
        let from = out.len();
        self.engine.handle_at_once(input, self.now, out);
        self.answer(from, out);
    }
}

/// Seconds, as they are written.
fn timestamp(seconds: f64) -> Result<Timestamp, ReplayError> {
    if !(0.0..1e10).contains(&seconds) {
        return Err(ReplayError::Time(seconds));
    }
    Ok(Timestamp((seconds * 1e9).round() as u64))
}
