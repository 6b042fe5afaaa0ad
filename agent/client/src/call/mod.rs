//! One declared server, for a person who calls a tool of it: opened, asked for its tools, called, left. Between these steps the
//! caller judges what was said.
//!
//! | module | job |
//! |---|---|
//! | `route` | how a declaration is followed to its server |
//! | `task` | calls that a server answers with a task |

mod route;
mod task;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, anyhow};
use mcpwarden_policy::config::Period;
use mcpwarden_policy::event::ServerType;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest, CustomRequest,
    RequestId, RequestMetaObject,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Map, Value, json};

use crate::address::{Greeted, greet_http};
use crate::inspect::session::{Interrupted, Terms, TimedOut, until, within};
use crate::lists::{Service, either_way, greet, is_refusal, leave, tools};
use crate::{Failure, Frame, Listed, Opening, Tap};

use crate::inspect::program::{Program, STOPPED, Show};
pub use crate::listing::credentials::conceal;
pub use route::{Access, Route};
pub use task::{is_task, wants_task};

/// All that a server may send. Bytes.
const MAX_BYTES: usize = 32 << 20;
/// How long a server has to take note that a call is given up.
const FAREWELL: Duration = Duration::from_millis(500);

/// A call was not answered in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the server did not answer the call within {0}; give it longer with --timeout")]
pub struct CallTimedOut(pub Period);

/// The gate of a running agent stopped what was sent.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{STOPPED}")]
pub struct Stopped;

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments; `None`: the request has none.
    pub arguments: Option<Map<String, Value>>,
    /// What `_meta` of the request has beside what the revision of the protocol wants.
    pub meta: Map<String, Value>,
    /// How long the server is asked to keep the task that it makes of the call; `None`: it is asked for none.
    pub task: Option<Duration>,
}

impl ToolCall {
    /// `params` of the request, without `_meta`.
    pub fn params(&self) -> Value {
        let mut params = json!({ "name": self.name });
        if let Some(arguments) = &self.arguments {
            params["arguments"] = Value::Object(arguments.clone());
        }
        if let Some(ttl) = self.task {
            params["task"] = json!({ "ttl": u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX) });
        }
        params
    }
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A result: its JSON text, as it was sent.
    Result(String),
    /// An error of JSON-RPC.
    Error {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
        /// What it has besides.
        data: Option<Value>,
    },
}

impl Answer {
    /// The message that brought it, as the answer to the request with this id.
    pub fn frame(&self, id: &str) -> String {
        let id = json!(id);
        match self {
            Self::Result(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
            Self::Error { code, message, data } => {
                let mut error = json!({ "code": code, "message": message });
                if let Some(data) = data {
                    error["data"] = data.clone();
                }
                json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
            }
        }
    }
}

/// A conversation with a server.
pub struct Conversation {
    service: Service,
    tap: Tap,
    program: Option<Program>,
    kind: ServerType,
    peer: Option<SocketAddr>,
    /// Until when it may list.
    end: Instant,
}

impl Conversation {
    /// Starts or reaches a server, and greets it. `name`: what the server is called, before its lines on standard error.
    ///
    /// # Errors
    /// It cannot be reached, is no MCP server, took too long ([`TimedOut`]), or this was interrupted ([`Interrupted`]).
    pub async fn open(name: &str, route: &Route, terms: &Terms<'_>) -> Result<Self> {
        // One that does not answer the first leaves time for the second.
        let (patience, end) = (terms.timeout / 2, Instant::now() + terms.timeout);
        either_way(patience, async |opening| {
            let outcome = attempt(name, route, terms, (opening, end)).await;
            let is_over =
                |error: &Error| error.is::<Interrupted>() || error.is::<TimedOut>() || error.is::<Stopped>();
            if outcome.as_ref().is_err_and(is_over) {
                opening.decide();
            }
            outcome
        })
        .await
    }

    /// Process id of a server that was started.
    pub fn pid(&self) -> Option<u32> {
        self.program.as_ref().map(Program::pid)
    }

