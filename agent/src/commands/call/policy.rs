//! The policy core, for one conversation of this process: what was said goes in, and before anything follows from it, guards that
//! others wrote have answered.

use anyhow::{Context as _, Result, ensure};
use futures_util::future::join_all;
use mcpwarden_client::Frame;
use mcpwarden_client::call::Conversation;
use mcpwarden_policy::config::Server;
use mcpwarden_policy::event::{Event, EventBody, Identity, ServerType};
use mcpwarden_policy::guard::GuardKind;
use mcpwarden_policy::guards::CallBlock;
use mcpwarden_policy::registry::MemoryStore;
use mcpwarden_policy::{
    ConnectionId, Direction, Engine, Exec, GuardQuestion, Input, OperatorCommand, Output, Process, Reached,
    ServerId, SessionId,
};

use super::decision::{self, Decision};
use crate::config::{self, Source};
use crate::external::{Answered, External, Externals};
use crate::host::{clock::Clock, files, process};

/// The one connection that there is.
const CONNECTION: ConnectionId = ConnectionId(1);
/// Most programs of a server that are looked at.
const MAX_PROGRAMS: usize = 16;

/// The core, with what it needs.
pub struct Policy {
    engine: Engine,
    externals: Externals,
    clock: Clock,
    outputs: Vec<Output>,
}

impl Policy {
    /// By a configuration, for a declared server, as a client of this entry of `sessions`.
    ///
    /// # Errors
    /// A rule or a guard cannot be made of it.
    pub fn new(
        source: &Source,
        server: &str,
        profile: Option<usize>,
        externals: Externals,
        pins: MemoryStore,
        blocks: Vec<CallBlock>,
    ) -> Result<Self> {
        let engine = config::engine_of_call(source, server, profile)?.with_store(Box::new(pins));
        let mut policy = Self { engine, externals, clock: Clock::new(), outputs: Vec::new() };
        policy.hand_in(Input::Operator(OperatorCommand::BlockCalls(blocks)));
        Ok(policy)
    }

    /// Hands in who speaks to whom, and what was said so far. What is reported of it.
    pub async fn heard(
        &mut self,
        server: &Server,
        conversation: &Conversation,
        frames: &[Frame],
    ) -> Vec<Event> {
        self.open(server, conversation);
        for Frame { direction, json } in frames {
            self.frame(*direction, json);
        }
        self.settle().await
    }

    /// The denial of a server that runs another program than the one that its declaration demands (`executable`), among what was
    /// reported of it.
    ///
    /// # Errors
    /// It counts as another server than the one that is meant, by whose rules nothing is judged.
    pub fn other_program(&self, server: &Server, events: &[Event]) -> Result<Option<Decision>> {
        let started = events.iter().find_map(|event| match &event.body {
            EventBody::ServerStarted(started) => Some((event.server_id.as_ref(), started)),
            _ => None,
        });
        let (id, started) =
            started.context("the policy does not recognise the server, so that nothing is called")?;
        ensure!(
            id.is_some_and(|id| *id.0 == *server.id),
            "the policy takes the server for another one, so that nothing is called"
        );
        if started.identity == Identity::Declared {
            return Ok(None);
        }
        let runs = started.executable.as_deref().unwrap_or("another program");
        let reason =
            format!("server '{}' runs {runs}, which is not the `executable` of its declaration", server.id);
        Ok(Some(decision::denied(GuardKind::ServerAccess, "server_undeclared", reason)))
    }

    /// Hands in the call that is to be made. What is reported of it, by when all guards have answered.
    pub async fn call(&mut self, frame: &str) -> Vec<Event> {
        self.frame(Direction::ClientToServer, frame);
        self.settle().await
    }

    /// Hands in the answer to it.
    pub async fn answer(&mut self, frame: &str) -> Vec<Event> {
        self.frame(Direction::ServerToClient, frame);
        self.settle().await
    }

