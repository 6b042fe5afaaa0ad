//! What answers deny.

use super::*;
use crate::config::{self, Config};
use crate::terms::contract::GuardName;

fn guard(more: &str) -> ExternalGuard {
    let yaml = format!(
        "guards: [{{ kind: http, name: g, config: {{ url: 'https://x.example/', valid_for: 10m }}{more} }}]"
    );
    let (config, _): (Config, _) = config::parse(yaml.as_bytes()).unwrap();
    ExternalGuard::all(&config).unwrap().remove(0)
}

fn subjects(phase: Phase) -> Subjects {
    let tools: &[(&str, &str)] = match phase {
        Phase::ToolsList => &[("a", "1"), ("b", "2")],
        Phase::ToolInvoke | Phase::ToolResult => &[("a", "")],
        _ => &[],
    };
    let tools = tools.iter().map(|(tool, hash)| (Arc::from(*tool), Arc::from(*hash))).collect();
    let name = if tools_are_none(phase) { "x" } else { "" };
    Subjects {
        phase,
        server: ServerId("s".into()),
        session: SessionId("c".into()),
        owner: None,
        tools,
        name: name.into(),
    }
}

fn tools_are_none(phase: Phase) -> bool {
    matches!(phase, Phase::PromptRequest | Phase::ResourceRequest)
}

/// Each denial in short: server, session, what, until when in seconds.
fn short(verdicts: &Verdicts) -> Vec<String> {
    let one = |denial: &StandingDenial| {
        let server = denial.server.as_ref().map_or("*", |id| &id.0);
        let session = denial.session.as_ref().map_or("*", |id| &id.0);
        let what = match &denial.subject {
            DeniedSubject::All => "all".to_owned(),
            DeniedSubject::Tool(tool) => format!("tool {tool}"),
            DeniedSubject::Definition { tool, hash } => format!("{tool}#{hash}"),
            DeniedSubject::Prompt(name) => format!("prompt {name}"),
            DeniedSubject::Resource(uri) => format!("resource {uri}"),
        };
        let until = denial.until.map_or("ever".to_owned(), |until| (until.0 / 1_000_000_000).to_string());
        assert_eq!(*denial.guard, GuardName { kind: crate::terms::GuardKind::Http, name: "g".into() });
        format!("{server} {session} {what} {until}")
    };
    verdicts.denials.iter().map(one).collect()
}