    /// The address that answered, of a server that was reached.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// What is spoken.
    pub fn kind(&self) -> ServerType {
        self.kind
    }

    /// What was said since this was asked last, in order.
    pub fn frames(&self) -> Vec<Frame> {
        self.tap.conversation()
    }

    /// All tools that the server lists, over all pages.
    ///
    /// # Errors
    /// It does not list them in time ([`TimedOut`]), or not as it should.
    pub async fn tools(&self, terms: &Terms<'_>) -> Result<Listed> {
        (terms.progress)("is asked for its tools");
        let listed = within(terms, self.end, tools(&self.service, &self.tap)).await;
        listed.map_err(stopped)
    }

    /// Calls a tool, and waits so long for what becomes of the call; of a task, until it has ended.
    ///
    /// # Errors
    /// There is no answer in time ([`CallTimedOut`]), or at all; the gate of a running agent stopped the call ([`Stopped`]);
    /// or this was interrupted.
    pub async fn call(&self, call: &ToolCall, timeout: Duration, terms: &Terms<'_>) -> Result<Answer> {
        (terms.progress)("is called");
        let end = Instant::now() + timeout;
        let answer = async {
            let meta = RequestMetaObject(rmcp::model::MetaObject(call.meta.clone()));
            let answer = self.request("tools/call", call.params(), meta, (end, terms)).await?;
            task::finish(self, answer, (end, terms)).await
        };
        answer.await.map_err(|error: Error| match error.is::<TimedOut>() {
            true => CallTimedOut(Period(timeout)).into(),
            false => stopped(error),
        })
    }

