//! Of which class of OCSF an event is, and what that class wants to know.

use std::net::{IpAddr, SocketAddr};

use mcpwarden_policy::{
    Event, EventBody,
    event::{CallStatus, Connecting, Protocol, ToolCalled, ToolResult},
    guard::GuardKind,
};
use serde::Serialize;

use mcpwarden_text::word;

/// A class.
pub struct Kind {
    pub uid: u32,
    pub name: &'static str,
    pub category_uid: u32,
    /// Of events that do not say how bad they are.
    pub severity_id: u32,
}

/// Something was found that somebody should look at. Medium.
const DETECTION_FINDING: Kind =
    Kind { uid: 2004, name: "Detection Finding", category_uid: 2, severity_id: 3 };
const API_ACTIVITY: Kind = Kind { uid: 6003, name: "API Activity", category_uid: 6, severity_id: 1 };
const NETWORK_ACTIVITY: Kind = Kind { uid: 4001, name: "Network Activity", category_uid: 4, severity_id: 1 };
const BASE_EVENT: Kind = Kind { uid: 0, name: "Base Event", category_uid: 0, severity_id: 1 };

/// What was done, by the class's own numbers.
pub struct Activity<'a> {
    pub id: u32,
    pub name: &'a str,
}

const CREATE: Activity<'_> = Activity { id: 1, name: "Create" };
const OPEN: Activity<'_> = Activity { id: 1, name: "Open" };
const REFUSE: Activity<'_> = Activity { id: 5, name: "Refuse" };

/// What OCSF has no number for.
const fn other(name: &str) -> Activity<'_> {
    Activity { id: 99, name }
}

/// `status_id` of a finding that nobody has looked at.
const NEW: u32 = 1;
const SUPPRESSED: u32 = 3;
const SUCCESS: u32 = 1;
const FAILURE: u32 = 2;

/// An event as one of a class.
pub struct Class<'a> {
    pub kind: &'static Kind,
    pub activity: Activity<'a>,
    pub status_id: Option<u32>,
    pub details: Details<'a>,
}

/// What only events of one class have.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Details<'a> {
    Finding {
        finding_info: FindingInfo<'a>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        resources: Vec<Resource<'a>>,
    },
    Api {
        actor: Actor<'a>,
        api: Api<'a>,
        src_endpoint: Endpoint<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        dst_endpoint: Option<Endpoint<'a>>,
    },
    Network {
        actor: Actor<'a>,
        src_endpoint: Endpoint<'a>,
        dst_endpoint: Endpoint<'a>,
        connection_info: ConnectionInfo<'a>,
    },
    None {},
}

#[derive(Serialize)]
pub struct FindingInfo<'a> {
    uid: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    analytic: Option<Analytic<'a>>,
}

/// What found it.
#[derive(Serialize)]
struct Analytic<'a> {
    /// 1 is a rule.
    type_id: u32,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<String>,
}

/// What it is about.
#[derive(Serialize)]
pub struct Resource<'a> {
    r#type: &'static str,
    name: &'a str,
}

#[derive(Default, Serialize)]
pub struct Actor<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    app_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Session<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<Process<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<User>,
}

#[derive(Serialize)]
struct Session<'a> {
    uid: &'a str,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
}

#[derive(Serialize)]
struct User {
    uid: String,
}

#[derive(Serialize)]
pub struct Api<'a> {
    operation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Service<'a>>,
    request: Request,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Response<'a>>,
}

#[derive(Serialize)]
struct Service<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct Request {
    uid: String,
}

#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<&'a str>,
}

#[derive(Default, Serialize)]
pub struct Endpoint<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    svc_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
pub struct ConnectionInfo<'a> {
    direction_id: u32,
    protocol_num: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_ver_id: Option<u32>,
}

/// The class of an event of this host, which is called `uid` there and `message` in words.
pub fn of<'a>(event: &'a Event, hostname: &'a str, uid: &'a str, message: &'a str) -> Class<'a> {
    let finding = |analytic: Option<Analytic<'a>>| Class {
        kind: &DETECTION_FINDING,
        activity: CREATE,
        status_id: Some(NEW),
        details: Details::Finding {
            finding_info: FindingInfo { uid, title: message, analytic },
            resources: resources(event),
        },
    };
    match &event.body {
        EventBody::Detected(found) => {
            let detection = &found.detection;
            let analytic = Analytic { category: Some(word(&detection.category)), ..rule(&detection.pattern) };
            let class = finding(Some(analytic));
            Class { status_id: Some(if found.muted { SUPPRESSED } else { NEW }), ..class }
        }
        EventBody::ToolChanged(_) | EventBody::DefinitionChanged(_) => {
            finding(Some(rule(GuardKind::RugPull.name())))
        }
        EventBody::CrossServerBlocked(blocked) => finding(Some(rule(&blocked.rule))),
        EventBody::RequestBlocked(blocked) => finding(Some(rule(blocked.guard.name()))),
        EventBody::ApprovalRequested(requested) => finding(Some(rule(requested.guard.name()))),
        EventBody::GateDecided(gate) => finding(gate.guard.map(|guard| rule(guard.name()))),
        EventBody::GuardDenied(denied) => finding(Some(rule(&denied.guard_name))),
        EventBody::GuardModified(modified) => finding(Some(rule(&modified.guard_name))),
        EventBody::RequestWarned(_)
        | EventBody::TlsMismatch(_)
        | EventBody::ServerPreloaded(_)
        | EventBody::ProtocolViolation(_) => finding(None),
        EventBody::ServerExecuted(executed) if executed.mistaken_for.is_some() => finding(None),
        EventBody::ToolCalled(call) => called(event, hostname, call),
        EventBody::ToolResult(result) => answered(event, hostname, result),
        EventBody::NetworkConnection(connection) => {
            let server = event.server_id.as_ref().map(|server| &*server.0);
            connects(&connection.connecting, hostname, None, server)
        }
        EventBody::ServerEgress(egress) => {
            let [server, remote] = [&event.server_id, &egress.remote_server_id];
            let [server, remote] = [server, remote].map(|id| id.as_ref().map(|id| &*id.0));
            connects(&egress.connecting, hostname, server, remote)
        }
        // What was not seen or lost is none of them: nothing was found.
        _ => Class {
            kind: &BASE_EVENT,
            activity: other(event.kind()),
            status_id: None,
            details: Details::None {},
        },
    }
}

