//! What models want to be called: their answers are read, the tools that they name are looked up, and calls are held against them.

use std::cell::LazyCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{Context, Evaluator};
use crate::definition::bare_digest;
use crate::engine::io::{ModelPart, ModelRequest, ModelTraffic};
use crate::engine::recorder::tool_id;
use crate::engine::scope::Scope;
use crate::event::{CallIntent, Event, Executor, Json, ModelIntent, ToolCallIntercepted, ToolNameMatch};
use crate::intent::names::{Certainty, Mapping, ToolNames};
use crate::intent::{self, Answer, AnswerOutput, Arguments, IntentLimits, ToolCall};
use crate::terms::{ConnectionId, ServerId, SessionId, Timestamp};

/// Most answers that are read at once.
const MOST_ANSWERS: usize = 1_024;
/// Of them, and of the sessions below, those of one user: of more, the oldest of that user go.
const MOST_OF_USER: usize = 256;
/// What they may hold together of what is unfinished, and those of one user. Bytes.
const MOST_HELD: usize = 64 << 20;
const MOST_HELD_OF_USER: usize = 16 << 20;
/// Most sessions of which intents are remembered, most of each, and for how long: people are asked before a tool is called.
const MOST_SESSIONS: usize = 1_024;
const MOST_INTENTS: usize = 128;
const REMEMBERED: Duration = Duration::from_secs(3_600);
/// Most tools that a name is compared with in all forms: those whose own name is in it, or all where it may be cut off.
const MOST_TOOLS: usize = 256;
/// Names of at least so many bytes may be cut off: clients keep to 64, and some to 60.
const LONG_NAME: usize = 40;

/// Answers that are being read, and what they wanted.
#[derive(Debug, Default)]
pub(super) struct Intents {
    answers: BTreeMap<(ConnectionId, u64), Reading>,
    recent: BTreeMap<SessionId, Recent>,
}

/// What models wanted of the clients of a session.
#[derive(Debug, Default)]
struct Recent {
    user: Option<u32>,
    intents: VecDeque<Intent>,
}

/// An answer that is being read.
#[derive(Debug)]
struct Reading {
    answer: Answer,
    request: ModelRequest,
    session: SessionId,
    intent: ModelIntent,
    begun: Timestamp,
    held: usize,
}

/// What a model wanted of the client.
#[derive(Debug)]
struct Intent {
    time: Timestamp,
    intent: ModelIntent,
    namespace: Option<Box<str>>,
    name: Arc<str>,
    /// The tool, where the name means one: the server, and its name there.
    tool: Option<(ServerId, Arc<str>)>,
    /// Of its arguments, where these were read.
    digest: Option<[u8; 32]>,
}

/// A call in the answer of a model, as it was read.
struct Wanted {
    id: Option<String>,
    name: Arc<str>,
    namespace: Option<Box<str>>,
    executor: Executor,
    server: Option<String>,
    arguments: Option<String>,
}

impl Wanted {
    fn of(call: &ToolCall<'_>, arguments: &Arguments<'_>) -> Self {
        let (executor, server) = match call.executor {
            intent::Executor::Client => (Executor::Client, None),
            intent::Executor::Provider => (Executor::Provider, None),
            intent::Executor::ProviderMcp { server } => (Executor::ProviderMcp, Some(server.to_owned())),
        };
        Self {
            id: call.id.map(str::to_owned),
            name: call.name.into(),
            namespace: call.namespace.map(Box::from),
            executor,
            server,
            arguments: match arguments {
                Arguments::Json(json) => Some((*json).to_owned()),
                Arguments::Text(text) => serde_json::to_string(text).ok(),
                Arguments::TooLong(_) | Arguments::Unread => None,
            },
        }
    }
}

/// Bounds of one answer: what its calls need, and less than a body may have.
fn limits() -> IntentLimits {
    IntentLimits { value_bytes: 8 << 20, ..IntentLimits::default() }
}

impl Evaluator {
    /// Takes a part of what goes between a client and the API of a model.
    pub(in crate::engine) fn model(&mut self, cx: &mut Context<'_>, traffic: ModelTraffic<'_>) {
        let ModelTraffic { stream, exchange, time, part } = traffic;
        let key = (stream, exchange);
        match part {
            ModelPart::Request(request) => {
                cx.reporter.counters.model_requests += 1;
                let session = cx.connections.session_of_client(&request.client);
                self.intents.begin(
                    key,
                    *request,
                    session,
                    time,
                    &mut cx.reporter.counters.model_answers_dropped,
                );
            }
            ModelPart::Answer { request_id, bytes } => {
                let Some(reading) = self.intents.answers.get_mut(&key) else { return };
                if let Some(id) = request_id.filter(|_| reading.intent.request_id.is_none()) {
                    reading.intent.request_id = Some(id.to_owned());
                }
                let wanted = reading.read(|answer, sink| answer.push(bytes, sink));
                self.wanted(cx, key, time, wanted);
                if self.intents.is_too_much(key) {
                    self.intents.answers.remove(&key);
                    cx.reporter.counters.model_answers_dropped += 1;
                }
            }
            ModelPart::End { is_whole } => {
                let Some(reading) = self.intents.answers.get_mut(&key) else { return };
                let wanted = reading.read(|answer, sink| answer.end(sink));
                let is_answer = reading.answer.dialect().is_some();
                cx.reporter.counters.model_answers += u64::from(is_answer);
                cx.reporter.counters.model_answers_broken += u64::from(is_answer && !is_whole);
                self.wanted(cx, key, time, wanted);
                self.intents.answers.remove(&key);
            }
        }
    }

