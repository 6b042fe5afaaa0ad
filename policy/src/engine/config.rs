//! What the engine is told at start, and what it counts.

use std::sync::Arc;
use std::time::Duration;

use crate::detect::{DetectConfig, Detector, RuleError, RuleSet};
use crate::discovery::{Declared, NamePatterns, Remote};
use crate::event::{Mute, Severity};
use crate::registry::RegistrySettings;
use crate::terms::ServerId;
use mcpwarden_terms::counters;

/// How much of arguments and results is put into events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payloads {
    /// Each leaf as type and length, and long texts as keyed hashes.
    #[default]
    Redacted,
    /// All of it.
    Full,
}

/// Bounds of everything that input can make grow. What is refused is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// Connections known at once, candidates included.
    pub connections: usize,
    /// Those of one user.
    pub connections_per_user: usize,
    /// Connections of servers that there is no room for, and that are known to be that.
    pub refused: usize,
    /// Servers that have ended and whose processes, where any live on, are still known as theirs.
    pub departed: usize,
    /// Bytes kept of all connections: what waits to be recognised, requests without an answer, answers without a
    /// request, programs, tools.
    pub bytes: usize,
    /// Those of one user's connections.
    pub bytes_per_user: usize,
    /// Programs remembered for one connection's chain.
    pub chain: usize,
    /// Frames of a candidate kept until it is known to be a server.
    pub candidate_frames: usize,
    /// Bytes of those.
    pub candidate_bytes: usize,
    /// Requests waiting for their answer, for each connection and direction.
    pub open_requests: usize,
    /// Answers waiting for their request, for each connection and direction.
    pub early_responses: usize,
    /// How long such an answer waits.
    pub early_response_wait: Duration,
    /// Bytes of pins that are kept.
    pub pin_bytes: usize,
    /// Tools remembered for each connection.
    pub tools: usize,
    /// Tools of which it is known that they wait for approval, or waited in vain.
    pub approvals: usize,
    /// Those of one user's servers.
    pub approvals_per_user: usize,
    /// States of requests that servers gave and clients come back with, and tasks: of each.
    pub handed_out: usize,
    /// Those of one user.
    pub handed_out_per_user: usize,
    /// Requests to a relay that are held to see whether it passes them on, over all connections.
    pub held_requests: usize,
    /// Bytes of those.
    pub held_bytes: usize,
    /// How long such a request is held.
    pub relay_hold: Duration,
    /// How much later a relay may pass on what was reported as its own by then, and not be taken to ask by itself.
    pub relay_late: Duration,
    /// Frames from the client in which a connection of no name must get to MCP.
    pub opening_frames: usize,
    /// From a server's first request to `mcp_server_started`, where it does not answer before: until it does, the
    /// program that serves may not be running yet (`npx`, then `sh`, then `node`).
    pub start_wait: Duration,
    /// From the last exit to `mcp_server_exited`: answers may be read after the server died.
    pub exit_linger: Duration,
    /// Bytes of the longest frame that is inspected at once. A longer one waits until it was inspected apart.
    pub frame_at_once: usize,
    /// Bytes that such frames may have, and what waits behind them.
    pub waiting_bytes: usize,
    /// Those of one user's connections.
    pub waiting_bytes_per_user: usize,
    /// How many are inspected apart at once.
    pub inspections: usize,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            departed: 4_096,
            connections_per_user: 1_024,
            refused: 4_096,
            bytes: 64 << 20,
            bytes_per_user: 32 << 20,
            chain: 32,
            candidate_frames: 64,
            candidate_bytes: 256 * 1024,
            open_requests: 10_000,
            // A burst is one write, and captured when that returns: as many answers as a pipe holds requests come
            // before.
            early_responses: 4_096,
            // As long as a write can be blocked while the server answers what it has of it.
            early_response_wait: Duration::from_secs(30),
            pin_bytes: 16 << 20,
            tools: 10_000,
            approvals: 1_024,
            approvals_per_user: 256,
            handed_out: 16_384,
            handed_out_per_user: 4_096,
            held_requests: 4_096,
            held_bytes: 32 * 1024 * 1024,
            // A gateway in an interpreted language takes tens of milliseconds while it starts or collects garbage, and on a busy
            // host one that is asked a thousand things at once took more than a hundred.
            relay_hold: Duration::from_millis(250),
            // A gateway may start what is behind it when it is first asked.
            relay_late: Duration::from_secs(30),
            opening_frames: 8,
            start_wait: Duration::from_secs(2),
            exit_linger: Duration::from_secs(1),
            // The slowest texts are inspected at 5 MB/s: 7 ms, in which nobody else gets a turn.
            frame_at_once: 32 << 10,
            // Two of the longest messages and more.
            waiting_bytes: 80 << 20,
            waiting_bytes_per_user: 40 << 20,
            inspections: 2,
        }
    }
}