    /// Who speaks to whom.
    fn open(&mut self, server: &Server, conversation: &Conversation) {
        let (id, time) = (ServerId(server.id.as_str().into()), self.clock.now());
        let client = process::this();
        if let (ServerType::Stdio, Some(pid)) = (conversation.kind(), conversation.pid()) {
            let session = SessionId("call".into());
            for mut process in programs(pid) {
                files::complete(&mut process, self.engine.declared());
                let (client, session) = (Some(client.clone()), Some(session.clone()));
                let exec = Exec { connection: CONNECTION, time, adopted: false, process, client, session };
                self.hand_in(Input::Exec(exec));
            }
            return self.hand_in(Input::Open { connection: CONNECTION, time, session, server: id });
        }
        let Some(address) = conversation.peer() else { return };
        let url = server.url.as_ref().and_then(|url| reqwest::Url::parse(url.as_str()).ok());
        self.hand_in(Input::Reached(Reached {
            connection: CONNECTION,
            time,
            client,
            address: address.into(),
            server: None,
            netns: None,
            host: None,
            path: url.map(|url| url.path().to_owned()).unwrap_or_default(),
            kind: conversation.kind(),
            declared: vec![id],
            adopted: false,
            read_in_client: false,
        }));
    }

    fn frame(&mut self, direction: Direction, json: &str) {
        let (time, bytes) = (self.clock.now(), json.as_bytes());
        self.hand_in(Input::Frame { connection: CONNECTION, direction, time, bytes, http: None, turn: None });
    }

    fn hand_in(&mut self, input: Input<'_>) {
        let now = self.clock.now();
        self.engine.handle_at_once(input, now, &mut self.outputs);
    }

    /// Has all questions answered, and those that follow from the answers. All that was reported meanwhile.
    async fn settle(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let mut questions = Vec::new();
            for output in self.outputs.drain(..) {
                match output {
                    Output::Event(event) => events.push(event),
                    Output::Ask(question) => questions.push(question),
                    _ => {}
                }
            }
            if questions.is_empty() {
                return events;
            }
            let asked = questions
                .iter()
                .filter_map(|question| self.externals.get(&question.guard).map(|guard| ask(guard, question)));
            for Answered { id, answer, .. } in join_all(asked).await {
                self.hand_in(Input::Answered { id: &id, answer: answer.as_ref() });
            }
        }
    }
}

async fn ask(guard: &External, question: &GuardQuestion) -> Answered {
    match guard {
        External::Component(component) => External::run(component, question, question.timeout),
        External::Service(service, _) => External::ask(service, question).await,
    }
}

/// The programs of a server that was started: its own process, and those below it which have its standard input and output, such
/// as what `npx` runs; the outermost first.
fn programs(pid: u32) -> Vec<Process> {
    let stream = |pid: u32, number: u32| std::fs::read_link(format!("/proc/{pid}/fd/{number}")).ok();
    let streams = |pid: u32| [0, 1].map(|number| stream(pid, number));
    let own = streams(pid);
    let parents = process::parents();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied().filter(|_| found.len() < MAX_PROGRAMS) {
        let children = parents.iter().filter(|(_, of)| **of == parent).map(|(child, _)| *child);
        found.extend(children.filter(|child| own[0].is_some() && streams(*child) == own));
        next += 1;
    }
    found.truncate(MAX_PROGRAMS);
    found.into_iter().map(process::of).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn programs_behind_a_launcher_are_found() {
        // The second shell has the first one's streams, what it starts besides has not.
        let mut child = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60 </dev/null >/dev/null & read x; kill $!' ; true"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let has_other_streams = |pid: u32| {
            let parents = process::parents();
            let mut children = parents.iter().filter(|(_, of)| **of == pid).map(|(child, _)| child);
            children.any(|child| {
                let stream = std::fs::read_link(format!("/proc/{child}/fd/0"));
                stream.is_ok_and(|path| path == std::path::Path::new("/dev/null"))
            })
        };
        let mut found = programs(child.id());
        while !found.get(1).is_some_and(|second| has_other_streams(second.pid))
            && std::time::Instant::now() < until
        {
            found = programs(child.id());
        }
        found = programs(child.id());
        assert_eq!(found.first().map(|process| process.pid), Some(child.id()));
        assert_eq!(found.len(), 2, "{found:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