    /// Reports what a model wants to be called, and remembers what it wants of the client.
    fn wanted(&mut self, cx: &mut Context<'_>, key: (ConnectionId, u64), time: Timestamp, all: Vec<Wanted>) {
        let Some(reading) = self.intents.answers.get(&key).filter(|_| !all.is_empty()) else { return };
        let (session, intent) = (reading.session.clone(), reading.intent.clone());
        let client = (reading.request.client.pid, reading.request.client.uid);
        let (remote_addr, remote_name) = (reading.request.address.to_string(), reading.request.host.clone());
        for wanted in all {
            cx.reporter.counters.intents += 1;
            let intent = ModelIntent { tool_call_id: wanted.id.clone(), ..intent.clone() };
            let found = match wanted.executor {
                Executor::Client => self.tool_of(cx, &session, wanted.namespace.as_deref(), &wanted.name),
                Executor::Provider | Executor::ProviderMcp => Mapping::Unknown,
            };
            let (tool, candidates, name_match) = match found {
                Mapping::One(tool, certainty) => (Some(tool), None, Some(certainty)),
                Mapping::Several(tools, certainty) => (None, Some(tools.len() as u64), Some(certainty)),
                Mapping::Unknown => (None, None, None),
            };
            let connection = tool.as_ref().and_then(|(id, _)| cx.connections.get(*id));
            let known = tool.as_ref().and_then(|(_, name)| connection?.tool(name));
            let server: Option<ServerId> = connection.map(|connection| connection.server_id());
            let (hash, kind) = (known.map(|known| Arc::clone(&known.hash)), connection.map(|one| one.kind()));
            let (arguments, server_of) = (wanted.arguments.as_deref(), server.clone());
            let body = ToolCallIntercepted {
                intent: intent.clone(),
                tool_name: Arc::clone(&wanted.name),
                tool_id: server.as_ref().zip(tool.as_ref()).map(|(server, (_, tool))| tool_id(server, tool)),
                tool_hash: hash,
                name_match: name_match.map(certainty),
                candidates,
                executor: wanted.executor,
                provider_server: wanted.server,
                input: arguments.map_or_else(Json::default, |json| cx.reporter.recorder.payload(json)),
                remote_addr: remote_addr.clone(),
                remote_name: remote_name.clone(),
                pid: client.0,
            };
            cx.reporter.emit(Event {
                session_id: Some(session.clone()),
                server_id: server,
                server_type: kind,
                owner: client.1,
                ..Event::agent(time, body.into())
            });
            if wanted.executor == Executor::Client {
                let digest = arguments.map(bare_digest);
                let (namespace, name) = (wanted.namespace, wanted.name);
                let tool = server_of.zip(tool.map(|(_, name)| name));
                let intent = Intent { time, intent, namespace, name, tool, digest };
                self.intents.remember(&session, client.1, intent);
            }
        }
    }

    /// The intent behind a call of a tool, which is no other call's from then on: that with the same arguments, or else the oldest.
    pub(super) fn intent_of(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        (tool, arguments): (&str, Option<&str>),
        time: Timestamp,
    ) -> Option<Box<CallIntent>> {
        let recent = &mut self.intents.recent.get_mut(&scope.session)?.intents;
        recent.retain(|intent| time < intent.time.after(REMEMBERED));
        // Most intents are known to be of a tool.
        let names = LazyCell::new(|| {
            let mut names = ToolNames::new();
            let connection = cx.connections.get(scope.connection);
            let also = connection.map_or(&[][..], |connection| connection.ids());
            names.add(std::iter::once(&scope.server).chain(also).map(|id| &*id.0), tool, ());
            names
        });
        let means = |intent: &Intent| match &intent.tool {
            Some((server, name)) => *server == scope.server && **name == *tool,
            None => !matches!(names.find(intent.namespace.as_deref(), &intent.name), Mapping::Unknown),
        };
        let all: Vec<usize> =
            recent.iter().enumerate().filter(|(_, one)| means(one)).map(|(at, _)| at).collect();
        if all.is_empty() {
            return None;
        }
        let digest = bare_digest(arguments.unwrap_or("{}"));
        let same = |at: &&usize| recent.get(**at).is_some_and(|intent| intent.digest == Some(digest));
        let at = all.iter().find(same).or(all.first()).copied()?;
        let Intent { intent, digest: wanted, .. } = recent.remove(at)?;
        cx.reporter.counters.intents_called += 1;
        Some(Box::new(CallIntent { intent, other_arguments: wanted.is_some_and(|wanted| wanted != digest) }))
    }

