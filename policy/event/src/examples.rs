//! One event of each type, for what has to deal with all of them: the tests of this crate and of others. One module for each
//! group of events.

mod agent;
mod approval;
mod definition;
mod judgement;
mod mute;
mod network;
mod server;
mod store;
mod traffic;

use mcpwarden_terms::GuardKind;

use super::*;

fn about(body: impl Into<EventBody>) -> Event {
    Event {
        timestamp: Timestamp(1_767_695_400_000_000_000),
        session_id: Some(SessionId("sess_0123456789ab".into())),
        server_id: Some(ServerId("server-git".into())),
        server_type: Some(ServerType::Stdio),
        via: vec![ServerId("relay".into())],
        connection: Some(ConnectionId(7)),
        trace: Trace {
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
            tracestate: Some("a=b".into()),
        },
        repeats: Some(3),
        body: body.into(),
        link: Some(Link { seq: 9, previous: format!("sha256:{:064}", 0) }),
        owner: None,
    }
}

/// What may be found in a text.
fn detection() -> Detection {
    Detection {
        pattern: "p".into(),
        category: Category::CredentialTheft,
        severity: Severity::High,
        field: "/description".into(),
        matches: vec![Match { text: "m".into(), position: 3, context: "a m b".into() }],
        score: 100,
        form: Form::Raw,
        muted_by: None,
    }
}

/// What a guard may say against a call.
fn objection() -> Objection {
    Objection { guard: GuardKind::ServerAccess, code: "server_denied".into(), reason: "r".into() }
}

/// One of each, with as many fields as it can have, and one with as few.
pub fn examples() -> Vec<Event> {
    [
        network::examples(),
        judgement::examples(),
        agent::examples(),
        store::examples(),
        definition::examples(),
        approval::examples(),
        mute::examples(),
        traffic::examples(),
        server::examples(),
    ]
    .concat()
}