    /// Sends a request, and waits for its answer. One that is given up is cancelled.
    async fn request(
        &self,
        method: &str,
        params: Value,
        meta: RequestMetaObject,
        (end, terms): (Instant, &Terms<'_>),
    ) -> Result<Answer> {
        let peer = self.service.peer();
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let over = || Error::from(TimedOut(Period(terms.timeout)));
        let sent =
            async { peer.send_cancellable_request(request, options).await.map_err(|error| self.lost(error)) };
        let sent = until(terms.interruption, end, sent).await?.ok_or_else(over)?;
        let id = sent.id.clone();
        let answer = until(terms.interruption, end, async { Ok(sent.await_response().await) }).await;
        if !matches!(answer, Ok(Some(_))) {
            self.give_up(id.clone()).await;
        }
        match answer?.ok_or_else(over)? {
            Ok(_) => {
                let result = self.tap.result(&id.to_string());
                Ok(Answer::Result(result.with_context(|| format!("the answer to {method} has no result"))?))
            }
            Err(ServiceError::McpError(error)) => Ok(Answer::Error {
                code: error.code.0.into(),
                message: error.message.into_owned(),
                data: error.data,
            }),
            Err(error) => Err(self.lost(error)),
        }
    }

    /// Why there is no answer. The tap knows best.
    fn lost(&self, error: ServiceError) -> Error {
        match (self.tap.failure(), error) {
            (Some(failure), _) => failure.into(),
            (None, ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                anyhow!("the server closed the connection before it answered")
            }
            (None, error) => error.into(),
        }
    }

    /// Tells the server that an answer is not waited for any more.
    async fn give_up(&self, id: RequestId) {
        let params =
            CancelledNotificationParam::new(Some(id), Some("nobody waits for the answer".to_owned()));
        let notification = ClientNotification::CancelledNotification(CancelledNotification::new(params));
        let _ = tokio::time::timeout(FAREWELL, self.service.peer().send_notification(notification)).await;
    }

    /// Ends the conversation, and the server if it was started. What became of that, if there is something to say.
    pub async fn close(mut self) -> String {
        leave(&mut self.service).await;
        match self.program {
            Some(program) => program.end().await,
            None => String::new(),
        }
    }
}

/// An error, by its kind where the gate stopped what was sent.
fn stopped(error: Error) -> Error {
    let is_stopped = |failure: &Failure| failure.why == STOPPED;
    if error.downcast_ref().is_some_and(is_stopped) { Stopped.into() } else { error }
}

async fn attempt(
    name: &str,
    route: &Route,
    terms: &Terms<'_>,
    (opening, end): (&Opening, Instant),
) -> Result<Conversation> {
    let tap = || Tap::calling(MAX_BYTES);
    match route {
        Route::Program(launch) => {
            (terms.progress)("is being started");
            let tap = tap();
            let prefix = format!("{}: ", mcpwarden_text::clean(name));
            let show =
                terms.show.map(|show| -> Show { Box::new(move |line| show(&format!("{prefix}{line}"))) });
            let (program, pipes) = Program::start(launch, terms.environment, show, tap.clone())?;
            match within(terms, end, greet(pipes, opening, &tap, terms.progress)).await {
                Ok(service) => {
                    let (kind, program) = (ServerType::Stdio, Some(program));
                    Ok(Conversation { service, tap, program, kind, peer: None, end })
                }
                Err(error) => {
                    (terms.progress)("is being ended");
                    let (error, fate) = (stopped(error), program.end().await);
                    // These are acted upon.
                    let is_acted_upon = error.is::<Interrupted>()
                        || error.is::<TimedOut>()
                        || error.is::<Stopped>()
                        || is_refusal(&error);
                    Err(if is_acted_upon || fate.is_empty() { error } else { anyhow!("{error:#}; {fate}") })
                }
            }
        }
        Route::Address { url, access } => {
            (terms.progress)("is being reached");
            let greeting = greet_http(url, access.settings(), tap, opening, terms.progress);
            let outcome = within(terms, end, greeting).await;
            access.check()?;
            let Greeted { service, kind, peer, tap } = outcome.map_err(|error| access.conceal(error))?;
            Ok(Conversation { service, tap, program: None, kind, peer, end })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_what_was_given_alone() {
        let call = ToolCall { name: "add".into(), arguments: None, meta: Map::new(), task: None };
        let arguments = json!({ "a": 1 }).as_object().cloned();
        for (call, expected) in [
            (call.clone(), json!({ "name": "add" })),
            (
                ToolCall { arguments: arguments.clone(), ..call.clone() },
                json!({ "name": "add", "arguments": { "a": 1 } }),
            ),
            (
                ToolCall { arguments, task: Some(Duration::from_secs(2)), ..call },
                json!({ "name": "add", "arguments": { "a": 1 }, "task": { "ttl": 2000 } }),
            ),
        ] {
            assert_eq!(call.params(), expected);
        }
    }

    #[test]
    fn what_the_gate_stops_is_told_from_other_failures() {
        let failure = |why: &str| Error::from(Failure { why: why.to_owned(), status: None });
        for (error, expected) in
            [(failure(STOPPED), true), (failure("it sent too much"), false), (anyhow!("other"), false)]
        {
            let text = error.to_string();
            assert_eq!(stopped(error).is::<Stopped>(), expected, "{text}");
        }
    }

    #[test]
    fn answer_is_framed_as_it_was_sent() {
        let error = |data| Answer::Error { code: -32602, message: "m".into(), data };
        for (answer, expected) in [
            (
                Answer::Result(r#"{"b":1,"a":2}"#.into()),
                r#"{"jsonrpc":"2.0","id":"x","result":{"b":1,"a":2}}"#,
            ),
            (error(None), r#"{"error":{"code":-32602,"message":"m"},"id":"x","jsonrpc":"2.0"}"#),
            (
                error(Some(json!(1))),
                r#"{"error":{"code":-32602,"data":1,"message":"m"},"id":"x","jsonrpc":"2.0"}"#,
            ),
        ] {
            let frame = answer.frame("x");
            let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(parse(&frame), parse(expected));
            assert_eq!(frame.contains(r#"{"b":1,"a":2}"#), matches!(answer, Answer::Result(_)));
        }
    }
}
