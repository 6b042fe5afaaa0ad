//! `mcpwarden call`: one call of a tool of a declared server, made by hand. The policy judges the call before it is made, and its
//! result before it is printed; unlike the agent, which watches other clients, this waits for every guard.
//!
//! | module | job |
//! |---|---|
//! | `target` | which tool of which server |
//! | `arguments` | the arguments, and whether they fit |
//! | `standing` | pins, decisions and blocks that stand already |
//! | `policy` | the policy core, for this one conversation |
//! | `decision` | what it reported of the tool, the call and the answer |
//! | `trace` | the id that events of both ends have |
//! | `report`, `pending`, `content` | what is printed |

mod arguments;
mod content;
mod decision;
mod pending;
mod policy;
mod report;
mod standing;
mod target;
mod trace;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mcpwarden_client::call::{Access, Answer, Conversation, Route, ToolCall, wants_task};
use mcpwarden_client::inspect::{
    session::{self, Interrupted, Terms},
    user::{self, Environment},
};
use mcpwarden_client::{Frame, Listed};
use mcpwarden_policy::config::Server;
use mcpwarden_policy::event::ServerType;
use mcpwarden_policy::guard::GuardKind;
use mcpwarden_policy::guards::{CallBlock, denied_servers};
use mcpwarden_policy::protocol::members;
use mcpwarden_policy::{Direction, ServerId};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::inspect::progress;
use crate::cli::CallOptions;
use crate::config::{self, Config};
use crate::external::Secrets;
use crate::output::{FAILED, clean, escaped, one_line, print_error};
use decision::{Decision, Descriptor};
use policy::Policy;
use report::{Outcome, Report};
use trace::Trace;

/// The id of the call, as the policy core sees it.
const ID: &str = "mcpwarden-call";
/// How long a server may take to start and to list, where nobody says otherwise.
const OPENING: Duration = Duration::from_secs(30);

/// Calls a tool. Exit status 0: it has a result; 1: an error is its result; 2: anything else failed; 3: the call or its result is
/// denied; 4: the server took too long; 128 and the number of a signal that came.
pub fn run(options: &CallOptions) -> ExitCode {
    let outcome = prepare(options).and_then(Prepared::call);
    progress::status("");
    match outcome {
        Ok(report) => {
            report.print(options.json);
            ExitCode::from(report.outcome.status())
        }
        Err(error) => {
            if let Some(Interrupted(status)) = error.downcast_ref() {
                return ExitCode::from(*status);
            }
            print_error(format!("mcpwarden: {}", one_line(&format!("{error:#}"))));
            ExitCode::from(FAILED)
        }
    }
}

/// All that is needed for a call, read with the rights that this process began with.
struct Prepared<'a> {
    options: &'a CallOptions,
    server: Server,
    tool: String,
    arguments: Option<Map<String, Value>>,
    policy: Policy,
    knows_pins: bool,
    access: Access,
    /// Why the server may not be used at all.
    denied: Option<Decision>,
}

fn prepare(options: &CallOptions) -> Result<Prepared<'_>> {
    let source = config::read_quietly(&options.config)?;
    let config = &source.config;
    let (server, tool) = target::parse(&options.tool, &config.servers)?;
    let (server, tool) = (server.clone(), tool.to_owned());
    let profile = options.profile.as_deref().map(|name| config::profile(config, name)).transpose()?;
    let arguments = options.arguments.as_deref().map(arguments::read).transpose()?;
    let id = ServerId(server.id.as_str().into());
    let note = |what: &str, why: &str| {
        print_error(format!("mcpwarden: warning: {what}: {}", escaped(why)));
    };
    let pins = standing::pins(&options.database.path, &id);
    let pins = pins.inspect_err(|why| note("the pins and approvals of the agent are not known", why)).ok();
    let knows_pins = pins.is_some();
    let blocks = standing::blocks(&options.agent.socket, &id);
    let blocks =
        blocks.inspect_err(|why| note("what the running agent blocks is not known", why)).unwrap_or_default();
    let denied = server_denial(config, &server, &blocks)?;
    let externals = config::externals(&source, None, Secrets::Now)?;
    let policy = Policy::new(&source, &server.id, profile, externals, pins.unwrap_or_default(), blocks)?;
    let access = Access::of(&server).with_context(|| clean(&server.id))?;
    Ok(Prepared { options, server, tool, arguments, policy, knows_pins, access, denied })
}

