//! What denials by the rules across servers tell besides their codes.

use super::*;
use crate::event::{Action, RelatedCall};
use crate::terms::{ConnectionId, ServerId};

fn rule_of(denial: &Denial) -> &BrokenRule {
    match &denial.details {
        Some(DenialDetails::Rule(broken)) => broken,
        other => panic!("{other:?}"),
    }
}

#[test]
fn cross_server_denial_details_rule_turn_and_calls() {
    use DenialCode::{CrossServerFlow, ReadThenSend};
    let (a, b) = (World::server("a"), World::server("b"));
    let read = |guard: &mut CrossServer| ask(guard, &a, "read_x", at(0.0), true);
    type Change = fn(&mut CrossServerConfig);
    type Told = (DenialCode, Severity, Option<TurnSource>);
    let cases: [(Change, &str, Option<&str>, &str, Told); 4] = [
        (
            |_| {},
            "send_x",
            None,
            "Server 'b' attempted send after 'a' read data 2s ago",
            (ReadThenSend, Severity::Critical, None),
        ),
        (
            |_| {},
            "write_x",
            None,
            "Cross-server data flow: 'a' read → 'b' write in same turn (no pause longer than 2s)",
            (CrossServerFlow, Severity::High, Some(TurnSource::Gap)),
        ),
        (
            |config| config.read_then_send.enabled = false,
            "send_x",
            Some("req-1"),
            "Cross-server data flow: 'a' read → 'b' send in same turn (no pause longer than 2s)",
            (CrossServerFlow, Severity::High, Some(TurnSource::Gap)),
        ),
        (
            |config| config.cross_server_flow.same_turn_only = false,
            "write_x",
            None,
            "Cross-server data flow: 'a' read → 'b' write within 30s",
            (CrossServerFlow, Severity::High, None),
        ),
    ];
    for (change, tool, turn, message, (rule, severity, source)) in cases {
        let mut guard = guard(change);
        read(&mut guard);
        let world = World { turn: turn.map(str::to_owned), ..World::server("b") };
        let denial = ask(&mut guard, &world, tool, at(2.0), true).unwrap();
        let related = RelatedCall {
            timestamp: at(0.0),
            server_id: ServerId("a".into()),
            connection: Some(ConnectionId(7)),
            jsonrpc_id: 5.into(),
            request_id: None,
            method: "tools/call".to_owned(),
            tool_name: "read_x".to_owned(),
            tool_id: "mcp:a:read_x".to_owned(),
            category: ToolCategory::Read,
            action: Action::Allow,
        };
        let broken =
            BrokenRule { rule, severity, original_server_id: None, related: vec![related], turn: source };
        let expected =
            Denial { code: rule, message: message.to_owned(), details: Some(DenialDetails::Rule(broken)) };
        assert_eq!(denial, expected);
    }
    let named = |server| World { turn: Some("req-1".to_owned()), ..World::server(server) };
    let mut guard = super::guard(|_| {});
    ask(&mut guard, &named("a"), "read_x", at(0.0), true);
    let denial = ask(&mut guard, &named("b"), "write_x", at(20.0), true).unwrap();
    let reason = "Cross-server data flow: 'a' read → 'b' write in same turn (same request id)";
    assert_eq!((denial.message.as_str(), rule_of(&denial).turn), (reason, Some(TurnSource::RequestId)));

    let mut guard = super::guard(|config| config.burst.max_calls = 2);
    play(&mut guard, &[L(0.0, "a"), L(0.0, "b")], true);
    for _ in 0..2 {
        ask(&mut guard, &b, "weather", at(0.0), true);
    }
    ask(&mut guard, &a, "weather", at(0.0), true);
    let denial = ask(&mut guard, &b, "weather", at(0.0), true).unwrap();
    assert_eq!(denial.message, "Server 'b' exceeded burst limit: more than 2 calls in 5s");
    assert_eq!(rule_of(&denial).severity, Severity::High);
}