/// What the engine is told at start.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// How much of arguments and results is put into events.
    pub payloads: Payloads,
    /// Whether messages other than tool calls and their results are events too.
    pub verbose: bool,
    /// Secret of this host: hashes of redacted values and session ids are keyed with it.
    pub redaction_key: [u8; 32],
    /// Which command lines are MCP servers by name.
    pub patterns: NamePatterns,
    /// Servers that the configuration declares.
    pub declared: Vec<Declared>,
    /// Servers that the configuration declares at addresses.
    pub remote: Vec<Remote>,
    /// What is looked for in definitions, arguments and results. `None`: nothing is.
    pub inspection: Option<Inspect>,
    /// Detections that are no alerts, of `inspection.muted`.
    pub muted: Vec<Mute>,
    /// What is pinned, and when names are nearly the same.
    pub registry: RegistrySettings,
    /// Bounds.
    pub limits: EngineLimits,
}

/// What is looked for, and from when on that is an event.
#[derive(Clone, Debug)]
pub struct Inspect {
    /// The compiled rules.
    pub detector: Arc<Detector>,
    /// Detections of this severity and worse are events of their own.
    pub alert_threshold: Severity,
}

impl Inspect {
    /// The built-in rules, with the default threshold.
    ///
    /// # Errors
    /// A built-in rule does not compile, which a test rules out.
    pub fn built_in() -> Result<Self, Vec<RuleError>> {
        let detector = Detector::new(RuleSet::built_in()?, &DetectConfig::default())?;
        Ok(Self { detector: Arc::new(detector), alert_threshold: Severity::High })
    }
}

impl EngineConfig {
    /// The embedded defaults, with the secret of this host.
    pub fn new(redaction_key: [u8; 32]) -> Self {
        Self {
            payloads: Payloads::Redacted,
            verbose: false,
            redaction_key,
            patterns: NamePatterns::default(),
            declared: Vec::new(),
            remote: Vec::new(),
            inspection: None,
            muted: Vec::new(),
            registry: RegistrySettings::default(),
            limits: EngineLimits::default(),
        }
    }
}

impl EngineConfig {
    /// The declared server of this id.
    pub(super) fn declaration(&self, id: &ServerId) -> Option<&Declared> {
        self.declared.iter().find(|declared| declared.id == *id)
    }
}