    /// The tool of a session's servers that a name means.
    fn tool_of(
        &self,
        cx: &Context<'_>,
        session: &SessionId,
        namespace: Option<&str>,
        name: &str,
    ) -> Mapping<(ConnectionId, Arc<str>)> {
        let mut names = ToolNames::new();
        let (whole, is_long) = (letters(name), name.len() >= LONG_NAME);
        let mut left = MOST_TOOLS;
        for connection in cx.connections.servers() {
            if cx.connections.session(connection) != *session {
                continue;
            }
            let server = connection.server_id();
            let tools = self.registry.tools(connection.id).map(|(tool, _)| tool);
            for tool in tools.filter(|tool| is_long || whole.contains(&letters(tool))).take(left) {
                let called = std::iter::once(&server).chain(connection.ids()).map(|id| &*id.0);
                names.add(called, tool, (connection.id, tool.into()));
                left -= 1;
            }
        }
        names.find(namespace, name)
    }
}

impl Reading {
    /// Reads on: the calls whose arguments are whole by now.
    fn read(&mut self, work: impl FnOnce(&mut Answer, &mut dyn FnMut(AnswerOutput<'_>))) -> Vec<Wanted> {
        let Self { answer, intent, held, .. } = self;
        let mut wanted = Vec::new();
        work(answer, &mut |output| match output {
            AnswerOutput::Begun { dialect, id, model } => {
                intent.dialect = dialect.as_str().to_owned();
                intent.model = model.map(str::to_owned).or(intent.model.take());
                intent.request_id = intent.request_id.take().or(id.map(str::to_owned));
            }
            AnswerOutput::Called { call, arguments } => wanted.push(Wanted::of(&call, &arguments)),
            _ => {}
        });
        *held = answer.held();
        wanted
    }
}

impl Intents {
    fn begin(
        &mut self,
        key: (ConnectionId, u64),
        request: ModelRequest,
        session: SessionId,
        begun: Timestamp,
        dropped: &mut u64,
    ) {
        let user = request.client.uid;
        let is_users = |reading: &Reading| reading.request.client.uid == user;
        let is_much = self.answers.values().filter(|reading| is_users(reading)).count() >= MOST_OF_USER;
        if is_much || self.answers.len() >= MOST_ANSWERS {
            // The oldest: its end was not seen, mostly.
            let all = self.answers.iter().filter(|(_, reading)| !is_much || is_users(reading));
            let oldest = all.min_by_key(|(_, reading)| reading.begun).map(|(key, _)| *key);
            *dropped += u64::from(oldest.is_some_and(|oldest| self.answers.remove(&oldest).is_some()));
        }
        let model = request.model.clone();
        let intent = ModelIntent { dialect: String::new(), model, request_id: None, tool_call_id: None };
        let answer = Answer::new(limits());
        self.answers.insert(key, Reading { answer, request, session, intent, begun, held: 0 });
    }

    /// Whether more is held than may be, with what an answer holds.
    fn is_too_much(&self, key: (ConnectionId, u64)) -> bool {
        let Some(this) = self.answers.get(&key).filter(|reading| reading.held > 0) else { return false };
        let user = this.request.client.uid;
        let held = |reading: &Reading| reading.held;
        let of_user = self.answers.values().filter(|reading| reading.request.client.uid == user);
        self.answers.values().map(held).sum::<usize>() > MOST_HELD
            || of_user.map(held).sum::<usize>() > MOST_HELD_OF_USER
    }

    fn remember(&mut self, session: &SessionId, user: Option<u32>, intent: Intent) {
        if !self.recent.contains_key(session) {
            let is_much = self.recent.values().filter(|recent| recent.user == user).count() >= MOST_OF_USER;
            if is_much || self.recent.len() >= MOST_SESSIONS {
                let last = |recent: &Recent| recent.intents.back().map(|intent| intent.time);
                let all = self.recent.iter().filter(|(_, recent)| !is_much || recent.user == user);
                let oldest = all.min_by_key(|(_, recent)| last(recent)).map(|(id, _)| id.clone());
                oldest.map(|oldest| self.recent.remove(&oldest));
            }
        }
        let recent = self.recent.entry(session.clone()).or_default();
        recent.user = user;
        if recent.intents.len() >= MOST_INTENTS {
            recent.intents.pop_front();
        }
        recent.intents.push_back(intent);
    }
}

/// The letters and digits of a name, small.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

fn certainty(certainty: Certainty) -> ToolNameMatch {
    match certainty {
        Certainty::Exact => ToolNameMatch::Exact,
        Certainty::Normalized => ToolNameMatch::Normalized,
        Certainty::ToolOnly => ToolNameMatch::ToolOnly,
        Certainty::Truncated => ToolNameMatch::Truncated,
    }
}