fn rule(name: &str) -> Analytic<'_> {
    Analytic { type_id: 1, name, category: None }
}

/// The server and the tool that an event is about.
fn resources(event: &Event) -> Vec<Resource<'_>> {
    let server = event.server_id.as_ref().map(|server| Resource { r#type: "MCP server", name: &server.0 });
    let tool = event.body.tool_name().map(|name| Resource { r#type: "MCP tool", name });
    server.into_iter().chain(tool).collect()
}

fn called<'a>(event: &'a Event, hostname: &'a str, call: &'a ToolCalled) -> Class<'a> {
    let stopped = call.decided.enforced.then_some(FAILURE);
    let request = Request { uid: call.jsonrpc_id.to_string() };
    api(event, hostname, other("Call"), stopped, &call.tool_name, request, None)
}

fn answered<'a>(event: &'a Event, hostname: &'a str, result: &'a ToolResult) -> Class<'a> {
    let status = match result.status {
        CallStatus::Ok => SUCCESS,
        CallStatus::Error => FAILURE,
    };
    let response = Response { code: result.error_code, error_message: result.error_message.as_deref() };
    let request = Request { uid: result.jsonrpc_id.to_string() };
    api(event, hostname, other("Result"), Some(status), &result.tool_name, request, Some(response))
}

fn api<'a>(
    event: &'a Event,
    hostname: &'a str,
    activity: Activity<'a>,
    status_id: Option<u32>,
    tool: &'a str,
    request: Request,
    response: Option<Response<'a>>,
) -> Class<'a> {
    let server = event.server_id.as_ref().map(|server| &*server.0);
    // What is asked for, where it does not say of which tool.
    let operation = if tool.is_empty() { "tools/call" } else { tool };
    let session = event.session_id.as_ref().map(|session| Session { uid: &session.0 });
    Class {
        kind: &API_ACTIVITY,
        activity,
        status_id,
        details: Details::Api {
            actor: Actor { app_name: Some("MCP client"), session, ..Actor::default() },
            api: Api { operation, service: server.map(|name| Service { name }), request, response },
            src_endpoint: Endpoint { hostname: Some(hostname), ..Endpoint::default() },
            dst_endpoint: server.map(|_| Endpoint { svc_name: server, ..Endpoint::default() }),
        },
    }
}

/// A connection of a process of `app`, to the declared server `service` where it is one.
fn connects<'a>(
    connecting: &'a Connecting,
    hostname: &'a str,
    app: Option<&'a str>,
    service: Option<&'a str>,
) -> Class<'a> {
    let process = Process { pid: connecting.pid, path: connecting.executable.as_deref() };
    let to: Option<SocketAddr> = connecting.remote_addr.parse().ok();
    let ip = to.map(|to| to.ip().to_canonical());
    let (protocol_num, protocol_name) = match connecting.protocol {
        Protocol::Tcp => (6, Some("tcp")),
        Protocol::Udp => (17, Some("udp")),
        Protocol::Other(number) => (number, None),
    };
    Class {
        kind: &NETWORK_ACTIVITY,
        activity: if connecting.enforced { REFUSE } else { OPEN },
        status_id: connecting.enforced.then_some(FAILURE),
        details: Details::Network {
            actor: Actor {
                app_name: app,
                session: None,
                process: Some(process),
                user: connecting.uid.map(|uid| User { uid: uid.to_string() }),
            },
            src_endpoint: Endpoint { hostname: Some(hostname), ..Endpoint::default() },
            dst_endpoint: Endpoint {
                hostname: connecting.remote_name.as_deref(),
                ip,
                port: to.map(|to| to.port()),
                svc_name: service,
                name: to.is_none().then_some(&*connecting.remote_addr),
            },
            connection_info: ConnectionInfo {
                // Local, or outbound.
                direction_id: if ip.is_some_and(|ip| ip.is_loopback()) { 4 } else { 2 },
                protocol_num,
                protocol_name,
                protocol_ver_id: ip.map(|ip| if ip.is_ipv4() { 4 } else { 6 }),
            },
        },
    }
}