/// Why a server may not be used at all, so that it is not even started or reached.
fn server_denial(config: &Config, server: &Server, blocks: &[CallBlock]) -> Result<Option<Decision>> {
    let denied = |code: &str, reason: String| Some(decision::denied(GuardKind::ServerAccess, code, reason));
    if !server.enabled {
        let reason = format!("server '{}' is declared with enabled: false", server.id);
        return Ok(denied("server_disabled", reason));
    }
    if let Some(reason) = denied_servers(config)?.remove(&ServerId(server.id.as_str().into())) {
        return Ok(denied("server_denied", reason));
    }
    let blocked = blocks.first().map(|block| {
        let why = block.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
        decision::denied(
            GuardKind::ServerAccess,
            "server_blocked",
            format!("server '{}' is blocked by hand{why}", server.id),
        )
    });
    Ok(blocked)
}

impl Prepared<'_> {
    /// Opens the conversation, judges, and calls.
    fn call(self) -> Result<Report> {
        let trace = Trace::random()?;
        let mut report = Report::new(&self.server.id, &self.tool, &trace.id, self.options.dry_run);
        if let Some(denied) = &self.denied {
            report.decision = denied.clone();
            return Ok(report);
        }
        let is_program = self.server.kind == ServerType::Stdio;
        let environment = user::become_caller("call", is_program, self.options.as_root)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        let outcome = runtime.block_on(self.converse(&environment, &trace, &mut report));
        // A name that is still being looked up is nobody's concern now.
        runtime.shutdown_background();
        match outcome {
            Ok(()) => {}
            Err(error) => report.failed(error)?,
        }
        Ok(report)
    }

    async fn converse(self, environment: &Environment, trace: &Trace, report: &mut Report) -> Result<()> {
        let Self { options, server, tool, arguments, mut policy, knows_pins, access, .. } = self;
        let route = Route::of(&server, access, environment).with_context(|| clean(&server.id))?;
        let interruption = session::interruption().context("cannot receive signals")?;
        let shown = clean(&server.id);
        let progress = |what: &str| progress::status(&format!("{shown} {what} …"));
        let terms = Terms {
            environment,
            timeout: options.timeout.map_or(OPENING, |timeout| timeout.0),
            show: (!options.quiet).then_some(progress::line),
            authorities: &[],
            interruption: &interruption,
            progress: &progress,
        };
        let conversation =
            Conversation::open(&server.id, &route, &terms).await.with_context(|| shown.clone())?;
        let mut making =
            Making { options, server: &server, tool: &tool, route: &route, terms: &terms, knows_pins };
        let outcome = making.judge_and_call(&conversation, &mut policy, arguments, trace, report).await;
        progress("is being ended");
        let fate = conversation.close().await;
        outcome.map_err(|error| {
            let is_known = error.is::<Interrupted>() || report::is_outcome(&error);
            match is_known || fate.is_empty() {
                true => error.context(shown.clone()),
                false => anyhow::anyhow!("{shown}: {error:#}; {fate}"),
            }
        })
    }
}

/// A call in the making.
struct Making<'a> {
    options: &'a CallOptions,
    server: &'a Server,
    tool: &'a str,
    route: &'a Route,
    terms: &'a Terms<'a>,
    knows_pins: bool,
}