counters! { Counters {
    /// Conversations with servers at addresses.
    reached,
    /// Requests that such servers refused by a status of HTTP.
    requests_refused,
    /// Connections to such servers, or messages of them, that could not be inspected.
    uninspected,
    /// Servers whose standard input and output are not captured.
    servers_uncaptured,
    /// Frames handed in.
    frames,
    /// Messages found in them.
    messages,
    /// Frames that were no JSON-RPC.
    invalid_frames,
    /// Messages in batches beyond the bound of a batch (see [`crate::protocol`]): the batch is lost.
    oversized_batches,
    /// Frames that were not UTF-8 and were read with replacement characters.
    lossy_frames,
    /// Frames with raw control characters, or with numbers such as `NaN`, that were read nonetheless.
    repaired_frames,
    /// Messages without `"jsonrpc": "2.0"`.
    unversioned_messages,
    /// Messages that only the other side asks, such as `tools/call` of a server: they count as no such thing.
    misdirected_messages,
    /// Bytes handed in as junk.
    junk_bytes,
    /// Gaps handed in.
    gaps,
    /// Bytes of those gaps.
    gap_bytes,
    /// Programs handed in.
    execs,
    /// Connections found to be MCP servers.
    servers,
    /// Servers with the command line of a declared one that another program serves than its declaration says.
    servers_mistaken,
    /// Programs that ran on a server's connection after its first answer.
    later_programs,
    /// Declared servers with variables in their environment, or options that are not declared, that name code to load.
    servers_preloaded,
    /// Connections found not to be.
    candidates_dropped,
    /// Connections refused since there were too many.
    connections_refused,
    /// Connections of servers refused that are not held for undecided either, since there were too many.
    refused_overflow,
    /// Programs of a chain that were not remembered since it was too long.
    chain_overflow,
    /// Frames and connects of a candidate that were not kept since there were too many.
    candidate_overflow,
    /// Tool calls.
    calls,
    /// Requests to APIs of models.
    model_requests,
    /// Answers of models that were read.
    model_answers,
    /// Of them: those of which the end did not come, or some was not captured.
    model_answers_broken,
    /// Answers of models that were given up, since there were too many, or they held too much.
    model_answers_dropped,
    /// Calls that models wanted.
    intents,
    /// Of them: those that a client made.
    intents_called,
    /// Answers whose request was never seen.
    unmatched_responses,
    /// Answers that were recorded before their request.
    early_responses,
    /// Further answers to requests that had one.
    repeated_responses,
    /// Messages that not every reader takes for the same: by their framing, by the case of their keys, or second answers.
    irregular_messages,
    /// Lists that are said to be the same for all users, and were not remembered since there were too many.
    public_lists_forgotten,
    /// Forms of the other era of MCP, and changes of who speaks, in conversations.
    protocol_violations,
    /// Open requests given up since there were too many.
    open_requests_evicted,
    /// Requests that reused the id of one still open.
    id_reused,
    /// Requests that a client sent again with what their server asked for: each is one with its first try.
    retries,
    /// Requests of servers to clients that came in answers and tasks.
    input_requests,
    /// Those beyond the bound of one answer: they were inspected, but not evaluated one by one.
    input_requests_skipped,
    /// States of requests that were forgotten since too many were given: what comes back with one is taken for a new request.
    rounds_evicted,
    /// Tasks that were forgotten since there were too many: their results are no call's.
    tasks_evicted,
    /// Tools that were not remembered since there were too many; each sight of one is reported again.
    tools_overflow,
    /// What guards object to.
    denials,
    /// Things found that are bad enough to be events, and are not muted.
    detections,
    /// Things found that are recorded, and are no alerts since a mute applies.
    detections_muted,
    /// Mutes of operators.
    mutes_made,
    /// Mutes that ended, at their time or by hand.
    mutes_ended,
    /// Mutes of operators that were refused since too many are in force.
    mutes_refused,
    /// Events that were not reported by themselves, since there were many of their like.
    events_folded,
    /// Bounds that an inspection reached: something was not looked at, or not said.
    inspection_bounds,
    /// Long messages that were inspected apart.
    inspections_apart,
    /// Long messages of which most was not inspected, since too many waited, or the agent ended.
    inspections_given_up,
    /// Messages that waited behind those.
    messages_delayed,
    /// Answers to a request for a list that have none; nothing of what was known changes.
    invalid_lists,
    /// Entries of a `tools/list` answer that are no tool definition.
    invalid_tools,
    /// Requests that a relay passed on and that were reported once.
    relayed_requests,
    /// Requests to a relay that were not held since there were too many.
    held_overflow,
    /// Tools that somebody was asked to approve.
    approvals_requested,
    /// Tools approved by hand.
    approvals_granted,
    /// Calls of held tools that a limited approval let pass.
    limited_approvals_used,
    /// Tools denied by hand.
    approvals_denied,
    /// Tools that nobody approved in time.
    approvals_timed_out,
    /// Times that nobody was asked about a held tool since too many wait.
    approvals_refused,
    /// Requests that were unanswered for too long.
    requests_timed_out,
    /// Times that a server was asked too much at once.
    concurrency_exceeded,
    /// Connects handed in: to declared servers, to what is denied, and of servers' processes.
    connects,
    /// Those of them that are denied, enforced or not.
    connects_denied,
    /// Connects of servers' processes that were reported.
    egress,
    /// Destinations of servers that were not remembered since there were too many; each sight of one is a first one.
    destinations_overflow,
    /// Servers that have ended whose processes, where any live on, are nobody's now.
    departed_evicted,
}}