#[test]
fn denial_holds_for_its_scope_and_time() {
    use Phase::{PromptRequest, ResourceRequest, ToolInvoke, ToolResult, ToolsList};
    let cases: [(Phase, Option<&str>, &[&str]); 22] = [
        (ToolsList, None, &["s * a#1 ever", "s * b#2 ever"]),
        (ToolsList, Some(r#"{"tools":["b"]}"#), &["s * b#2 ever"]),
        (ToolsList, Some(r#"{"tools":["z"]}"#), &[]),
        (ToolsList, Some(r#"{"tools":["a"],"valid_for":60}"#), &["s * a#1 60"]),
        (ToolsList, Some(r#"{"tools":["a"],"scope":"tool"}"#), &["s * tool a 600"]),
        (ToolsList, Some(r#"{"scope":"server"}"#), &["s * all 600"]),
        (ToolInvoke, None, &["s c tool a 600"]),
        (ToolInvoke, Some(r#"{"scope":"tool"}"#), &["s * tool a 600"]),
        (ToolInvoke, Some(r#"{"scope":"session"}"#), &["* c all 600"]),
        (ToolInvoke, Some(r#"{"scope":"session_server","valid_for":"2m"}"#), &["s c all 120"]),
        (ToolInvoke, Some(r#"{"valid_for":1.5}"#), &["s c tool a 1"]),
        // What makes no sense leaves the denial as it is.
        (ToolInvoke, Some(r#"{"scope":"definition"}"#), &["s c tool a 600"]),
        (ToolInvoke, Some(r#"{"scope":"prompt"}"#), &["s c tool a 600"]),
        (ToolInvoke, Some(r#"{"scope":"everything","valid_for":-1}"#), &["s c tool a 600"]),
        (ToolInvoke, Some(r#"{"scope":7,"valid_for":"soon"}"#), &["s c tool a 600"]),
        (ToolInvoke, Some(r#"["scope"]"#), &["s c tool a 600"]),
        (ToolInvoke, Some("no JSON"), &["s c tool a 600"]),
        (ToolInvoke, Some(r#"{"valid_for":1e300}"#), &["s c tool a 600"]),
        (ToolResult, Some(r#"{"tools":[]}"#), &[]),
        (PromptRequest, None, &["s c prompt x 600"]),
        (ResourceRequest, None, &["s c resource x 600"]),
        (ResourceRequest, Some(r#"{"scope":"tool"}"#), &["s c resource x 600"]),
    ];
    for (phase, details, expected) in cases {
        let reason =
            GuardReason { code: "c".into(), message: "m".into(), details: details.map(str::to_owned) };
        let reply = GuardReply::Deny { reason };
        let Ok(Consequence::Deny(verdicts)) = consequence(&guard(""), &subjects(phase), &reply, Timestamp(0))
        else {
            panic!("{phase:?} {details:?}");
        };
        assert_eq!(short(&verdicts), expected, "{phase:?} {details:?}");
    }
}

#[test]
fn failure_denies_for_a_minute_or_not_at_all() {
    for (mode, failure, expected) in [
        ("", GuardFailure::Timeout, Some(("guard_timeout", "s c tool a 60"))),
        ("", GuardFailure::Error("x".into()), Some(("guard_error", "s c tool a 60"))),
        (", failure_mode: fail_open", GuardFailure::Timeout, None),
    ] {
        let made = failed(&guard(mode), &subjects(Phase::ToolInvoke), &failure, Timestamp(0));
        match (made, expected) {
            (Consequence::Nothing, None) => {}
            (Consequence::Deny(verdicts), Some((code, denial))) => {
                assert_eq!((&*verdicts.code, short(&verdicts)), (code, vec![denial.to_owned()]));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn modification_denies_tools_that_it_leaves_out() {
    use Phase::{ToolInvoke, ToolsList};
    type Made<'a> = Result<(bool, &'a [&'a str]), ()>;
    let cases: [(Phase, &str, Made<'_>); 10] = [
        (ToolsList, r#"{"type":"replace_tools","tools":["a"]}"#, Ok((true, &["s * b#2 ever"]))),
        (ToolsList, r#"{"type":"replace_tools","tools":[{"name":"b"}]}"#, Ok((true, &["s * a#1 ever"]))),
        (ToolsList, r#"{"type":"replace_tools","tools":[]}"#, Ok((true, &["s * a#1 ever", "s * b#2 ever"]))),
        (ToolInvoke, r#"{"type":"add_warning","message":"look"}"#, Ok((true, &[]))),
        (ToolInvoke, r#"{"type":"redact_fields","paths":["$.a"]}"#, Ok((false, &[]))),
        (ToolInvoke, r#"{"type":"replace_tools","tools":[]}"#, Err(())),
        (ToolsList, r#"{"type":"replace_tools"}"#, Err(())),
        (ToolsList, r#"{"type":"other"}"#, Err(())),
        (ToolsList, r#"{}"#, Err(())),
        (ToolsList, "no JSON", Err(())),
    ];
    for (phase, action, expected) in cases {
        let reply = GuardReply::Modify { action: action.to_owned() };
        let made = consequence(&guard(""), &subjects(phase), &reply, Timestamp(0));
        let made = match made {
            Ok(Consequence::Modify { is_applied, denied, .. }) => {
                Ok((is_applied, denied.map(|denied| short(&denied)).unwrap_or_default()))
            }
            Err(GuardFailure::Error(_)) => Err(()),
            other => panic!("{action} {other:?}"),
        };
        let expected = expected.map(|(is_applied, denied)| {
            (is_applied, denied.iter().map(|denial| (*denial).to_owned()).collect::<Vec<_>>())
        });
        assert_eq!(made, expected, "{action}");
    }
}

#[test]
fn texts_of_an_answer_are_bounded() {
    let reason = GuardReason { code: "ä".repeat(99), message: "ö".repeat(9_999), details: None };
    let reply = GuardReply::Deny { reason };
    let made = consequence(&guard(""), &subjects(Phase::ToolInvoke), &reply, Timestamp(0));
    let Ok(Consequence::Deny(verdicts)) = made else { panic!() };
    assert_eq!((verdicts.code.len(), verdicts.message.len()), (MAX_CODE_BYTES, MAX_MESSAGE_BYTES));
}