impl Making<'_> {
    async fn judge_and_call(
        &mut self,
        conversation: &Conversation,
        policy: &mut Policy,
        arguments: Option<Map<String, Value>>,
        trace: &Trace,
        report: &mut Report,
    ) -> Result<()> {
        let listed = conversation.tools(self.terms).await?;
        let definition = self.find(&listed)?;
        let conceal = |frame: Frame| Frame { json: self.route.concealed(frame.json), ..frame };
        let frames: Vec<Frame> = conversation.frames().into_iter().map(conceal).collect();
        let requests = frames.iter().filter(|frame| frame.direction == Direction::ClientToServer);
        let meta = requests.rev().find_map(|frame| meta_of(&frame.json)).unwrap_or_default();
        let events = policy.heard(self.server, conversation, &frames).await;
        let raw =
            RawValue::from_string(definition.clone()).context("the definition of the tool is no JSON")?;
        report.tool = Some(Descriptor::of(&events, self.tool, raw, self.knows_pins));
        if let Some(denied) = policy.other_program(self.server, &events)? {
            report.decision = denied;
            return Ok(());
        }
        for misfit in arguments::misfits(&definition, arguments.as_ref().unwrap_or(&Map::new())) {
            print_error(format!("mcpwarden: warning: {misfit}"));
        }
        let timeout = self.timeout();
        let call = ToolCall {
            name: self.tool.to_owned(),
            arguments,
            meta: Map::from_iter([("traceparent".to_owned(), json!(trace.parent()))]),
            task: wants_task(&definition).then_some(timeout),
        };
        let events = policy.call(&request(&call, meta)).await;
        report.decision = decision::of_call(&events, &json!(ID))
            .context("the policy did not judge the call, so that it is not made")?;
        if report.decision.is_denial() {
            return Ok(());
        }
        if self.options.dry_run {
            report.outcome = Outcome::Allowed;
            return Ok(());
        }
        match conversation.call(&call, timeout, self.terms).await {
            Ok(answer) => {
                let answer = self.concealed(answer);
                let events = policy.answer(&answer.frame(ID)).await;
                report.answered(answer, decision::of_answer(&events, &json!(ID)));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The definition of the tool.
    fn find(&self, listed: &Listed) -> Result<String> {
        listed.incomplete.iter().for_each(|why| print_error(format!("mcpwarden: warning: {}", escaped(why))));
        let found = listed.definitions.iter().find(|definition| definition.name == self.tool);
        if let Some(found) = found {
            return Ok(self.route.concealed(found.json.clone()));
        }
        if listed.definitions.is_empty() {
            anyhow::bail!("there is no tool `{}`: the server lists none", clean(self.tool));
        }
        let names = listed.definitions.iter().map(|definition| definition.name.as_str());
        Err(target::unknown("there is no tool", self.tool, "the server lists", names))
    }

    /// How long the server has to answer.
    fn timeout(&self) -> Duration {
        let declared = Duration::from_millis(self.server.timeout_ms.into());
        self.options.timeout.map_or(declared, |timeout| timeout.0)
    }

    /// An answer without what the server was shown to let this in.
    fn concealed(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Result(result) => Answer::Result(self.route.concealed(result)),
            Answer::Error { code, message, data } => {
                let data = data.map(|data| self.route.concealed(data.to_string()));
                let data = data.map(|data| serde_json::from_str(&data).unwrap_or(Value::String(data)));
                Answer::Error { code, message: self.route.concealed(message), data }
            }
        }
    }
}

/// `_meta` of a request that was sent, without what is of that request alone.
fn meta_of(request: &str) -> Option<Map<String, Value>> {
    let [params] = members(request, ["params"]);
    let [meta] = members(params?.get(), ["_meta"]);
    let mut meta: Map<String, Value> = serde_json::from_str(meta?.get()).ok()?;
    meta.remove("progressToken");
    Some(meta)
}

/// The request that a call is made with, as the policy core sees it. `meta`: what the revision of the protocol wants.
fn request(call: &ToolCall, mut meta: Map<String, Value>) -> String {
    meta.extend(call.meta.clone());
    let mut params = call.params();
    params["_meta"] = Value::Object(meta);
    json!({ "jsonrpc": "2.0", "id": ID, "method": "tools/call", "params": params }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Config {
        mcpwarden_policy::config::parse(yaml.as_bytes()).unwrap().0
    }

    #[test]
    fn unusable_server_is_not_even_started() {
        let block = || CallBlock {
            callee: mcpwarden_policy::guards::Callee::Server(ServerId("a".into())),
            until: None,
            reason: Some("odd".into()),
        };
        for (more, blocks, expected) in [
            ("", vec![], None),
            (", enabled: false", vec![], Some(("server_disabled", "enabled: false"))),
            ("", vec![block()], Some(("server_blocked", "by hand: odd"))),
        ] {
            let config = parse(&format!("servers: [{{ id: a, command: x{more} }}]"));
            let denied = server_denial(&config, &config.servers[0], &blocks).unwrap();
            assert_denied(denied, expected);
        }
        let config = parse("servers: [{ id: a, command: x }]\npolicy: { denied_servers: [a] }");
        assert_denied(server_denial(&config, &config.servers[0], &[]).unwrap(), Some(("server_denied", "a")));
    }

    fn assert_denied(denied: Option<Decision>, expected: Option<(&str, &str)>) {
        let found = denied.as_ref().map(|denied| (denied.decided.code.as_deref(), denied.denial()));
        match (found, expected) {
            (None, None) => {}
            (Some((code, text)), Some((expected, part))) => {
                assert_eq!(code, Some(expected));
                assert!(text.contains(part), "{text}");
            }
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn judged_request_has_the_meta_of_the_revision() {
        let sent = r#"{"id":1,"method":"tools/list","params":{"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let meta = meta_of(sent).unwrap();
        let call = ToolCall {
            name: "add".into(),
            arguments: None,
            meta: Map::from_iter([("traceparent".to_owned(), json!("00-a-b-01"))]),
            task: None,
        };
        let request: Value = serde_json::from_str(&request(&call, meta)).unwrap();
        let expected =
            json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "traceparent": "00-a-b-01" });
        assert_eq!(request["params"]["_meta"], expected);
        assert_eq!(meta_of(r#"{"id":1,"method":"tools/list"}"#), None);
    }
}
